# SPDX-License-Identifier: Apache-2.0
"""Which clusters of a disk hold data.

One byte a cluster (16 MiB for a disk of 1 TiB), so memory is bounded by the
disk's size whatever its fragmentation, and runs are found at the speed of
``memchr``.
"""

from collections.abc import Iterator

CLUSTER_BITS = 16
CLUSTER = 1 << CLUSTER_BITS
SECTOR = 512

_ZEROES = bytes(CLUSTER)


class Allocation:
    """The map of the clusters of one disk that are to be stored.

    :ivar size: bytes of the disk.
    :ivar clusters: number of clusters of the disk, the last maybe partial.
    """

    def __init__(self, size: int):
        """Make a map of a disk that holds nothing yet.

        :param size: bytes; a positive multiple of 512, as any disk's.
        :raises ValueError: it is not.
        """
        if size <= 0 or size % SECTOR:
            raise ValueError(
                f'A disk of {size} bytes is not a whole number of sectors.')
        self.size = size
        self.clusters = -(-size // CLUSTER)
        self._flags = bytearray(self.clusters)

    @property
    def allocated(self) -> int:
        """Number of clusters that hold data."""
        return self._flags.count(1)

    def mark(self, offset: int, length: int) -> None:
        """Say that a range of the disk holds data.

        :param offset: bytes; need not be on a cluster's border.
        :param length: bytes.
        :raises ValueError: the range is not inside the disk.
        """
        if offset < 0 or length < 0 or offset + length > self.size:
            raise ValueError(
                f'{length} bytes at {offset} are not inside a disk of '
                f'{self.size} bytes.')
        if length:
            first = offset >> CLUSTER_BITS
            count = ((offset + length - 1) >> CLUSTER_BITS) + 1 - first
            self._flags[first:first + count] = b'\1' * count

    def mark_inside(self, offset: int, length: int) -> None:
        """Mark the clusters that lie in a range altogether.

        :param offset: bytes.
        :param length: bytes.
        :raises ValueError: the range is not inside the disk.
        """
        end = offset + length
        if offset < 0 or length < 0 or end > self.size:
            raise ValueError(
                f'{length} bytes at {offset} are not inside a disk of '
                f'{self.size} bytes.')
        first = -(-offset // CLUSTER)
        # The disk's last cluster may be a part of one.
        after = self.clusters if end == self.size else end >> CLUSTER_BITS
        if first < after:
            self._flags[first:after] = b'\1' * (after - first)

    def add(self, other: 'Allocation') -> None:
        """Mark what is marked in another map of the same disk."""
        for first, count in other.runs():
            self._flags[first:first + count] = b'\1' * count

    def remove(self, other: 'Allocation') -> None:
        """Unmark what is marked in another map of the same disk."""
        for first, count in other.runs():
            self._flags[first:first + count] = bytes(count)

    def ranges(self) -> Iterator[tuple[int, int]]:
        """Give the marked runs as offsets and lengths in bytes."""
        for first, count in self.runs():
            offset = first << CLUSTER_BITS
            yield offset, min(count << CLUSTER_BITS, self.size - offset)

    def scan(self, offset: int, memory: bytearray, start: int = 0,
             length: int | None = None) -> None:
        """Mark those clusters of some data that are not all zeroes.

        :param offset: where the data lies in the disk, in bytes; on a
            cluster's border.
        :param memory: holds whole clusters, or less at the disk's end.
        :param start: where in it they begin.
        :param length: bytes; None for all that follow.
        :raises ValueError: it does not start on a border, or ends inside a
            cluster that goes on, or is not inside the disk.
        """
        if length is None:
            length = len(memory) - start
        end = offset + length
        if offset % CLUSTER or end > self.size or (
                end % CLUSTER and end != self.size) or (
                not 0 <= start <= start + length <= len(memory)):
            raise ValueError('Only whole clusters can be scanned.')
        first = offset >> CLUSTER_BITS
        whole = length >> CLUSTER_BITS
        flags = self._flags
        for index in range(whole):
            # Stops at the first byte that differs, and copies nothing.
            if not memory.startswith(
                    _ZEROES, start + (index << CLUSTER_BITS)):
                flags[first + index] = 1
        rest = length - (whole << CLUSTER_BITS)
        if rest and not memory.startswith(
                _ZEROES[:rest], start + (whole << CLUSTER_BITS)):
            flags[first + whole] = 1

    def runs(self, first: int = 0,
             end: int | None = None) -> Iterator[tuple[int, int]]:
        """Give the runs of clusters with data in a range of clusters.

        :return: pairs of first cluster and number of clusters, ascending.
        """
        flags = self._flags
        end = self.clusters if end is None else end
        while (first := flags.find(1, first, end)) >= 0:
            after = flags.find(0, first, end)
            if after < 0:
                after = end
            yield first, after - first
            first = after
