# SPDX-License-Identifier: Apache-2.0
"""Headers against chains, with files that qemu-img made."""

import subprocess

import pytest

from stillframe.compute.libvirt import overlays
from stillframe.compute.libvirt.chains import ChainError
from stillframe.compute.libvirt.chains import Layer

MIB = 1 << 20


def qemu_img(*words):
    subprocess.run(['qemu-img', *map(str, words)], check=True,
                   capture_output=True, timeout=30)


class Folder:
    """A folder in which the layers of a volume are made."""

    def __init__(self, path):
        self.path = path
        with (path / 'v').open('wb') as file:
            file.truncate(MIB)
        self.base = Layer(str(path / 'v'), 'raw')

    def overlay(self, name, below, form, claim=None, path=None, size=()):
        """Make one as Cinder does: the relative name comes last."""
        file = self.path / name
        qemu_img('create', '-f', 'qcow2', '-b', self.path / below, '-F',
                 form, file, *size)
        qemu_img('rebase', '-u', '-f', 'qcow2', '-b', path or below, '-F',
                 claim or form, file)
        return Layer(str(file), 'qcow2')


@pytest.fixture
def folder(tmp_path):
    return Folder(tmp_path)


class TestNew:

    def test_right(self, folder):
        new = folder.overlay('v.a', 'v', 'raw')
        overlays.check_new(new, folder.base, MIB)

    def test_raw_base_called_qcow2(self, folder):
        qemu_img('create', '-f', 'qcow2', folder.path / 'v', '1M')
        new = folder.overlay('v.a', 'v', 'qcow2')
        with pytest.raises(ChainError, match='says that v is qcow2, but it'):
            overlays.check_new(new, folder.base, MIB)

    def test_absolute_name(self, folder):
        new = folder.overlay('v.a', 'v', 'raw', path=folder.path / 'v')
        with pytest.raises(ChainError, match='without a folder'):
            overlays.check_new(new, folder.base, MIB)

    def test_another_file(self, folder):
        (folder.path / 'w').write_bytes(b'\0' * MIB)
        new = folder.overlay('v.a', 'w', 'raw')
        with pytest.raises(ChainError, match="must be 'v'"):
            overlays.check_new(new, folder.base, MIB)

    def test_no_backing_file(self, folder):
        qemu_img('create', '-f', 'qcow2', folder.path / 'v.a', '1M')
        with pytest.raises(ChainError, match='none'):
            overlays.check_new(Layer(str(folder.path / 'v.a'), 'qcow2'),
                               folder.base, MIB)

    @pytest.mark.parametrize('size', ['512K', '2M'])
    def test_another_size(self, folder, size):
        new = folder.overlay('v.a', 'v', 'raw', size=[size])
        with pytest.raises(ChainError, match='the disk has 1048576'):
            overlays.check_new(new, folder.base, MIB)

    def test_missing(self, folder):
        with pytest.raises(ChainError, match='cannot be read: No such file'):
            overlays.check_new(Layer(str(folder.path / 'x'), 'qcow2'),
                               folder.base, MIB)

    def test_raw(self, folder):
        (folder.path / 'v.a').write_bytes(b'\0' * MIB)
        with pytest.raises(ChainError, match='not a usable qcow2'):
            overlays.check_new(Layer(str(folder.path / 'v.a'), 'qcow2'),
                               folder.base, MIB)

    def test_not_empty(self, folder):
        new = folder.overlay('v.a', 'v', 'raw')
        subprocess.run(['qemu-io', '-f', 'qcow2', '-c', 'write 0 512',
                        new.path], check=True, capture_output=True)
        with pytest.raises(ChainError, match='holds data'):
            overlays.check_new(new, folder.base, MIB)

    def test_snapshots_inside(self, folder):
        new = folder.overlay('v.a', 'v', 'raw')
        qemu_img('snapshot', '-c', 'x', new.path)
        with pytest.raises(ChainError, match='of its own|holds data'):
            overlays.check_new(new, folder.base, MIB)


class TestChain:

    def test_right(self, folder):
        a = folder.overlay('v.a', 'v', 'raw')
        b = folder.overlay('v.b', 'v.a', 'qcow2')
        overlays.check_chain((b, a, folder.base))

    def test_header_lags_behind(self, folder):
        """libvirt shows one chain, a cold start would make another."""
        a = folder.overlay('v.a', 'v', 'raw')
        b = folder.overlay('v.b', 'v.a', 'qcow2')
        with pytest.raises(ChainError, match='v.b names the backing file'):
            overlays.check_chain((b, folder.base))
        with pytest.raises(ChainError, match='it has none'):
            overlays.check_chain((b,))
        with pytest.raises(ChainError, match='raw and cannot'):
            overlays.check_chain((folder.base, a))


class TestWalk:

    def test_to_a_raw_end(self, folder):
        a = folder.overlay('v.a', 'v', 'raw')
        b = folder.overlay('v.b', 'v.a', 'qcow2')
        assert overlays.walk(b) == (b, a, folder.base)

    def test_raw_is_not_opened(self, folder):
        """A guest wrote a header into its raw disk; nobody reads it."""
        qemu_img(
            'create', '-f', 'qcow2', '-u', '-b', '/etc/shadow', '-F', 'raw',
            folder.path / 'v', '1M')
        assert overlays.walk(folder.base) == (folder.base,)
        a = folder.overlay('v.a', 'v', 'raw')
        assert overlays.walk(a) == (a, folder.base)

    def test_qcow2_alone(self, folder):
        qemu_img('create', '-f', 'qcow2', folder.path / 'q', '1M')
        layer = Layer(str(folder.path / 'q'), 'qcow2')
        assert overlays.walk(layer) == (layer,)

    @pytest.mark.parametrize('name', ['/etc/shadow', '../v', 'nbd:h:1'])
    def test_leads_elsewhere(self, folder, name):
        a = folder.overlay('v.a', 'v', 'raw')
        qemu_img('rebase', '-u', '-f', 'qcow2', '-b', name, '-F', 'raw',
                 a.path)
        with pytest.raises(ChainError, match='bare name'):
            overlays.walk(a)

    def test_format_left_open(self, folder):
        a = folder.overlay('v.a', 'v', 'raw')
        path = folder.path / 'v.a'
        blob = bytearray(path.read_bytes())
        # Turn the extension that holds the format into an unknown one.
        position = blob.index(bytes.fromhex('e2792aca'))
        blob[position:position + 4] = b'none'
        path.write_bytes(blob)
        with pytest.raises(ChainError, match='does not say what format'):
            overlays.walk(a)
        with pytest.raises(ChainError, match='does not say what format'):
            overlays.check_chain((a, folder.base))

    def test_circle(self, folder):
        a = folder.overlay('v.a', 'v', 'raw')
        b = folder.overlay('v.b', 'v.a', 'qcow2')
        qemu_img('rebase', '-u', '-f', 'qcow2', '-b', 'v.b', '-F', 'qcow2',
                 a.path)
        with pytest.raises(ChainError, match='below each other'):
            overlays.walk(b)


class TestSize:

    def test_sizes(self, folder):
        assert overlays.size(folder.base) == MIB
        a = folder.overlay('v.a', 'v', 'raw')
        assert overlays.size(a) == MIB

    def test_refused(self, folder):
        for layer, says in ((Layer('/dev/null', 'raw'), 'regular'),
                            (Layer('/nowhere', 'raw'), 'No such'),
                            (Layer(folder.base.path, 'vmdk'), 'only raw')):
            with pytest.raises(ChainError, match=says):
                overlays.size(layer)


@pytest.mark.parametrize(('words', 'says'), [
    (['-o', 'data_file={}/d,data_file_raw=on'], 'another file')])
def test_data_file(folder, words, says):
    qemu_img('create', '-f', 'qcow2',
             *[word.format(folder.path) for word in words],
             folder.path / 'q', '1M')
    with pytest.raises(ChainError, match=says):
        overlays.walk(Layer(str(folder.path / 'q'), 'qcow2'))
