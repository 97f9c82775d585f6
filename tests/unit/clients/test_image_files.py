# SPDX-License-Identifier: Apache-2.0
"""Images as files: nothing outside of the folder, nothing replaced."""

import errno
import hashlib
import os
import stat

import pytest

from stillframe.clients import image_files
from stillframe.clients import images

DATA = bytes(range(256)) * 20000


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / 'images'
    (made / 'a').mkdir(parents=True)
    return made


def write(folder, name, data=DATA, length=None, source=None):
    return image_files.write(
        str(folder / name), ['https://example.org/', f'file://{folder}'],
        source or (lambda: iter([memoryview(data)])),
        len(data) if length is None else length, id)


def holds(folder, name, *more):
    return image_files.holds(str(folder / name), [f'file://{folder}/'],
                             *more)


def names(folder):
    return sorted(os.listdir(folder))


def test_reading_one_can_be_ended(folder):
    write(folder, 'x')
    calls = []

    def check():
        calls.append(None)
        if len(calls) == 2:
            raise RuntimeError

    with pytest.raises(RuntimeError):
        holds(folder, 'x', None, check)
    assert len(calls) == 2
    # What has a wrong size is not read.
    assert holds(folder, 'x', range(5), check) == images.Stored(
        len(DATA), 'sha256', '')
    assert len(calls) == 2


@pytest.mark.parametrize('name', ['x.qcow2', 'a/x.qcow2'])
@pytest.mark.parametrize('unnamed', [True, False])
def test_an_image(folder, name, unnamed, monkeypatch):
    if not unnamed:
        real = os.open

        def opened(path, flags, *more, **kwargs):
            if flags & os.O_TMPFILE == os.O_TMPFILE:
                raise OSError(errno.EOPNOTSUPP, 'as NFS says')
            return real(path, flags, *more, **kwargs)

        monkeypatch.setattr(os, 'open', opened)
        # What a killed try left.
        (folder / name).with_name('.x.qcow2.part').write_text('half')
    assert holds(folder, name) is None
    stored = write(folder, name)
    assert (folder / name).read_bytes() == DATA
    assert stored == images.Stored(len(DATA), 'sha256',
                                   hashlib.sha256(DATA).hexdigest())
    assert holds(folder, name) == stored
    assert stat.S_IMODE((folder / name).stat().st_mode) == 0o640
    assert not [one for one in names((folder / name).parent)
                if one.startswith('.')]


@pytest.mark.parametrize('arrived', [True, False])
def test_what_a_killed_try_left_is_removed_by_who_asks(folder, arrived):
    (folder / '.x.part').write_bytes(DATA)
    (folder / '.y.part').write_bytes(DATA)
    if arrived:
        # It was killed between the two steps of giving it its name.
        os.link(folder / '.x.part', folder / 'x')
    assert (holds(folder, 'x') is not None) is arrived
    assert names(folder) == ['.y.part', 'a', *['x'][:arrived]]


def test_nothing_is_replaced(folder):
    (folder / 'x').write_text('precious')
    with pytest.raises(images.ImageRefused, match='file of that name'):
        write(folder, 'x')
    assert (folder / 'x').read_text() == 'precious'
    assert names(folder) == ['a', 'x']


@pytest.mark.parametrize('name, said', [
    ('x', 'file of that name'), ('a', 'file of that name'),
    ('b/y', 'folder is not there'), ('../y', 'folder is none')])
def test_a_look_before_an_image_is_made(folder, name, said):
    (folder / 'x').write_text('precious')
    prefixes = [f'file://{folder}']
    with pytest.raises(images.ImageRefused, match=said):
        image_files.check(str(folder / name), prefixes)
    image_files.check(str(folder / 'a/y'), prefixes)
    assert names(folder) == ['a', 'x']
    assert not names(folder / 'a')


def test_no_link_is_followed(folder, tmp_path):
    outside = tmp_path / 'outside'
    outside.mkdir()
    (folder / 'link').symlink_to(outside)
    (folder / 'dangling').symlink_to(outside / 'new')
    for name in ('link/x', 'dangling', 'link/../x', '../outside/x'):
        with pytest.raises(images.ImageRefused) as caught:
            write(folder, name)
        assert str(tmp_path) not in caught.value.message
    assert names(outside) == []
    assert names(tmp_path) == ['images', 'outside']


def test_the_operators_own_link_is_followed(folder, tmp_path):
    link = tmp_path / 'link'
    link.symlink_to(folder)
    write(link, 'x')
    assert (folder / 'x').exists()


@pytest.mark.parametrize('name', ['b/x', 'x/y', 'x' * 300])
def test_no_folder(folder, name):
    (folder / 'x').write_text('a file')
    with pytest.raises(images.ImageRefused):
        write(folder, name)


def test_below_no_prefix(folder, tmp_path):
    for path in (tmp_path / 'x', folder, f'{folder}x/y'):
        with pytest.raises(images.ImageRefused, match='url_prefixes'):
            image_files.write(str(path), [f'file://{folder}'],
                              lambda: iter([b'abc']), 3, id)


@pytest.mark.parametrize('length', [len(DATA) - 1, len(DATA) + 1])
def test_other_than_it_should_be(folder, length):
    with pytest.raises(images.ImageDamaged):
        write(folder, 'x', length=length)
    assert names(folder) == ['a']


def test_the_source_fails(folder):
    def source():
        yield DATA
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write(folder, 'x', source=source)
    assert names(folder) == ['a']


def test_no_room(folder):
    with pytest.raises(images.ImageStoreFull, match='are free'):
        write(folder, 'x', length=1 << 60)
    assert names(folder) == ['a']


def test_it_fills_up(folder, monkeypatch):
    def full(handle, data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, 'write', full)
    with pytest.raises(images.ImageStoreFull):
        write(folder, 'x')
    assert names(folder) == ['a']


def test_the_disk_fails(folder, monkeypatch):
    def fail(handle):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, 'fsync', fail)
    with pytest.raises(images.StoreUnavailable):
        write(folder, 'x')
    assert names(folder) == ['a']


def test_what_is_no_file_is_no_image(folder):
    os.mkfifo(folder / 'pipe')
    assert holds(folder, 'pipe') is None
