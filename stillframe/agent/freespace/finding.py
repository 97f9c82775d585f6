# SPDX-License-Identifier: Apache-2.0
"""Which parts of a disk its file systems say are free.

What is skipped wrongly is lost, so this is for file systems that were
unmounted cleanly and are nothing but usual; all others are looked through
for zeroes only, and it is told why.
"""

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator

from stillframe.agent import failures
from stillframe.agent import partitions
from stillframe.agent import signatures
from stillframe.agent import source
from stillframe.agent.freespace import btrfs
from stillframe.agent.freespace import ext4
from stillframe.agent.freespace import unusual
from stillframe.agent.freespace import xfs
from stillframe.qcow2 import allocation

#: Gives the free ranges of a file system: offsets from its beginning, and
#: lengths, in bytes. Takes what reads it, and its partition's length.
Reader = Callable[[partitions.Read, int], Iterable[tuple[int, int]]]

_READERS: dict[str, Reader] = {
    'ext': ext4.free, 'xfs': xfs.free, 'btrfs': btrfs.free}


def find(opened: source.Source) -> tuple[allocation.Allocation, list[str]]:
    """Find what is free on a disk.

    :return: a map of the clusters that are free altogether, and sentences
        on what was left alone.
    """
    free = allocation.Allocation(opened.size)
    notes: list[str] = []
    parts = partitions.parts(opened.read, opened.size, opened.sector)
    if not parts or partitions.overlap(parts):
        return free, ['No free space was skipped: the table of partitions '
                      'is not understood.']
    for part in parts:
        try:
            found = allocation.Allocation(opened.size)
            for begin, count in _joined(_of(opened, part)):
                if begin < 0 or begin + count > part.length:
                    raise unusual.Unusual(
                        'its free space reaches beyond it.')
                found.mark_inside(part.offset + begin, count)
        except (unusual.Unusual, failures.ReadFailed) as exc:
            notes.append(f'{part}: no free space was skipped: {exc}')
        else:
            # Only now is it known that all of it could be read.
            free.add(found)
    return free, notes


def _of(opened: source.Source, part: partitions.Partition
        ) -> Iterable[tuple[int, int]]:
    """Find the file system of a partition; give what is free there.

    :raises Unusual: there is none that can be relied on.
    """
    kinds = signatures.read(opened.read, part.offset, part.length).kinds
    if len(kinds) != 1 or kinds[0] not in _READERS:
        raise unusual.Unusual(
            f'it holds {" and ".join(kinds) or "nothing known"}.')

    def read(place: int, size: int) -> bytes:
        if place < 0 or size < 0 or place + size > part.length:
            raise unusual.Unusual('it refers to what lies beyond it.')
        return opened.read(part.offset + place, size)

    return _READERS[kinds[0]](read, part.length)


def _joined(ranges: Iterable[tuple[int, int]]
            ) -> Iterator[tuple[int, int]]:
    """Join ranges that touch, so that no cluster is lost between them."""
    begin = end = 0
    for offset, length in ranges:
        if offset != end:
            if end > begin:
                yield begin, end - begin
            begin = offset
        end = offset + length
    if end > begin:
        yield begin, end - begin
