# SPDX-License-Identifier: Apache-2.0
"""What is skipped as free was free: all files are there, fsck is content."""

from collections.abc import Iterator
import os
import pathlib
import subprocess

import pytest

from stillframe.agent import disks
from stillframe.agent import orders
from stillframe.agent import stream
from tests.integration.agent import arrivals
from tests.lab import file_systems
from tests.lab import processes
from tests.lab import taker

MIB = 1 << 20
SIZE = 320
EXT4 = ['mkfs.ext4', '-q', '-F', '-E', 'nodiscard']
XFS = ['mkfs.xfs', '-q', '-K', '-f']
BTRFS = ['mkfs.btrfs', '-q', '-K', '-f']
CHECKS = {'mkfs.ext4': ['e2fsck', '-f', '-n'],
          'mkfs.ext2': ['e2fsck', '-f', '-n'],
          'mkfs.xfs': ['xfs_repair', '-n'],
          'mkfs.btrfs': ['btrfs', 'check', '--readonly',
                         '--check-data-csum']}

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0, reason='only root may mount')


@pytest.fixture
def folder() -> Iterator[pathlib.Path]:
    with processes.state_dir('free') as path:
        yield path


@pytest.fixture
def server(folder) -> Iterator[taker.Taker]:
    with taker.Taker(folder / 'received') as running:
        yield running


def send(server: taker.Taker, path: pathlib.Path, **more) -> orders.Result:
    order = orders.Order(server.url, skip_free_space=True, **more)
    return stream.Stream(order).run(disks.Disk(str(path), 0))


def check(command: list[str], image: pathlib.Path) -> None:
    done = subprocess.run([*CHECKS[command[0]], image], text=True,
                          capture_output=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


def judge(command: list[str], image: pathlib.Path, copy: pathlib.Path
          ) -> None:
    """See that a copy has all that its original has."""
    check(command, copy)
    # The original last: mounting may write into it.
    there = file_systems.digests(copy)
    assert there == file_systems.digests(image)
    assert len(there) > 500


@pytest.mark.parametrize('command', [
    EXT4, [*EXT4, '-b', '1024'], [*EXT4, '-b', '2048', '-O', '^flex_bg'],
    [*EXT4, '-O', '^64bit,^metadata_csum'],
    [*EXT4, '-O', '^64bit,^metadata_csum,uninit_bg'],
    [*EXT4, '-O', '^has_journal'], [*EXT4, '-g', '8192'],
    ['mkfs.ext2', '-q', '-F', '-E', 'nodiscard'],
    XFS, [*XFS, '-d', 'agcount=2'], [*XFS, '-b', 'size=1024'],
    [*XFS, '-m', 'reflink=0,rmapbt=1'], BTRFS, [*BTRFS, '-d', 'dup'],
    [*BTRFS, '-M'], [*BTRFS, '--nodesize', '65536'],
], ids=' '.join)
def test_skipped(server, folder, command):
    image = folder / 'image'
    file_systems.make(image, SIZE, command)
    file_systems.fill(image)
    check(command, image)
    result = send(server, image)
    assert result.notes == []
    assert result.free_bytes > 50 * MIB
    assert result.size < (SIZE - 50) * MIB
    judge(command, image, arrivals.as_raw(result, server.path))


@pytest.mark.parametrize('command, says', [
    ([*EXT4, '-O', 'bigalloc'], 'features'),
    ([*EXT4, '-O', 'meta_bg,^resize_inode'], 'features'),
    ([*EXT4, '-O', 'mmp'], 'features'),
    ([*XFS, '-m', 'crc=0'], 'version 5'),
], ids=lambda one: ' '.join(one))
def test_unusual(server, folder, command, says):
    image = folder / 'image'
    file_systems.make(image, SIZE, command)
    result = send(server, image)
    assert result.free_bytes == 0
    assert says in result.notes[0]
    arrivals.judge(result, image, server.path)


@pytest.mark.parametrize('command, says', [
    (EXT4, 'journal needs recovery'), (XFS, 'log needs recovery'),
    (BTRFS, 'log needs replay'),
], ids=['ext4', 'xfs', 'btrfs'])
def test_not_unmounted(server, folder, command, says):
    image, caught = folder / 'image', folder / 'caught'
    file_systems.make(image, SIZE, command)
    file_systems.catch(image, caught)
    result = send(server, caught)
    assert result.free_bytes == 0
    assert says in result.notes[0]
    arrivals.judge(result, caught, server.path)
    # As the original, so the copy: it can be recovered.
    copy = arrivals.as_raw(result, server.path)
    assert file_systems.digests(copy) == file_systems.digests(caught)


def test_btrfs_on_two_devices(server, folder):
    images = [folder / 'image', folder / 'other']
    for image in images:
        with image.open('wb') as file:
            file.truncate(200 * MIB)
    subprocess.run([*BTRFS, '-d', 'single', *images], check=True,
                   stdout=subprocess.DEVNULL)
    result = send(server, images[0])
    assert result.free_bytes == 0
    assert 'several devices' in result.notes[0]


@pytest.mark.parametrize('way', [{'compress': 'zstd'},
                                 {'disk_format': 'raw'}])
def test_in_other_formats(server, folder, way):
    image = folder / 'image'
    file_systems.make(image, SIZE, EXT4)
    file_systems.fill(image)
    result = send(server, image, **way)
    assert result.free_bytes > 50 * MIB
    judge(EXT4, image, arrivals.as_raw(result, server.path))


def test_what_took_the_place_over(server, folder):
    """Of file systems whose superblocks survive others that came after."""
    image = folder / 'image'
    file_systems.make(image, SIZE, BTRFS)
    with image.open('r+b') as file:
        file.write(b'ORCLDISK')
    result = send(server, image)
    assert result.free_bytes == 0
    assert 'before its superblock' in result.notes[0]
    file_systems.make(image, SIZE, EXT4)
    with image.open('r+b') as file:
        # An array's superblock, which leaves the first 4 KiB alone.
        file.seek(4096)
        file.write(b'\xfc\x4e\x2b\xa9')
    result = send(server, image)
    assert result.free_bytes == 0
    assert any('ext and md' in note for note in result.notes)


def test_partitions(server, folder):
    """A disk as a machine has it: each partition for itself."""
    disk, image = folder / 'disk', folder / 'image'
    with disk.open('wb') as file:
        file.truncate((3 * SIZE + 30) * MIB)
    starts = [1, 1 + SIZE + 8, 1 + 2 * SIZE + 16]
    words = [word for number, start in enumerate(starts, 1) for word in (
        '--new', f'{number}:{start * 2048}:+{SIZE}M')]
    subprocess.run(['sgdisk', *words, disk], check=True,
                   stdout=subprocess.DEVNULL)
    for start, command in zip(starts, (EXT4, XFS, BTRFS), strict=True):
        file_systems.make(image, SIZE, command)
        if command is XFS:
            file_systems.catch(image, folder / 'caught')
            image = folder / 'caught'
        else:
            file_systems.fill(image)
        copy_in(image, disk, start)
        image = folder / 'image'
    result = send(server, disk)
    assert 100 * MIB < result.free_bytes < 2 * SIZE * MIB
    assert len(result.notes) == 1
    assert 'log needs recovery' in result.notes[0]
    copy = arrivals.as_raw(result, server.path)
    subprocess.run(['sgdisk', '--verify', copy], check=True,
                   stdout=subprocess.DEVNULL)
    for start, command in zip(starts, (EXT4, XFS, BTRFS), strict=True):
        before, after = folder / 'before', folder / 'after'
        copy_out(disk, start, before)
        copy_out(copy, start, after)
        if command is XFS:
            assert before.read_bytes() == after.read_bytes()
        else:
            judge(command, before, after)


def copy_in(image: pathlib.Path, disk: pathlib.Path, start: int) -> None:
    with disk.open('r+b') as file:
        file.seek(start * MIB)
        file.write(image.read_bytes())


def copy_out(disk: pathlib.Path, start: int, image: pathlib.Path) -> None:
    with disk.open('rb') as file:
        file.seek(start * MIB)
        image.write_bytes(file.read(SIZE * MIB))
