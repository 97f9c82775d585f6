# SPDX-License-Identifier: Apache-2.0
"""Partition tables: GPT, and MBR with its extended partitions.

For finding out who a disk is and where file systems lie. A table that is
not whole is no table: nothing depends on there being one. Sources: the
UEFI specification, chapter 5; the de facto format of MBR.
"""

from collections.abc import Callable
from collections.abc import Iterable
import dataclasses
import struct
import uuid
import zlib

#: Reads bytes of a disk: takes offset and length.
Read = Callable[[int, int], bytes]

_GPT = struct.Struct('<8sIIIIQQQQ16sQIII')
_GPT_ENTRY = struct.Struct('<16s16sQQ')
_MBR_ENTRY = struct.Struct('<8xII')
_ENTRIES = 446
_PROTECTIVE = 0xEE
_EXTENDED = (0x05, 0x0F, 0x85)
_MOST_ENTRIES = 1024
_MOST_ENTRY_BYTES = 512
_MOST_LOGICAL = 128
_SECTOR_SIZES = (512, 4096)


@dataclasses.dataclass(frozen=True)
class Partition:
    """One partition.

    :ivar uuid: as udev calls it (PARTUUID), in lower case.
    :ivar offset: bytes from the disk's beginning.
    :ivar length: bytes.
    """

    uuid: str
    offset: int
    length: int

    def __str__(self) -> str:
        return f'Partition {self.uuid}' if self.uuid else 'The disk'


@dataclasses.dataclass(frozen=True)
class Table:
    """One table.

    :ivar uuid: as udev calls it (PTUUID), in lower case.
    :ivar partitions: that lie inside the disk.
    """

    uuid: str
    partitions: tuple[Partition, ...]


def read(disk: Read, size: int,
         sector_size: int | None = None) -> Table | None:
    """Read the table of a disk.

    :param disk: reads it.
    :param size: bytes of the disk.
    :param sector_size: bytes of its logical sectors. A table that counts in
        others is not this disk's: it came with an image, or is left from
        one. None: not known, so each size is tried.
    :return: None where there is none that is whole.
    """
    sector = disk(0, 512)
    if not _is_boot_sector(sector):
        return None
    kinds = [sector[_ENTRIES + 16 * index + 4] for index in range(4)]
    if _PROTECTIVE in kinds:
        for one in (sector_size,) if sector_size else _SECTOR_SIZES:
            table = _gpt(disk, size, one)
            if table is not None:
                return table
        return None
    if sector_size not in (None, 512):
        return None
    return _mbr(disk, size, sector)


def parts(disk: Read, size: int,
          sector_size: int | None = None) -> list[Partition]:
    """Give what a disk is divided into; see :func:`read`.

    :return: its partitions, or else all of it as one without a UUID; none
        where there is a table that is not understood.
    """
    table = read(disk, size, sector_size)
    if table is not None:
        return list(table.partitions)
    if _is_boot_sector(disk(0, 512)):
        return []
    return [Partition('', 0, size)]


def _is_boot_sector(sector: bytes) -> bool:
    return sector[510:] == b'\x55\xaa'


def disk_identifier(disk: Read) -> str:
    """Give what identifies a disk for Ironic, whatever its table is.

    :return: the four bytes at 440 as ``0x01234567``.
    """
    number, = struct.unpack('<I', disk(440, 4))
    return f'0x{number:08x}'


def overlap(found: Iterable[Partition]) -> bool:
    """Tell whether two partitions have bytes in common."""
    ordered = sorted(found, key=lambda one: one.offset)
    return any(one.offset + one.length > other.offset
               for one, other in zip(ordered, ordered[1:], strict=False))


def _gpt(disk: Read, size: int, sector_size: int) -> Table | None:
    head = disk(sector_size, _GPT.size)
    (magic, _, length, checksum, _, _, _, _, _, disk_id, first, count,
     entry_size, entries_checksum) = _GPT.unpack(head)
    if magic != b'EFI PART' or not _GPT.size <= length <= sector_size:
        return None
    head = disk(sector_size, length)
    if zlib.crc32(head[:16] + bytes(4) + head[20:]) != checksum:
        return None
    if not count <= _MOST_ENTRIES or (
            not 128 <= entry_size <= _MOST_ENTRY_BYTES) or (
            first * sector_size + count * entry_size > size):
        return None
    entries = disk(first * sector_size, count * entry_size)
    if zlib.crc32(entries) != entries_checksum:
        return None
    found = []
    for index in range(count):
        kind, own, begin, end = _GPT_ENTRY.unpack_from(
            entries, index * entry_size)
        if kind != bytes(16) and begin <= end and (
                (end + 1) * sector_size <= size):
            found.append(Partition(_guid(own), begin * sector_size,
                                   (end + 1 - begin) * sector_size))
    return Table(_guid(disk_id), tuple(found))


def _guid(data: bytes) -> str:
    return str(uuid.UUID(bytes_le=data))


def _mbr(disk: Read, size: int, sector: bytes) -> Table | None:
    number, = struct.unpack_from('<I', sector, 440)
    name = f'{number:08x}'
    found = []
    for index in range(4):
        kind, begin, length = _mbr_entry(sector, index)
        if kind in _EXTENDED:
            found += _logical(disk, size, name, begin)
        elif kind and length and begin + length <= size:
            found.append(Partition(f'{name}-{index + 1:02x}', begin,
                                   length))
    # A boot sector of a file system looks like a table without entries,
    # or with entries that are code.
    return Table(name, tuple(found)) if found else None


def _mbr_entry(sector: bytes, index: int) -> tuple[int, int, int]:
    """Give kind, offset and length of an entry, in bytes."""
    at = _ENTRIES + 16 * index
    begin, length = _MBR_ENTRY.unpack_from(sector, at)
    return sector[at + 4], begin * 512, length * 512


def _logical(disk: Read, size: int, name: str, extended: int
             ) -> list[Partition]:
    """Follow the chain of an extended partition."""
    found: list[Partition] = []
    here = extended
    seen: set[int] = set()
    while here + 512 <= size and here not in seen and (
            len(seen) < _MOST_LOGICAL):
        seen.add(here)
        sector = disk(here, 512)
        if not _is_boot_sector(sector):
            break
        kind, begin, length = _mbr_entry(sector, 0)
        if kind and length and here + begin + length <= size:
            found.append(Partition(f'{name}-{len(seen) + 4:02x}',
                                   here + begin, length))
        kind, begin, _ = _mbr_entry(sector, 1)
        if kind not in _EXTENDED or not begin:
            break
        here = extended + begin
    return found
