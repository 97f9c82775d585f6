# SPDX-License-Identifier: Apache-2.0
"""Writing a qcow2 image from its first byte to its last, in order.

An image that is written in order can go straight into an HTTP request: no
copy of it on disk, and its length is known before its first byte is sent,
so a server sees at once whether it got all. The price is that the map of
the clusters with data must be known beforehand.

The layout: header, refcount table, refcount blocks, L1 table, L2 tables of
those parts of the disk that hold data, then the data in the disk's order.
Nothing is compressed. What the map leaves out reads as zeroes. The numbers
are those of QEMU's docs/interop/qcow2.txt, version 3.
"""

from array import array
from collections import deque
from collections.abc import Callable
from collections.abc import Generator
from collections.abc import Iterable
from collections.abc import Iterator
import struct
import sys

from stillframe.qcow2 import allocation

CLUSTER_BITS = allocation.CLUSTER_BITS
CLUSTER = allocation.CLUSTER

MAGIC = 0x514649FB
VERSION = 3
_HEADER = struct.Struct('>IIQIIQIIQQIIQQQQII')
REFCOUNT_ORDER = 4                       # 16 bits a cluster
_REFCOUNTS_A_BLOCK = CLUSTER // 2
_ENTRIES_A_TABLE = CLUSTER // 8
COPIED = 1 << 63                         # refcount is exactly one
# QEMU refuses longer tables (qcow2.h, QCOW_MAX_L1_SIZE).
MAX_L1_BYTES = 32 * 1024 * 1024

Buffer = bytes | bytearray | memoryview
#: Reads pieces of the disk: takes (offset, length) pairs, gives as many
#: buffers of those lengths, in that order. It may read ahead.
Fetch = Callable[[Iterable[tuple[int, int]]], Iterable[Buffer]]


class ShortRead(Exception):
    """The source gave other than what was asked of it."""


def _clusters(count: int, size: int) -> int:
    return -(-count * size // CLUSTER)


def big_endian(entries: 'array[int]') -> bytes:
    """Write a table as the format has it; the array is of no use after."""
    if sys.byteorder == 'little':
        entries.byteswap()
    return entries.tobytes()


class Layout:
    """Where everything lies in the image of one disk.

    :ivar length: bytes of the whole image file.
    """

    def __init__(self, disk: allocation.Allocation):
        """Lay out an image.

        :param disk: the clusters with data; not to be changed afterwards.
        :raises ValueError: the disk is larger than the format can say.
        """
        self._disk = disk
        self._l1_size = -(-disk.clusters // _ENTRIES_A_TABLE)
        if self._l1_size * 8 > MAX_L1_BYTES:
            raise ValueError(f'A disk of {disk.size} bytes is too large.')
        # Which L1 entries have an L2 table.
        self._tables = [
            index for index in range(self._l1_size)
            if next(disk.runs(*self._span(index)), None) is not None]
        self._data = disk.allocated
        l1 = max(1, _clusters(self._l1_size, 8))
        fixed = 1 + l1 + len(self._tables) + self._data
        # The refcounts count their own clusters too: go on until it holds.
        blocks = table = 1
        while True:
            total = fixed + blocks + table
            need = -(-total // _REFCOUNTS_A_BLOCK)
            need_table = _clusters(need, 8)
            if (need, need_table) == (blocks, table):
                break
            blocks, table = need, need_table
        self._blocks = blocks
        self._refcount_table = 1
        self._refcount_table_clusters = table
        self._first_block = 1 + table
        self._l1 = self._first_block + blocks
        self._first_l2 = self._l1 + l1
        self._first_data = self._first_l2 + len(self._tables)
        self._total = total
        self.length = total * CLUSTER

    @property
    def data_length(self) -> int:
        """Bytes that will be read from the source."""
        whole = self._data * CLUSTER
        partial = self._disk.size % CLUSTER
        last = self._disk.clusters - 1
        if partial and next(self._disk.runs(last), None) is not None:
            return whole - CLUSTER + partial
        return whole

    def _span(self, index: int) -> tuple[int, int]:
        """Give the clusters of the disk that one L2 table maps."""
        first = index * _ENTRIES_A_TABLE
        return first, min(first + _ENTRIES_A_TABLE, self._disk.clusters)

    def head(self) -> Iterator[bytes]:
        """Write all that comes before the data, table by table."""
        yield self._header()
        yield from self._refcounts()
        yield from self._mappings()

    def _header(self) -> bytes:
        return _HEADER.pack(
            MAGIC, VERSION,
            0, 0,                                  # no backing file
            CLUSTER_BITS, self._disk.size,
            0,                                     # not encrypted
            self._l1_size, self._l1 * CLUSTER,
            self._refcount_table * CLUSTER, self._refcount_table_clusters,
            0, 0,                                  # no internal snapshots
            0, 0, 0,                               # no feature bits
            REFCOUNT_ORDER, _HEADER.size,
        ).ljust(CLUSTER, b'\0')                    # no header extensions

    def _refcounts(self) -> Iterator[bytes]:
        table = array('Q', bytes(self._refcount_table_clusters * CLUSTER))
        for index in range(self._blocks):
            table[index] = (self._first_block + index) * CLUSTER
        yield big_endian(table)
        full = b'\0\1' * _REFCOUNTS_A_BLOCK
        left = self._total
        for _ in range(self._blocks):
            count = min(left, _REFCOUNTS_A_BLOCK)
            yield full[:2 * count].ljust(CLUSTER, b'\0')
            left -= count

    def _mappings(self) -> Iterator[bytes]:
        l1 = array('Q', bytes((self._first_l2 - self._l1) * CLUSTER))
        for position, index in enumerate(self._tables):
            l1[index] = (self._first_l2 + position) * CLUSTER | COPIED
        yield big_endian(l1)
        at = self._first_data * CLUSTER | COPIED
        for index in self._tables:
            begin, end = self._span(index)
            l2 = array('Q', bytes(CLUSTER))
            for first, count in self._disk.runs(begin, end):
                after = at + count * CLUSTER
                l2[first - begin:first - begin + count] = array(
                    'Q', range(at, after, CLUSTER))
                at = after
            yield big_endian(l2)

    def pieces(self, limit: int) -> Iterator[tuple[int, int]]:
        """Give what is to be read of the disk, in order.

        :param limit: the longest piece in bytes.
        :return: pairs of offset and length in bytes.
        """
        step = max(CLUSTER, limit // CLUSTER * CLUSTER)
        for first, count in self._disk.runs():
            offset = first * CLUSTER
            end = min((first + count) * CLUSTER, self._disk.size)
            while offset < end:
                length = min(step, end - offset)
                yield offset, length
                offset += length

    def stream(self, fetch: Fetch, limit: int
               ) -> Generator[Buffer, None, None]:
        """Write the image, from its first byte to its last.

        :param fetch: reads the disk.
        :param limit: the longest piece that is asked of it, in bytes.
        :return: buffers, :attr:`length` bytes in all. Each is good until
            the next is taken.
        :raises ShortRead: the source gave other than what was asked.
        """
        yield from self.head()
        asked: deque[int] = deque()

        def pieces() -> Iterator[tuple[int, int]]:
            for offset, length in self.pieces(limit):
                asked.append(length)
                yield offset, length

        total = 0
        for data in fetch(pieces()):
            length = memoryview(data).nbytes
            if not asked or asked.popleft() != length:
                raise ShortRead(
                    f'The disk gave {length} bytes that were not asked for.')
            total += length
            yield data
        if total != self.data_length:
            raise ShortRead(
                f'The disk gave {total} of {self.data_length} bytes.')
        if total % CLUSTER:
            yield bytes(-total % CLUSTER)
