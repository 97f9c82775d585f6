# SPDX-License-Identifier: Apache-2.0
"""Free space of btrfs on one device, by its extent tree.

Free is what no chunk uses, and of the chunks what no extent does. The
extents have to be as many bytes as the superblock says are used. A block of
a tree is taken only if it says to be the one that was asked for, of the
generation that refers to it, and has its checksum. Source: the kernel's
include/uapi/linux/btrfs_tree.h.
"""

from collections.abc import Callable
from collections.abc import Iterator
import dataclasses
import hashlib
import struct

from stillframe.agent import partitions
from stillframe.agent.freespace import crc32c
from stillframe.agent.freespace.unusual import demand

_SUPERBLOCK = 64 << 10
# Copies of the superblock, and what is kept for boot loaders before.
_COPIES = (64 << 10, 64 << 20, 256 << 30)
_RESERVED = 1 << 20
# MIXED_BACKREF, DEFAULT_SUBVOL, MIXED_GROUPS, COMPRESS_LZO, COMPRESS_ZSTD,
# BIG_METADATA, EXTENDED_IREF, SKINNY_METADATA, NO_HOLES.
_INCOMPATIBLE = 0x1 | 0x2 | 0x4 | 0x8 | 0x10 | 0x20 | 0x40 | 0x100 | 0x200
# FREE_SPACE_TREE and whether it is valid, VERITY, BLOCK_GROUP_TREE.
_READ_ONLY = 0x1 | 0x2 | 0x4 | 0x8
_ERROR = 1 << 2
_FLAGS = 0x1 | 0x2                        # WRITTEN, RELOC
_DUP = 1 << 5
_PROFILES = 0x7f8                         # all of RAID0 to RAID1C4
_SYSTEM_CHUNKS = 811
_SYSTEM_CHUNKS_BYTES = 2048
_NODE_HEADER = 101
_KEY = struct.Struct('<QBQ')
_ITEM = struct.Struct('<QBQII')
_POINTER = struct.Struct('<QBQQQ')
_CHUNK_TREE, _EXTENT_TREE, _ROOT_TREE = 3, 2, 1
_ROOT_ITEM, _EXTENT_ITEM, _METADATA_ITEM, _CHUNK_ITEM = 132, 168, 169, 228
_MOST_LEVELS = 8
# By the superblock's number for them. The one that is missing is xxhash.
_CHECKSUMS: dict[int, Callable[[bytes], bytes]] = {
    0: lambda data: struct.pack('<I', crc32c.checksum(data)),
    2: lambda data: hashlib.sha256(data).digest(),
    3: lambda data: hashlib.blake2b(data, digest_size=32).digest(),
}


def free(read: partitions.Read, length: int) -> Iterator[tuple[int, int]]:
    """Give the free ranges of a file system, chunk by chunk.

    :param read: reads it.
    :param length: bytes of what it lies in.
    :return: offsets and lengths in bytes.
    :raises Unusual: it cannot be relied on.
    """
    # Kept for boot loaders; whoever has taken the place over since does not
    # know of the superblock behind.
    demand(not read(0, _SUPERBLOCK).strip(b'\0'),
           'something lies before its superblock.')
    system = _Superblock(read(_SUPERBLOCK, 4096), length)
    trees = _Trees(read, system)
    trees.learn_chunks()
    yield from _kept(_between_chunks(system, trees.chunks))
    used = 0
    chunks = iter(trees.chunks)
    chunk = next(chunks, None)
    reached = chunk.logical if chunk else 0
    for begin, size in trees.extents():
        while chunk and begin >= chunk.logical + chunk.length:
            yield from _kept(chunk.physical(
                reached, chunk.logical + chunk.length))
            chunk = next(chunks, None)
            reached = chunk.logical if chunk else 0
        demand(chunk is not None and begin >= reached and size > 0
               and begin + size <= chunk.logical + chunk.length,
               'its extents are out of order.')
        if chunk:
            yield from _kept(chunk.physical(reached, begin))
        reached = begin + size
        used += size
    while chunk:
        yield from _kept(chunk.physical(
            reached, chunk.logical + chunk.length))
        chunk = next(chunks, None)
        reached = chunk.logical if chunk else 0
    demand(used == system.used, 'its extents do not count what it says.')


@dataclasses.dataclass(frozen=True)
class _Chunk:
    """A range of logical addresses, and where it lies on the device."""

    logical: int
    length: int
    stripes: tuple[int, ...]

    def physical(self, begin: int, end: int) -> Iterator[tuple[int, int]]:
        """Give where a logical range lies."""
        if begin < end:
            for stripe in self.stripes:
                yield stripe + begin - self.logical, end - begin


class _Superblock:
    """What the superblock says."""

    def __init__(self, data: bytes, length: int):
        def number(at: int, form: str = 'Q') -> int:
            return struct.unpack_from(f'<{form}', data, at)[0]

        demand(data[64:72] == b'_BHRfS_M' and number(48) == _SUPERBLOCK,
               'it has no superblock.')
        kind = number(196, 'H')
        demand(kind in _CHECKSUMS, 'its checksums are not known here.')
        self.checksum = _CHECKSUMS[kind]
        demand(data.startswith(self.checksum(data[32:])),
               'its superblock is damaged.')
        demand(not number(56) & ~_FLAGS, 'it has errors.')
        demand(not number(188) & ~_INCOMPATIBLE
               and not number(180) & ~_READ_ONLY,
               'it has features that are not known here.')
        demand(number(96) == 0, 'its log needs replay.')
        demand(number(136) == 1, 'it has several devices.')
        self.uuid = data[32:48]
        self.generation = number(72)
        self.root, self.root_level = number(80), data[198]
        self.chunk_root, self.chunk_level = number(88), data[199]
        self.chunk_generation = number(164)
        self.total, self.used = number(112), number(120)
        self.device = number(201)
        self.node = number(148, 'I')
        size = number(160, 'I')
        demand(size <= _SYSTEM_CHUNKS_BYTES
               and self.total <= length
               and 4096 <= self.node <= 65536
               and self.node & (self.node - 1) == 0,
               'its superblock makes no sense.')
        self.chunks = data[_SYSTEM_CHUNKS:_SYSTEM_CHUNKS + size]


class _Trees:
    """The trees of a file system.

    :ivar chunks: all chunks, by logical address.
    """

    def __init__(self, read: partitions.Read, system: _Superblock):
        self._read = read
        self._system = system
        self.chunks: list[_Chunk] = []
        # More nodes do not fit on the device, whichever tree has them.
        self._nodes_left = system.total // system.node

    def learn_chunks(self) -> None:
        """Learn how logical addresses lie on the device."""
        system = self._system
        at = 0
        data = system.chunks
        # Those that the chunk tree itself lies in come with the superblock.
        while at + _KEY.size + 80 <= len(data):
            _, kind, logical = _KEY.unpack_from(data, at)
            demand(kind == _CHUNK_ITEM, 'its chunks make no sense.')
            self.chunks.append(self._chunk(logical, data[at + 17:]))
            at += 17 + 48 + 32 * struct.unpack_from('<H', data, at + 61)[0]
        found = [self._chunk(logical, data) for _, kind, logical, data
                 in self._items(system.chunk_root, system.chunk_level,
                                system.chunk_generation, _CHUNK_TREE)
                 if kind == _CHUNK_ITEM]
        found.sort(key=lambda chunk: chunk.logical)
        demand(all(one.logical + one.length <= other.logical
                   for one, other in zip(found, found[1:], strict=False)),
               'its chunks overlap.')
        self.chunks = found

    def _chunk(self, logical: int, data: bytes) -> _Chunk:
        demand(len(data) >= 48, 'its chunks make no sense.')
        length, _, _, kind = struct.unpack_from('<QQQQ', data)
        stripes, = struct.unpack_from('<H', data, 44)
        profile = kind & _PROFILES
        demand(profile in (0, _DUP) and stripes == (2 if profile else 1)
               and len(data) >= 48 + 32 * stripes,
               'its chunks have a profile that is not known here.')
        places = []
        for index in range(stripes):
            device, place = struct.unpack_from('<QQ', data,
                                               48 + 32 * index)
            demand(device == self._system.device
                   and place + length <= self._system.total,
                   'its chunks lie elsewhere.')
            places.append(place)
        return _Chunk(logical, length, tuple(places))

    def extents(self) -> Iterator[tuple[int, int]]:
        """Give logical address and bytes of all extents, ascending."""
        system = self._system
        root = [data for number, kind, _, data
                in self._items(system.root, system.root_level,
                               system.generation, _ROOT_TREE)
                if (number, kind) == (_EXTENT_TREE, _ROOT_ITEM)]
        demand(len(root) == 1 and len(root[0]) >= 239,
               'it has no extent tree.')
        at, = struct.unpack_from('<Q', root[0], 176)
        generation, = struct.unpack_from('<Q', root[0], 160)
        for address, kind, size, _ in self._items(
                at, root[0][238], generation, _EXTENT_TREE):
            if kind == _EXTENT_ITEM:
                yield address, size
            elif kind == _METADATA_ITEM:
                yield address, system.node

    def _items(self, at: int, level: int, generation: int, owner: int
               ) -> Iterator[tuple[int, int, int, bytes]]:
        """Give key and content of all items of a tree, in order."""
        demand(level < _MOST_LEVELS, 'a tree of it is too high.')
        self._nodes_left -= 1
        demand(self._nodes_left >= 0, 'a tree of it meets itself.')
        data = self._read_node(at)
        bytenr, = struct.unpack_from('<Q', data, 48)
        own_generation, own_owner = struct.unpack_from('<QQ', data, 80)
        count, own_level = struct.unpack_from('<IB', data, 96)
        size = _POINTER.size if level else _ITEM.size
        demand(bytenr == at and own_generation == generation
               and own_owner == owner and own_level == level
               and data[32:48] == self._system.uuid
               and data.startswith(self._system.checksum(data[32:]))
               and count <= (len(data) - _NODE_HEADER) // size,
               'a tree of it is broken.')
        for index in range(count):
            here = _NODE_HEADER + index * size
            if level:
                _, _, _, below, below_generation = _POINTER.unpack_from(
                    data, here)
                yield from self._items(below, level - 1, below_generation,
                                       owner)
                continue
            number, kind, offset, place, length = _ITEM.unpack_from(
                data, here)
            begin = _NODE_HEADER + place
            demand(begin + length <= len(data), 'a tree of it is broken.')
            yield number, kind, offset, data[begin:begin + length]

    def _read_node(self, at: int) -> bytes:
        node = self._system.node
        for chunk in self.chunks:
            if chunk.logical <= at and (
                    at + node <= chunk.logical + chunk.length):
                return self._read(chunk.stripes[0] + at - chunk.logical,
                                  node)
        demand(False, 'a tree of it lies nowhere.')
        return b''


def _between_chunks(system: _Superblock, chunks: list[_Chunk]
                    ) -> Iterator[tuple[int, int]]:
    """Give the ranges of the device that no chunk uses."""
    reached = 0
    for begin, end in sorted((stripe, stripe + chunk.length)
                             for chunk in chunks
                             for stripe in chunk.stripes):
        demand(begin >= reached, 'its chunks overlap.')
        yield reached, begin - reached
        reached = end
    yield reached, system.total - reached


def _kept(ranges: Iterator[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Leave out of ranges what is not free though nothing says so."""
    kept = [(0, _RESERVED),
            *((copy, copy + 4096) for copy in _COPIES)]
    for offset, length in ranges:
        begin, end = offset, offset + length
        for low, high in kept:
            if begin < high and low < end:
                if begin < low:
                    yield begin, low - begin
                begin = max(begin, high)
        if begin < end:
            yield begin, end - begin
