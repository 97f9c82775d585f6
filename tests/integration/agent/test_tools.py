# SPDX-License-Identifier: Apache-2.0
"""What real tools write on disks is recognised."""

import subprocess

import pytest

from stillframe.agent import disks
from stillframe.agent import identity
from stillframe.agent import partitions
from stillframe.agent import signatures
from stillframe.agent import source

MIB = 1 << 20
UUID = '8d2f6f0e-6b9c-4c2b-9a51-3d1f0c7e5a42'
DISK_ID = '5b0e1f7a-93d4-4e0c-8c55-7a1e2d3c4b6f'
PART_ID = '0d2c7e4a-1b3f-4c5d-9e6f-7a8b9c0d1e2f'


@pytest.fixture
def disk(tmp_path):
    path = tmp_path / 'disk'
    with path.open('wb') as file:
        file.truncate(512 * MIB)
    return path


def run(*command):
    subprocess.run(list(map(str, command)), check=True, capture_output=True,
                   timeout=60)


@pytest.mark.parametrize('kind, command', [
    ('ext', ['mkfs.ext4', '-q', '-F', '-U', UUID]),
    ('xfs', ['mkfs.xfs', '-q', '-f', '-m', f'uuid={UUID}']),
    ('btrfs', ['mkfs.btrfs', '-q', '-f', '-U', UUID]),
])
def test_file_systems(disk, kind, command):
    run(*command, disk)
    with source.Source(str(disk)) as opened:
        assert signatures.read(opened.read, 0, opened.size) == (
            signatures.Found((kind,), (UUID,)))


@pytest.mark.parametrize('sector', [512, 4096])
def test_a_gpt_and_what_is_in_it(disk, tmp_path, sector):
    inside = tmp_path / 'inside'
    with inside.open('wb') as file:
        file.truncate(8 * MIB)
    run('mkfs.ext4', '-q', '-F', '-U', UUID, inside)
    run('sgdisk', '--disk-guid', DISK_ID, '--new', '1:2048:+32M',
        '--partition-guid', f'1:{PART_ID}', disk)
    if sector == 4096:
        _as_if_of_large_sectors(disk)
    run('dd', f'if={inside}', f'of={disk}', 'seek=2048', f'bs={sector}',
        'conv=notrunc')
    with source.Source(str(disk)) as opened:
        table = partitions.read(opened.read, opened.size)
    assert table.uuid == DISK_ID
    assert [one.uuid for one in table.partitions] == [PART_ID]
    assert table.partitions[0].offset == 2048 * sector
    assert identity.names(disks.Disk(str(disk), 512 * MIB)) == {
        DISK_ID, PART_ID, UUID, '0x00000000'}


def _as_if_of_large_sectors(disk):
    """Move a GPT to where it is on a disk with sectors of 4096 bytes."""
    with disk.open('r+b') as file:
        data = file.read(512 * 34)
        file.seek(512)
        file.write(bytes(512 * 33))
        file.seek(4096)
        file.write(data[512:1024])
        file.seek(2 * 4096)
        file.write(data[1024:])
