# SPDX-License-Identifier: Apache-2.0
"""Disks that are not as one would wish, judged by qemu-img."""

from collections.abc import Iterator
import json
import os
import pathlib
import random
import subprocess

import pytest

from stillframe.agent import disks
from stillframe.agent import failures
from stillframe.agent import orders
from stillframe.agent import stream
from tests.integration.agent import arrivals
from tests.lab import bad_disk
from tests.lab import fuse
from tests.lab import processes
from tests.lab import taker

MIB = 1 << 20
WAYS = [{}, {'compress': 'zstd'}, {'disk_format': 'raw'}]
BAD_SECTORS = pytest.mark.skipif(bool(fuse.why_not()), reason=fuse.why_not())


@pytest.fixture
def folder() -> Iterator[pathlib.Path]:
    with processes.state_dir('hard') as path:
        yield path


@pytest.fixture
def server(folder) -> Iterator[taker.Taker]:
    with taker.Taker(folder / 'received') as running:
        yield running


def send(server: taker.Taker, path: pathlib.Path, **more) -> orders.Result:
    order = orders.Order(server.url, **more)
    return stream.Stream(order).run(disks.Disk(str(path), 0))


def noise(path: pathlib.Path, mib: int) -> bytes:
    content = random.Random(mib).randbytes(mib * MIB)
    path.write_bytes(content)
    return content


@pytest.mark.parametrize('way', WAYS)
def test_a_first_sector_that_names_a_file_of_the_host(server, folder, way):
    secret = folder / 'secret'
    secret.write_bytes(b'of the host' * 6000)
    disk = folder / 'disk'
    subprocess.run(
        ['qemu-img', 'create', '-q', '-f', 'qcow2', '-b', secret, '-F',
         'raw', disk, '8M'], check=True)
    with disk.open('r+b') as file:
        file.truncate(8 * MIB)
    before = disk.read_bytes()
    result = send(server, disk, **way)
    arrivals.judge(result, disk, server.path)
    # The image has the header inside, where the node would see it.
    raw = arrivals.as_raw(result, server.path)
    assert raw.read_bytes() == before
    assert b'of the host' not in server.path.read_bytes()


@BAD_SECTORS
@pytest.mark.parametrize('way', WAYS)
def test_bad_sectors_are_listed(server, folder, way):
    content = bytearray(noise(folder / 'content', 6))
    bad = [(MIB + 4096, 1024), (3 * MIB - 512, 1024)]
    with bad_disk.bad_disk(folder / 'content', bad, folder) as path:
        with pytest.raises(failures.ReadFailed, match='Input/output error'):
            send(server, path, **way)
        result = send(server, path, on_read_error='zero', **way)
    assert result.read_errors == [list(one) for one in bad]
    for offset, length in bad:
        content[offset:offset + length] = bytes(length)
    assert arrivals.as_raw(result, server.path).read_bytes() == content


@BAD_SECTORS
def test_nothing_is_sent_of_a_disk_that_cannot_be_read(server, folder):
    noise(folder / 'content', 6)
    with bad_disk.bad_disk(folder / 'content', [(5 * MIB, 512)],
                           folder) as path, pytest.raises(
                               failures.ReadFailed, match='byte 4194304'):
        send(server, path)
    assert not server.request


# A compressed or raw one is read as it is sent.
@BAD_SECTORS
@pytest.mark.parametrize('way', [way for way in WAYS if way])
def test_a_stream_that_breaks_off_is_no_whole_image(server, folder, way):
    noise(folder / 'content', 6)
    with bad_disk.bad_disk(folder / 'content', [(5 * MIB, 512)],
                           folder) as path, pytest.raises(
                               failures.ReadFailed):
        send(server, path, **way)
    assert not server.digest


@pytest.mark.parametrize('way', WAYS[:2])
def test_a_terabyte_that_is_nearly_empty(server, folder, way):
    disk = folder / 'disk'
    with disk.open('wb') as file:
        file.truncate(1 << 40)
        for offset in (0, (1 << 40) - 4096, 1 << 39):
            file.seek(offset)
            file.write(os.urandom(4096))
    result = send(server, disk, **way)
    assert result.virtual_size == 1 << 40
    arrivals.judge(result, disk, server.path)
    # A hole of a file costs nothing, neither time nor room.
    assert result.size < 64 * MIB
    assert result.duration < 30


@pytest.mark.parametrize('way', WAYS)
def test_a_luks_container_is_taken_as_it_is(server, folder, way):
    disk = folder / 'disk'
    noise(disk, 24)
    with disk.open('r+b') as file:
        file.write(b'LUKS\xba\xbe\0\2'.ljust(4096, b'\0'))
    result = send(server, disk, skip_free_space=True, **way)
    arrivals.judge(result, disk, server.path)
    assert result.free_bytes == 0
    assert any('LUKS' in note for note in result.notes)


@pytest.mark.parametrize('way', WAYS)
def test_a_root_in_lvm_is_taken_as_it_is(server, folder, way):
    # Below the label of a physical volume an old file system survives.
    disk = folder / 'disk'
    noise(disk, 24)
    subprocess.run(['mkfs.ext4', '-q', '-F', '-E', 'nodiscard', disk],
                   check=True)
    with disk.open('r+b') as file:
        file.seek(512)
        file.write(b'LABELONE'.ljust(512, b'\0'))
    result = send(server, disk, skip_free_space=True, **way)
    arrivals.judge(result, disk, server.path)
    assert result.free_bytes == 0
    assert any('LVM' in note for note in result.notes)


def test_memory_is_bounded_and_no_room_is_needed(server, folder):
    """A process of its own, which may not write to any file."""
    disk = folder / 'disk'
    with disk.open('wb') as file:
        file.truncate(64 << 30)
        for number in range(64):
            file.seek(number << 30)
            file.write(os.urandom(4 * MIB))
    for way in WAYS[:2]:
        peak = json.loads(arrivals.in_a_process(
            {'url': server.url, 'version': 1, **way}, disk))['peak']
        assert peak < 64 * MIB
