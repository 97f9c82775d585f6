# SPDX-License-Identifier: Apache-2.0
"""Writing a qcow2 image with zstd clusters from first byte to last.

How long a compressed cluster becomes is known when it is compressed, so
what refers to it comes after it, and the header last of all: it takes the
place of the zeroes that the file begins with. Until then the file is no
qcow2 image, not even a damaged one.

Each L2 table follows the data of its part of the disk, and each refcount
block what it counts, so memory stays the same whatever the disk's size.
What does not get smaller is stored as it is. The numbers are those of
QEMU's docs/interop/qcow2.txt, version 3; readers need QEMU 5.1.
"""

from array import array
from collections.abc import Iterator
from collections.abc import Sequence
import struct

from stillframe.qcow2 import allocation
from stillframe.qcow2 import writer

CLUSTER = allocation.CLUSTER
CLUSTER_BITS = allocation.CLUSTER_BITS
#: Bytes from which on a compressed cluster is not worth the reader's time.
WORTHLESS = CLUSTER - CLUSTER // 16

_HEADER = struct.Struct('>IIQIIQIIQQIIQQQQIIB7x')
_COMPRESSION_TYPE = 1 << 3                # incompatible feature
_ZSTD = 1
_SECTOR = 512
_COMPRESSED = 1 << 62
# Where an L2 entry has the number of further sectors.
_SECTORS_SHIFT = 62 - (CLUSTER_BITS - 8)
_COUNTS_A_BLOCK = CLUSTER // 2
_ENTRIES_A_TABLE = CLUSTER // 8
# Clusters kept back until it is worth going to a cluster's border for them.
_MOST_HELD = 32

Buffer = writer.Buffer


def limit(size: int) -> int:
    """Give the bytes that no image of a disk will exceed.

    Going to a border costs nothing beyond this: the clusters since the last
    one are all smaller than they were.

    :param size: bytes of the disk.
    """
    clusters = -(-size // CLUSTER)
    tables = -(-clusters // _ENTRIES_A_TABLE)
    counted = 1 + clusters + tables + max(1, -(-tables * 8 // CLUSTER))
    # These count themselves too, as little as that is.
    blocks = -(-counted // (_COUNTS_A_BLOCK - 2)) + 1
    return (counted + blocks + -(-blocks * 8 // CLUSTER)) * CLUSTER


class Image:
    """The image of one disk, made as its clusters come, ascending.

    All that the methods give has to be written, in that order. What they
    give is good until the next is taken.
    """

    def __init__(self, size: int):
        """Begin an image.

        :param size: bytes of the disk; a multiple of 512.
        :raises ValueError: the disk is larger than the format can say.
        """
        self._size = size
        tables = -(-size // (CLUSTER * _ENTRIES_A_TABLE))
        if tables * 8 > writer.MAX_L1_BYTES:
            raise ValueError(f'A disk of {size} bytes is too large.')
        self._at = 0
        self._l1 = array('Q', bytes(tables * 8))
        self._l1_at = 0
        self._l2 = array('Q', bytes(CLUSTER))
        self._span = 0
        self._span_used = False
        self._held: list[tuple[int, bytes]] = []
        # Refcounts of what is not in a block that was written, by block.
        self._counts: dict[int, array[int]] = {}
        self._blocks: list[int] = []
        self._table_at = 0

    def begin(self) -> Iterator[Buffer]:
        """Give the place of the header."""
        yield self._clusters(bytes(CLUSTER))

    def packed(self, frames: Sequence[tuple[int, int]], data: Buffer
               ) -> Iterator[Buffer]:
        """Add compressed clusters.

        :param frames: numbers of clusters and the bytes that each became;
            at least one, and all of a part of the disk that one L2 table
            maps (512 MiB).
        :param data: those bytes, one cluster's after the other's.
        :raises ValueError: that is not so.
        """
        span = frames[0][0] // _ENTRIES_A_TABLE
        if span != self._span:
            yield from self._next_span(span)
        begin = self._at
        for cluster, length in frames:
            if cluster // _ENTRIES_A_TABLE != span:
                raise ValueError('The clusters are of several tables.')
            first, last = self._at, self._at + length - 1
            more = last // _SECTOR - first // _SECTOR
            self._map(cluster, _COMPRESSED | more << _SECTORS_SHIFT | first)
            for one in range(first // CLUSTER, last // CLUSTER + 1):
                self._count(one)
            self._at += length
        if self._at - begin != memoryview(data).nbytes:
            raise ValueError('The clusters are not as long as was said.')
        yield data

    def plain(self, cluster: int, data: Buffer) -> Iterator[Buffer]:
        """Add a cluster as it is.

        :param data: all of it.
        """
        span = cluster // _ENTRIES_A_TABLE
        if span != self._span:
            yield from self._next_span(span)
        if self._at % CLUSTER == 0:
            self._map(cluster, self._at | writer.COPIED)
            yield self._clusters(data)
            return
        self._held.append((cluster, bytes(data)))
        if len(self._held) == _MOST_HELD:
            yield from self._to_border()

    def end(self) -> Iterator[Buffer]:
        """Give all that is left, but the header."""
        yield from self._next_span(0)
        self._l1_at = self._at
        yield self._clusters(_padded(writer.big_endian(self._l1[:])))
        yield from self._last_counts()

    def header(self) -> bytes:
        """Give what belongs to the beginning of the file, after the end."""
        return _HEADER.pack(
            writer.MAGIC, writer.VERSION, 0, 0, CLUSTER_BITS, self._size,
            0, len(self._l1), self._l1_at, self._table_at,
            -(-len(self._blocks) * 8 // CLUSTER), 0, 0, _COMPRESSION_TYPE,
            0, 0, writer.REFCOUNT_ORDER, _HEADER.size, _ZSTD)

    def _map(self, cluster: int, entry: int) -> None:
        self._l2[cluster % _ENTRIES_A_TABLE] = entry
        self._span_used = True

    def _count(self, cluster: int) -> None:
        block, index = divmod(cluster, _COUNTS_A_BLOCK)
        counts = self._counts.get(block)
        if counts is None:
            counts = self._counts[block] = array('H', bytes(CLUSTER))
        counts[index] += 1

    def _clusters(self, data: Buffer) -> Buffer:
        """Count whole clusters that are about to be given."""
        count = memoryview(data).nbytes // CLUSTER
        for one in range(self._at // CLUSTER, self._at // CLUSTER + count):
            self._count(one)
        self._at += count * CLUSTER
        return data

    def _to_border(self) -> Iterator[Buffer]:
        """Go to a cluster's border, and give what was kept back for it."""
        gap = -self._at % CLUSTER
        if gap:
            self._at += gap
            yield bytes(gap)
        for cluster, data in self._held:
            self._map(cluster, self._at | writer.COPIED)
            yield self._clusters(data)
        self._held.clear()

    def _next_span(self, span: int) -> Iterator[Buffer]:
        """Give the L2 table of what has passed, and begin another."""
        if self._held or self._span_used:
            yield from self._to_border()
            self._l1[self._span] = self._at | writer.COPIED
            yield self._clusters(writer.big_endian(self._l2))
            self._l2 = array('Q', bytes(CLUSTER))
            self._span_used = False
        self._span = span
        # What lies before here will not be referred to any more.
        while (len(self._blocks) + 1) * _COUNTS_A_BLOCK <= (
                self._at // CLUSTER):
            yield self._block()

    def _block(self) -> Buffer:
        """Give the next refcount block."""
        counts = self._counts.pop(len(self._blocks))
        self._blocks.append(self._at)
        return self._clusters(writer.big_endian(counts))

    def _last_counts(self) -> Iterator[Buffer]:
        """Give the refcount blocks that are left, and their table."""
        here = self._at // CLUSTER
        blocks = table = 1
        while True:
            # They count themselves too: go on until it holds.
            need = -(-(here + blocks + table) // _COUNTS_A_BLOCK)
            left = need - len(self._blocks)
            need_table = -(-need * 8 // CLUSTER)
            if (left, need_table) == (blocks, table):
                break
            blocks, table = left, need_table
        for one in range(here, here + blocks + table):
            self._count(one)
        for _ in range(blocks):
            counts = self._counts.pop(len(self._blocks))
            self._blocks.append(self._at)
            self._at += CLUSTER
            yield writer.big_endian(counts)
        self._table_at = self._at
        yield _padded(writer.big_endian(array('Q', self._blocks)))
        self._at += table * CLUSTER


def _padded(data: bytes) -> bytes:
    return data.ljust(max(1, -(-len(data) // CLUSTER)) * CLUSTER, b'\0')
