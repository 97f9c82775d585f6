# SPDX-License-Identifier: Apache-2.0
"""Disks as sysfs and udev show them: trees of files as real ones are."""

import pathlib

import pytest

from stillframe.agent import disks

MIB = 1 << 20


class Machine:
    """Files below a directory, as /sys, /run and /dev have them."""

    def __init__(self, root: pathlib.Path):
        self.root = root
        self.blocks = root / 'sys/class/block'
        self.blocks.mkdir(parents=True)

    def write(self, path, content):
        path = self.root / path
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            path.write_text(content)

    def block(self, name, mib=8192, parent='', **files):
        """Add a block device; files by their names with _ for /."""
        entry = f'sys/devices/{parent}{name}'
        self.write(f'{entry}/size', f'{mib * 2048}\n')
        for path, content in files.items():
            self.write(f'{entry}/{path.replace("__", "/")}', content)
        (self.blocks / name).symlink_to(self.root / entry)

    def found(self):
        return {disk.name: disk
                for disk in disks.found(self.root, lsblk=False)}


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


def test_what_is_no_disk(machine):
    for name in ('loop0', 'ram1', 'zram0', 'sr0', 'fd0', 'nbd3'):
        machine.block(name)
    machine.block('sdz', mib=0)
    machine.block('dm-0', dm__uuid='LVM-abc\n')
    machine.block('dm-1', dm__uuid='CRYPT-LUKS2-abc\n')
    machine.block('nvme0c0n1', hidden='1\n')
    machine.block('sda')
    machine.block('sda1', parent='sda/', partition='1\n')
    assert list(machine.found()) == ['/dev/sda']


def test_a_scsi_disk(machine):
    machine.block(
        'sda', mib=20480, dev='8:0\n', queue__rotational='1\n',
        queue__logical_block_size='4096\n',
        target__model='ST1000NX0443    \n', target__vendor='SEAGATE \n',
        target__vpd_pg80=b'\0\x80\0\x14    S3Z5NB0K\0\0',
        target__wwid='naa.5000c500a0b1c2d3\n')
    device = machine.root / 'sys/devices/sda/2:0:1:0'
    (machine.root / 'sys/devices/sda/target').rename(device)
    (machine.root / 'sys/devices/sda/device').symlink_to(device)
    machine.write('run/udev/data/b8:0',
                  'S:disk/by-id/x\nE:ID_SERIAL_SHORT=5000c500\n'
                  'E:ID_WWN=0x5000c500a0b1c2d3\n'
                  'E:ID_WWN_WITH_EXTENSION=0x5000c500a0b1c2d30001\n'
                  'E:ID_WWN_VENDOR_EXTENSION=0x0001\n')
    machine.write('dev/sda', '')
    links = machine.root / 'dev/disk/by-path'
    links.mkdir(parents=True)
    (links / 'pci-0').symlink_to('../../sda')
    disk = machine.found()['/dev/sda']
    assert disk == disks.Disk(
        '/dev/sda', 20480 * MIB, True, 4096,
        serials=('5000c500', 'S3Z5NB0K'),
        wwns=('0x5000c500a0b1c2d3',),
        wwns_with_extension=('0x5000c500a0b1c2d30001',),
        wwn_vendor_extensions=('0x0001',), models=('ST1000NX0443',),
        vendors=('SEAGATE',), hctl='2:0:1:0',
        by_paths=('/dev/disk/by-path/pci-0',))
    assert disk.document() == {
        'name': '/dev/sda', 'serial': '5000c500',
        'wwn': '0x5000c500a0b1c2d3', 'size': 20480 * MIB,
        'model': 'ST1000NX0443'}


def test_nvme_and_virtio(machine):
    machine.block('nvme0n1', wwid='eui.0025385b71b0a1c2\n',
                  device__serial='S4EWNX0R \n', device__model='Samsung\n')
    machine.block('vda', serial='one\n', device__vendor='0x1af4\n')
    found = machine.found()
    assert found['/dev/nvme0n1'].serials == ('S4EWNX0R',)
    assert found['/dev/nvme0n1'].wwns == ('eui.0025385b71b0a1c2',)
    assert found['/dev/nvme0n1'].wwns_with_extension == (
        'eui.0025385b71b0a1c2',)
    assert found['/dev/vda'].serials == ('one',)
    assert found['/dev/vda'].hctl == ''


def test_a_name_with_a_slash(machine):
    machine.block('cciss!c0d0')
    assert list(machine.found()) == ['/dev/cciss/c0d0']


def test_arrays_and_multipath(machine):
    for name in ('sda', 'sdb'):
        machine.block(name)
        machine.block(f'{name}1', parent=f'{name}/', partition='1\n')
    machine.block('md127', md__level='raid1\n')
    machine.block('dm-0', dm__uuid='mpath-36589\n')
    machine.block('dm-1', dm__uuid='LVM-x\n')
    holders = machine.root / 'sys/devices'
    for path, holder in (('sda/sda1', 'md127'), ('sdb', 'dm-0'),
                         ('sdb', 'dm-1')):
        (holders / path / 'holders').mkdir(exist_ok=True)
        (holders / path / 'holders' / holder).symlink_to(
            holders / holder)
    found = machine.found()
    assert found['/dev/sda'].used_by == ('md127',)
    assert found['/dev/sdb'].used_by == ('dm-0',)
    assert found['/dev/md127'].kind == 'raid'
    assert found['/dev/dm-0'].kind == 'multipath'
    assert '/dev/dm-1' not in found


def test_this_machine_as_its_inventory():
    for one in disks.describe():
        assert one['size'] > 0
        assert one['name'].startswith('/dev/')
