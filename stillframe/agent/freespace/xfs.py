# SPDX-License-Identifier: Apache-2.0
"""Free blocks of XFS, by the free space B+trees of its allocation groups.

The log has to end with the record of an unmount. All that is read has to
have its checksum, and each tree to hold as many free blocks as its group
says. Source: "XFS Algorithms & Data
Structures", third edition.
"""

from collections.abc import Iterator
import struct

from stillframe.agent import partitions
from stillframe.agent.freespace import crc32c
from stillframe.agent.freespace import xfs_log
from stillframe.agent.freespace.unusual import demand

# FTYPE, SPINODES, META_UUID, BIGTIME, NREXT64, EXCHRANGE, PARENT: nothing
# that changes the trees or says that something is unfinished.
_META_UUID = 0x4
_INCOMPATIBLE = 0x1 | 0x2 | _META_UUID | 0x8 | 0x20 | 0x40 | 0x80
# FINOBT, RMAPBT, REFLINK, INOBTCNT.
_READ_ONLY = 0x1 | 0x2 | 0x4 | 0x8
_LOG_INCOMPATIBLE = 0
_MAGIC = b'AB3B'
_HEADER = 56
_NONE = 0xFFFFFFFF
_MOST_LEVELS = 16
_LARGEST_SECTOR = 4096
# Where superblock, header of a group, and block of a tree have theirs.
_CHECKSUMS = 224, 216, 52
_BROKEN = 'a tree of its free space is broken.'


def free(read: partitions.Read, length: int) -> Iterator[tuple[int, int]]:
    """Give the free ranges of a file system, ascending.

    :param read: reads it.
    :param length: bytes of what it lies in.
    :return: offsets and lengths in bytes.
    :raises Unusual: it cannot be relied on.
    """
    layout = _Layout(read(0, _LARGEST_SECTOR), length)
    xfs_log.check(read, layout.log, layout.log_length, layout.uuid)
    for group in range(layout.groups):
        yield from _group(read, layout, group)


class _Layout:
    """What the superblock says.

    :ivar block: bytes of a block.
    :ivar per_group: blocks of an allocation group.
    :ivar groups: number of allocation groups.
    :ivar sector: bytes of a sector.
    :ivar uuid: of the file system; its metadata has ``own_uuid``.
    :ivar log: where the log lies, in bytes; ``log_length`` likewise.
    """

    def __init__(self, data: bytes, length: int):
        def number(at: int, form: str) -> int:
            return struct.unpack_from(f'>{form}', data, at)[0]

        demand(data[:4] == b'XFSB' and data[126] == 0,
               'it has no superblock.')
        # Version 4 has nothing to tell one block from another by.
        demand(number(100, 'H') & 0xf == 5, 'it is not of version 5.')
        demand(not number(216, 'I') & ~_INCOMPATIBLE
               and not number(212, 'I') & ~_READ_ONLY
               and number(220, 'I') == _LOG_INCOMPATIBLE,
               'it has features that are not known here.')
        # Metadata keeps the UUID that the file system was made with.
        self.uuid = data[32:48]
        self.own_uuid = (data[248:264] if number(216, 'I') & _META_UUID
                         else self.uuid)
        self.block = number(4, 'I')
        self.blocks = number(8, 'Q')
        self.per_group = number(84, 'I')
        self.groups = number(88, 'I')
        self.sector = number(102, 'H')
        demand(self.sector in (512, 1024, 2048, _LARGEST_SECTOR)
               and _is_whole(data[:self.sector], _CHECKSUMS[0]),
               'its superblock is damaged.')
        log_start, log_blocks = number(48, 'Q'), number(96, 'I')
        shift = data[124]
        demand(number(16, 'Q') == 0, 'it has a realtime device.')
        demand(log_start != 0, 'its log is on another device.')
        demand(512 <= self.block <= 65536
               and self.block == 1 << data[120]
               and 0 < self.per_group <= 1 << shift <= 1 << 31
               and self.groups == -(-self.blocks // self.per_group)
               and self.blocks * self.block <= length,
               'its superblock makes no sense.')
        # An address of a block: group and block in the group.
        group, block = log_start >> shift, log_start & ((1 << shift) - 1)
        self.log = (group * self.per_group + block) * self.block
        self.log_length = log_blocks * self.block


def _group(read: partitions.Read, layout: _Layout, group: int
           ) -> Iterator[tuple[int, int]]:
    """Give the free ranges of an allocation group."""
    first = group * layout.per_group
    blocks = min(layout.per_group, layout.blocks - first)
    data = read(first * layout.block + layout.sector, layout.sector)
    (magic, version, number, length, root, _, _, level) = struct.unpack_from(
        '>4sIIIIIII', data)
    count, = struct.unpack_from('>I', data, 52)
    demand(magic == b'XAGF' and version == 1 and number == group
           and length == blocks and 0 < level <= _MOST_LEVELS
           and data[64:80] == layout.own_uuid
           and _is_whole(data, _CHECKSUMS[1]),
           f'the header of group {group} makes no sense.')
    found = reached = 0
    for begin, size in _Tree(read, layout, group).records(root, level):
        demand(reached <= begin and size > 0 and begin + size <= blocks,
               f'the free space of group {group} is out of order.')
        reached = begin + size
        found += size
        yield (first + begin) * layout.block, size * layout.block
    demand(found == count,
           f'the tree of group {group} does not count what it says.')


class _Tree:
    """The free space of a group, ordered by block."""

    def __init__(self, read: partitions.Read, layout: _Layout, group: int):
        self._read = read
        self._layout = layout
        self._group = group

    def records(self, root: int, levels: int) -> Iterator[tuple[int, int]]:
        """Give first block and number of each run of free blocks."""
        at = root
        for level in range(levels - 1, 0, -1):
            data, _, _ = self._node(at, level)
            # Behind as many keys as there could be.
            most = (self._layout.block - _HEADER) // 12
            at, = struct.unpack_from('>I', data, _HEADER + most * 8)
        while at != _NONE:
            data, count, at = self._node(at, 0)
            # So a ring of them would be out of order.
            demand(count > 0 or (levels == 1 and at == _NONE), _BROKEN)
            yield from struct.iter_unpack(
                '>II', data[_HEADER:_HEADER + 8 * count])

    def _node(self, at: int, wanted: int) -> tuple[bytes, int, int]:
        """Read a block of the tree.

        :return: it, the number of its records, the next one's block.
        """
        layout = self._layout
        demand(at < layout.per_group, _BROKEN)
        place = (self._group * layout.per_group + at) * layout.block
        data = self._read(place, layout.block)
        magic, level, count, _, right = struct.unpack_from('>4sHHII', data)
        here, = struct.unpack_from('>Q', data, 16)
        owner, = struct.unpack_from('>I', data, 48)
        demand(magic == _MAGIC and level == wanted
               and count <= (layout.block - _HEADER) // 8
               and here == place // 512 and owner == self._group
               and data[32:48] == layout.own_uuid
               and _is_whole(data, _CHECKSUMS[2]), _BROKEN)
        return data, count, right


def _is_whole(data: bytes, at: int) -> bool:
    """Tell whether data has the checksum that it carries at a place."""
    wanted, = struct.unpack_from('<I', data, at)
    return crc32c.checksum(data[:at] + bytes(4) + data[at + 4:]) == wanted
