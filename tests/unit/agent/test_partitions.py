# SPDX-License-Identifier: Apache-2.0
"""Partition tables, made by hand."""

import struct
import uuid
import zlib

from hypothesis import given
from hypothesis import strategies
import pytest

from stillframe.agent import partitions

MIB = 1 << 20
DISK_ID = '5b0e1f7a-93d4-4e0c-8c55-7a1e2d3c4b6f'
PART_ID = '0d2c7e4a-1b3f-4c5d-9e6f-7a8b9c0d1e2f'


def table_of(data: bytes):
    return partitions.read(lambda at, size: data[at:at + size], len(data))


def make_gpt() -> bytes:
    """Make a disk of 16 MiB as the UEFI specification has it."""
    linux = uuid.UUID('0fc63daf-8483-4772-8e79-3d69d8477de4').bytes_le
    parts = {0: (uuid.UUID(PART_ID), 2048, 6143),
             4: (uuid.uuid4(), 10240, 18431)}
    entries = b''.join(
        struct.pack('<16s16sQQ80x', linux, parts[one][0].bytes_le,
                    *parts[one][1:]) if one in parts else bytes(128)
        for one in range(128))

    def header(checksum):
        return struct.pack(
            '<8sIIIIQQQQ16sQIII', b'EFI PART', 0x10000, 92, checksum, 0, 1,
            32767, 34, 32734, uuid.UUID(DISK_ID).bytes_le, 2, 128, 128,
            zlib.crc32(entries))

    head = mbr([(0xee, 1, 32767)]) + header(
        zlib.crc32(header(0))).ljust(512, b'\0') + entries
    return head.ljust(16 * MIB, b'\0')


@pytest.fixture(scope='module')
def gpt():
    return make_gpt()


def test_gpt(gpt):
    table = table_of(gpt)
    assert table.uuid == DISK_ID
    assert [(one.offset, one.length) for one in table.partitions] == [
        (MIB, 2 * MIB), (5 * MIB, 4 * MIB)]
    assert table.partitions[0].uuid == PART_ID
    assert not partitions.overlap(table.partitions)


@pytest.mark.parametrize('place', [512, 520, 560, 1030, 1070])
def test_gpt_that_is_broken_is_none(gpt, place):
    broken = bytearray(gpt)
    broken[place] ^= 1
    assert table_of(bytes(broken)) is None


def mbr(entries, number=0xcafe1234):
    """Make a boot sector: kind, first sector, sectors of each entry."""
    packed = b''.join(struct.pack('<4xB3xII', *one) for one in entries)
    return (bytes(440) + struct.pack('<Ixx', number)
            + packed.ljust(64, b'\0') + b'\x55\xaa')


def test_mbr():
    table = table_of(mbr([(0x83, 2, 4), (0, 0, 0), (0x82, 6, 2)])
                     + bytes(10 * 512))
    assert table.uuid == 'cafe1234'
    assert table.partitions == (
        partitions.Partition('cafe1234-01', 1024, 2048),
        partitions.Partition('cafe1234-03', 3072, 1024))


def test_logical_partitions():
    disk = bytearray(64 * 512)
    disk[:512] = mbr([(0x83, 2, 2), (0x05, 8, 50)])
    disk[8 * 512:9 * 512] = mbr([(0x83, 1, 3), (0x05, 10, 10)])
    disk[18 * 512:19 * 512] = mbr([(0x8e, 2, 5)])
    table = table_of(bytes(disk))
    assert table.partitions == (
        partitions.Partition('cafe1234-01', 1024, 1024),
        partitions.Partition('cafe1234-05', 9 * 512, 3 * 512),
        partitions.Partition('cafe1234-06', 20 * 512, 5 * 512))


def test_a_chain_of_partitions_that_is_a_ring():
    disk = bytearray(64 * 512)
    disk[:512] = mbr([(0x05, 8, 50)])
    disk[8 * 512:9 * 512] = mbr([(0x83, 1, 3), (0x05, 10, 10)])
    disk[18 * 512:19 * 512] = mbr([(0x83, 2, 5), (0x05, 10, 10)])
    assert len(table_of(bytes(disk)).partitions) == 2


def test_what_lies_outside_is_no_partition():
    table = table_of(mbr([(0x83, 2, 4), (0x83, 9, 4)]) + bytes(9 * 512))
    assert len(table.partitions) == 1
    assert table_of(mbr([(0x83, 9, 400)]) + bytes(9 * 512)) is None


def test_overlap():
    table = table_of(mbr([(0x83, 4, 4), (0x83, 2, 3)]) + bytes(9 * 512))
    assert partitions.overlap(table.partitions)


def test_parts(gpt):
    def parts(data):
        return partitions.parts(lambda at, size: data[at:at + size],
                                len(data))

    assert [one.offset for one in parts(gpt)] == [MIB, 5 * MIB]
    assert parts(bytes(4096)) == [partitions.Partition('', 0, 4096)]
    # A table that is not understood: of none of it is anything known.
    assert parts(mbr([]) + bytes(512)) == []
    broken = bytearray(gpt)
    broken[520] ^= 1
    assert parts(bytes(broken)) == []


def test_no_table():
    assert table_of(bytes(4096)) is None
    # The boot sector of a file system.
    assert table_of(mbr([]) + bytes(512)) is None
    # Protects a table that is not there.
    assert table_of(mbr([(0xee, 1, 10)]) + bytes(9000)) is None


def test_identifier_as_ironic_writes_it():
    sector = mbr([], 0xcafe12)
    assert partitions.disk_identifier(
        lambda at, size: sector[at:at + size]) == '0x00cafe12'


@given(strategies.binary(max_size=3000), strategies.integers(0, 9000),
       strategies.booleans())
def test_garbage_is_a_table_inside_the_disk_or_none(noise, at, protective):
    disk = bytearray(16384)
    disk[:512] = mbr([(0xee if protective else 0x83, 1, 8)])
    disk[at:at + len(noise)] = noise
    del disk[16384:]
    disk[510:512] = b'\x55\xaa'
    table = table_of(bytes(disk))
    for one in table.partitions if table else ():
        assert 0 <= one.offset < one.offset + one.length <= len(disk)


def test_this_reads_little(gpt):
    asked = []

    def read(at, size):
        asked.append(size)
        return gpt[at:at + size]

    partitions.read(read, len(gpt))
    assert sum(asked) < 64 << 10


@pytest.mark.parametrize('sector_size, found', [
    (None, DISK_ID), (512, DISK_ID), (4096, None)])
def test_a_table_of_other_sectors_is_not_the_disks(gpt, sector_size, found):
    """An image of a disk with 512 bytes was once copied to one with 4096."""
    table = partitions.read(lambda at, size: gpt[at:at + size], len(gpt),
                            sector_size)
    assert (table and table.uuid) == found


def test_an_mbr_counts_in_sectors_of_512_bytes():
    data = mbr([(0x83, 2048, 4096)]).ljust(16 * MIB, b'\0')

    def parts(sector_size):
        return partitions.parts(lambda at, size: data[at:at + size],
                                len(data), sector_size)

    assert len(parts(512)) == 1
    assert parts(4096) == []
