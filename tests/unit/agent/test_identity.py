# SPDX-License-Identifier: Apache-2.0
"""The names that a disk is known by."""

import struct
import subprocess

import pytest

from stillframe.agent import disks
from stillframe.agent import failures
from stillframe.agent import identity
from stillframe.agent import source

MIB = 1 << 20
UUID = '8d2f6f0e-6b9c-4c2b-9a51-3d1f0c7e5a42'
OTHER = '1d0c7e4a-1b3f-4c5d-9e6f-7a8b9c0d1e2f'


def file_system(path, uuid):
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open('wb') as file:
        file.truncate(8 * MIB)
    subprocess.run(['mkfs.ext4', '-q', '-F', '-U', uuid, path], check=True)
    return path


@pytest.fixture
def disk(tmp_path):
    """A disk with an MBR, and a file system in its partition."""
    inside = file_system(tmp_path / 'inside', UUID)
    path = tmp_path / 'disk'
    path.write_bytes(
        bytes(440) + struct.pack('<I2x', 0xcafe1234)
        + struct.pack('<4xB3xII', 0x83, 2048, 16384) + bytes(48)
        + b'\x55\xaa' + bytes(MIB - 512) + inside.read_bytes())
    return disks.Disk(str(path), path.stat().st_size)


def link(root, path, holder):
    """Have a block device be held by another, as sysfs shows it."""
    (root / 'sys/class/block' / path / 'holders').mkdir(
        parents=True, exist_ok=True)
    (root / 'sys/class/block' / path / 'holders' / holder).touch()


def test_all_that_ironic_may_have_noted(disk, tmp_path):
    assert identity.names(disk, tmp_path) == {
        '0xcafe1234', 'cafe1234', 'cafe1234-01', UUID}


def test_what_is_made_of_it(disk, tmp_path):
    """A root file system in LVM in LUKS in a partition."""
    link(tmp_path, 'disk/disk1', 'dm-0')
    (tmp_path / 'sys/class/block/disk/disk1/partition').touch()
    link(tmp_path, 'dm-0', 'dm-1')
    # No end in itself.
    link(tmp_path, 'dm-1', 'dm-0')
    file_system(tmp_path / 'dev/dm-1', OTHER)
    assert {UUID, OTHER} < identity.names(disk, tmp_path)


def test_a_disk_that_is_gone(tmp_path):
    assert identity.names(disks.Disk('/nowhere', MIB), tmp_path) == set()


def test_a_disk_that_can_be_read_in_part(disk, tmp_path, monkeypatch):
    real = source.Source.read

    def read(self, offset, length):
        if offset >= MIB:
            raise failures.ReadFailed('x')
        return real(self, offset, length)

    monkeypatch.setattr(source.Source, 'read', read)
    found = identity.names(disk, tmp_path)
    assert 'cafe1234' in found
    assert UUID not in found
