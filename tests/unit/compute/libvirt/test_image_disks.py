# SPDX-License-Identifier: Apache-2.0
"""Which disks are imaged, and what they are said to be made of."""

import json
import os
import subprocess

import pytest

from stillframe.compute.libvirt import image_disks

UUID = '11111111-1111-4111-8111-111111111111'


def domain(*disks: str, more: str = '') -> str:
    return (f'<domain type="qemu"><name>web</name><uuid>{UUID}</uuid>'
            f'{more}<devices>{"".join(disks)}</devices></domain>')


def disk(target: str, path: str = '/disks/a', form: str = 'raw',
         more: str = '', device: str = 'disk') -> str:
    return (f'<disk type="file" device="{device}"><driver name="qemu" '
            f'type="{form}"/><source file="{path}"/><target '
            f'dev="{target}"/>{more}</disk>')


def test_disks_with_data_the_first_one_is_the_root():
    found = image_disks.find(domain(
        disk('vda'), disk('sda', device='cdrom'),
        disk('vdb', more='<readonly/>'), disk('vdc', '/disks/c', 'qcow2'),
        '<disk type="file" device="disk"><target dev="vdd"/></disk>'))
    assert [(one.target, one.path, one.format, one.root)
            for one in found] == [('vda', '/disks/a', 'raw', True),
                                  ('vdc', '/disks/c', 'qcow2', False)]


def test_the_boot_order_says_which_is_the_root():
    found = image_disks.find(domain(
        disk('vda'), disk('vdb', more='<boot order="2"/>'),
        disk('vdc', more='<boot order="1"/>')))
    assert [one.target for one in found] == ['vdc', 'vdb', 'vda']
    assert [one.root for one in found] == [True, False, False]


def test_a_label_says_as_whom_qemu_runs():
    label = ('<seclabel type="dynamic" model="{}"><label>{}</label>'
             '</seclabel>')
    assert image_disks.owner(domain(
        more=label.format('apparmor', 'x') + label.format(
            'dac', '+64055:+994'))) == (64055, 994)
    assert image_disks.owner(domain(
        more=label.format('dac', 'somebody'))) is None


def test_a_process_says_as_whom_qemu_runs():
    # A shell that waits by itself: another program in its place would have
    # other arguments. Until it speaks, it may have none yet.
    with subprocess.Popen(
            ['sh', '-c', 'echo here; read line', '-uuid', UUID, 'more'],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout.readline() == b'here\n'
            assert image_disks.owner(domain()) == (os.getuid(), os.getgid())
        finally:
            process.kill()


def qemu_img(*words: object) -> None:
    subprocess.run(['qemu-img', *map(str, words)], check=True,
                   capture_output=True)


def one(path: object, form: str | None, kind: str = 'file'
        ) -> image_disks.Disk:
    return image_disks.Disk('vda', UUID, kind, str(path), form, True)


def test_every_format_of_a_chain_is_given(tmp_path):
    base, middle, top = (tmp_path / name for name in ('base', 'mid', 'top'))
    qemu_img('create', '-f', 'raw', base, '1M')
    qemu_img('create', '-f', 'qcow2', '-b', base, '-F', 'raw', middle)
    qemu_img('create', '-f', 'qcow2', '-b', 'mid', '-F', 'qcow2', top)
    node = image_disks.block_node(one(top, 'qcow2'))
    assert [node['driver'], node['backing']['driver'],
            node['backing']['backing']['driver']] == [
        'qcow2', 'qcow2', 'raw']
    assert 'backing' not in node['backing']['backing']
    assert node['backing']['file']['filename'] == str(middle)
    # QEMU takes it as the name of a file.
    name = image_disks.as_name(node)
    assert json.loads(name.removeprefix('json:')) == node
    qemu_img('compare', '-F', 'raw', name, base)


def test_raw_is_raw_whatever_is_in_it(tmp_path):
    qemu_img('create', '-f', 'qcow2', '-u', '-b', '/etc/passwd', '-F',
             'raw', tmp_path / 'disk', '1M')
    node = image_disks.block_node(one(tmp_path / 'disk', 'raw'))
    assert node['driver'] == 'raw'
    assert 'backing' not in node


@pytest.mark.parametrize('form', (None, 'vmdk', 'luks'))
def test_other_formats_are_refused(tmp_path, form):
    with pytest.raises(image_disks.DiskError, match='format'):
        image_disks.block_node(one(tmp_path / 'disk', form))


def test_a_format_that_nobody_wrote_down_is_not_guessed(tmp_path):
    qemu_img('create', '-f', 'raw', tmp_path / 'base', '1M')
    path = tmp_path / 'top'
    qemu_img('create', '-f', 'qcow2', '-b', 'base', '-F', 'raw', path)
    blob = bytearray(path.read_bytes())
    at = blob.index(b'\xe2\x79\x2a\xca')
    blob[at:at + 4] = b'\0\0\0\1'
    path.write_bytes(blob)
    with pytest.raises(image_disks.DiskError, match='None'):
        image_disks.block_node(one(path, 'qcow2'))


@pytest.mark.parametrize('kind', ('network', 'volume'))
def test_disks_elsewhere_are_refused(kind):
    with pytest.raises(image_disks.DiskError, match='not in a file'):
        image_disks.block_node(one('/x', 'raw', kind))


def test_a_chain_without_an_end_is_refused(tmp_path):
    for name, below in (('a', 'b'), ('b', 'a')):
        qemu_img('create', '-f', 'qcow2', '-u', '-b', below, '-F', 'qcow2',
                 tmp_path / name, '1M')
    with pytest.raises(image_disks.DiskError, match='too many layers'):
        image_disks.block_node(one(tmp_path / 'a', 'qcow2'))


def test_a_file_that_is_no_qcow2_is_refused(tmp_path):
    (tmp_path / 'disk').write_bytes(b'no qcow2' * 1000)
    with pytest.raises(image_disks.DiskError, match='no readable'):
        image_disks.block_node(one(tmp_path / 'disk', 'qcow2'))
