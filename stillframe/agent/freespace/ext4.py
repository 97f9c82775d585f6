# SPDX-License-Identifier: Apache-2.0
"""Free blocks of ext4 (ext2 and ext3 too), by its block bitmaps.

A group whose bitmap was never written (BLOCK_UNINIT) counts as used. Each
bitmap has to count as many free blocks as its group says, and all groups
together as the superblock says; where there are checksums of metadata, they
have to be right. Source: the kernel's
Documentation/filesystems/ext4.
"""

from collections.abc import Iterator
import dataclasses
import struct

from stillframe.agent import partitions
from stillframe.agent.freespace import crc32c
from stillframe.agent.freespace.unusual import demand

_SUPERBLOCK = 1024
_MAGIC = 0xEF53
_VALID = 1                                # s_state: clean, without errors
# Those that change nothing about the bitmaps: FILETYPE, EXTENTS, 64BIT,
# FLEX_BG, EA_INODE, CSUM_SEED, LARGEDIR, INLINE_DATA, ENCRYPT, CASEFOLD.
_INCOMPATIBLE = (0x2 | 0x40 | 0x80 | 0x200 | 0x400 | 0x2000 | 0x4000
                 | 0x8000 | 0x10000 | 0x20000)
_RECOVER = 0x4
_64BIT = 0x80
# SPARSE_SUPER, LARGE_FILE, BTREE_DIR, HUGE_FILE, GDT_CSUM, DIR_NLINK,
# EXTRA_ISIZE, QUOTA, METADATA_CSUM, READONLY, PROJECT, VERITY.
_READ_ONLY = (0x1 | 0x2 | 0x4 | 0x8 | 0x10 | 0x20 | 0x40 | 0x100 | 0x400
              | 0x1000 | 0x2000 | 0x8000)
_METADATA_CSUM = 0x400
_CSUM_SEED = 0x2000
# Those with which a group's flags mean something: GDT_CSUM too.
_CHECKSUMS = 0x10 | _METADATA_CSUM
_BLOCK_UNINIT = 0x2

_BITS = [bytes(number >> bit & 1 for bit in range(8))
         for number in range(256)]


def free(read: partitions.Read, length: int) -> Iterator[tuple[int, int]]:
    """Give the free ranges of a file system, ascending.

    :param read: reads it.
    :param length: bytes of what it lies in.
    :return: offsets and lengths in bytes.
    :raises Unusual: it cannot be relied on.
    """
    layout = _Layout(read(_SUPERBLOCK, 1024), length)
    total = 0
    for number in range(layout.groups):
        group = layout.group(read, number)
        total += group.free
        if not group.initialised:
            continue
        first = layout.first + number * layout.per_group
        blocks = min(layout.per_group, layout.blocks - first)
        bitmap = read(group.bitmap * layout.block, layout.block)
        demand(layout.seed is None or group.bitmap_checksum
               == layout.checksum(bitmap[:layout.per_group // 8])
               & group.checksum_bits,
               f'the bitmap of group {number} is damaged.')
        found = 0
        for begin, count in _runs(bitmap, blocks):
            found += count
            yield (first + begin) * layout.block, count * layout.block
        demand(found == group.free,
               f'the bitmap of group {number} does not count what it says.')
    demand(total == layout.free, 'its groups do not count what it says.')


@dataclasses.dataclass(frozen=True)
class _Group:
    """What a group says of itself.

    :ivar bitmap: the block of its bitmap.
    :ivar free: number of its free blocks.
    :ivar initialised: whether the bitmap was ever written.
    :ivar bitmap_checksum: of the bitmap, in so many bits as
        ``checksum_bits`` masks.
    """

    bitmap: int
    free: int
    initialised: bool
    bitmap_checksum: int
    checksum_bits: int


class _Layout:
    """What the superblock says.

    :ivar block: bytes of a block.
    :ivar blocks: their number.
    :ivar first: number of the first block of the first group.
    :ivar per_group: blocks of a group.
    :ivar free: number of free blocks.
    :ivar seed: what checksums begin with; None where there are none.
    """

    def __init__(self, data: bytes, length: int):
        def number(at: int, form: str = '<I') -> int:
            return struct.unpack_from(form, data, at)[0]

        demand(number(0x38, '<H') == _MAGIC, 'it has no superblock.')
        incompatible, read_only = number(0x60), number(0x64)
        demand(not incompatible & _RECOVER,
               'its journal needs recovery, as it was not unmounted.')
        demand(number(0x3a, '<H') == _VALID and not number(0xe8),
               'it was not unmounted cleanly, or has errors.')
        demand(not incompatible & ~_INCOMPATIBLE
               and not read_only & ~_READ_ONLY,
               'it has features that are not known here.')
        demand(number(0x18) <= 6, 'its blocks are too large.')
        wide = bool(incompatible & _64BIT)
        self._wide = wide
        self.block = 1024 << number(0x18)
        self.blocks = number(0x4) + (number(0x150) << 32) * wide
        self.free = number(0xc) + (number(0x158) << 32) * wide
        self.first = number(0x14)
        self.per_group = number(0x20)
        self.descriptor = number(0xfe, '<H') if wide else 32
        self.flags = bool(read_only & _CHECKSUMS)
        self.seed: int | None = None
        if read_only & _METADATA_CSUM:
            demand(crc32c.update(data[:0x3fc]) == number(0x3fc),
                   'its superblock is damaged.')
            self.seed = (number(0x270) if incompatible & _CSUM_SEED
                         else crc32c.update(data[0x68:0x78]))
        demand(self.first == (self.block == 1024)
               and 0 < self.per_group <= 8 * self.block
               and self.per_group % 8 == 0
               and self.first < self.blocks
               and self.blocks * self.block <= length
               and self.descriptor >= (64 if wide else 32)
               and self.block % self.descriptor == 0,
               'its superblock makes no sense.')
        self.groups = -(-(self.blocks - self.first) // self.per_group)

    def checksum(self, data: bytes) -> int:
        """Give the checksum of metadata."""
        return crc32c.update(data, self.seed or 0)

    def group(self, read: partitions.Read, group: int) -> _Group:
        """Read what a group says of itself."""
        data = read((self.first + 1) * self.block
                    + group * self.descriptor, self.descriptor)

        def number(low: int, high: int, form: str) -> int:
            value, = struct.unpack_from(f'<{form}', data, low)
            if self._wide:
                more, = struct.unpack_from(f'<{form}', data, high)
                value |= more << 8 * struct.calcsize(f'<{form}')
            return value

        checksum, = struct.unpack_from('<H', data, 0x1e)
        demand(self.seed is None or checksum == self.checksum(
            struct.pack('<I', group) + data[:0x1e] + bytes(2)
            + data[0x20:]) & 0xffff, f'group {group} is damaged.')
        bitmap = number(0x0, 0x20, 'I')
        demand(self.first < bitmap < self.blocks,
               f'the bitmap of group {group} lies outside.')
        flags, = struct.unpack_from('<H', data, 0x12)
        return _Group(
            bitmap, number(0xc, 0x2c, 'H'),
            not (self.flags and flags & _BLOCK_UNINIT),
            number(0x18, 0x38, 'H'),
            0xffffffff if self._wide else 0xffff)


def _runs(bitmap: bytes, blocks: int) -> Iterator[tuple[int, int]]:
    """Give the runs of free blocks, as first and number."""
    used = b''.join(map(_BITS.__getitem__, bitmap))[:blocks]
    begin = used.find(0)
    while begin >= 0:
        end = used.find(1, begin)
        if end < 0:
            end = blocks
        yield begin, end - begin
        begin = used.find(0, end)
