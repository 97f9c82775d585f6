# SPDX-License-Identifier: Apache-2.0
"""Which of the disks is meant.

The rules of ironic-python-agent: the node's hints, or without any the
smallest disk of at least 4 GiB. With two differences, as a copy of a wrong
disk is found out when it is too late: of several that would do none is
guessed, and where it is known what the root disk held when the node was
deployed, the disk has to hold it.
"""

from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
from typing import Any

from stillframe.agent import disks
from stillframe.agent import failures
from stillframe.agent import hints
from stillframe.agent import identity
from stillframe.agent import orders

#: Bytes that a disk needs for an operating system.
LEAST = 4 << 30

#: Gives the names that a disk is known by.
Names = Callable[[disks.Disk], set[str]]


@dataclasses.dataclass(frozen=True)
class Choice:
    """The disk that is meant.

    :ivar notes: sentences on what somebody should know.
    """

    disk: disks.Disk
    notes: tuple[str, ...] = ()


def choose(found: Sequence[disks.Disk], order: orders.Order,
           names: Names = identity.names) -> Choice:
    """Choose the disk that an order is about.

    :param found: the machine's disks.
    :param names: how to learn the names that a disk is known by.
    :raises NoDisk: there is none.
    :raises AmbiguousDisk: there are several, and nothing tells which.
    :raises WrongDisk: it is not the one that the node was deployed to.
    :raises BadOrder: hints cannot be understood.
    """
    skipped = [hints.compile_(one) for one in order.skip_block_devices]
    # A path of a multipath device is not a disk of its own.
    disks_ = [disk for disk in found
              if not any(test(disk) for test in skipped)
              and not _is_path(disk, found)]
    if isinstance(order.device, Mapping):
        return _choice(_only(_matching(disks_, order.device),
                             'the hints of the order'), disks_)
    wanted = _wanted(order)
    if order.root_device:
        would_do = _matching(disks_, order.root_device)
        why = "the node's hints for its root disk"
    else:
        would_do = [disk for disk in disks_
                    if disk.size >= LEAST and not disk.used_by]
        if not would_do:
            raise failures.NoDisk(
                f'No disk has at least {LEAST >> 30} GiB: '
                f'{listing(disks_)}.')
        why = ''
    if wanted:
        return _known(would_do, disks_, wanted, names)
    if not order.root_device:
        would_do = [disk for disk in would_do
                    if disk.size == min(one.size for one in would_do)]
        why = 'the rule of the smallest'
    return _choice(_only(would_do, why), disks_)


def _wanted(order: orders.Order) -> str:
    """Give the name that the root disk is known by; '' for none."""
    name = (order.root_uuid_or_disk_id or '').strip().lower()
    # What Ironic notes of a disk without an identifier.
    return '' if name == identity.NONE else name


def _matching(found: Sequence[disks.Disk], wanted: Mapping[str, Any]
              ) -> list[disks.Disk]:
    test = hints.compile_(wanted)
    matching = [disk for disk in found if test(disk)]
    if not matching:
        raise failures.NoDisk(
            f'No disk matches the hints {_text(wanted)}: '
            f'{listing(found)}.')
    # An array rather than its members, when both match.
    return [disk for disk in matching if not disk.used_by] or matching


def _text(wanted: Mapping[str, Any]) -> str:
    return ', '.join(f'{name} {hint}' for name, hint in wanted.items())


def _known(would_do: Sequence[disks.Disk], found: Sequence[disks.Disk],
           wanted: str, names: Names) -> Choice:
    """Choose the one that has the name."""
    holding = [disk for disk in found if wanted in names(disk)]
    chosen = [disk for disk in would_do if disk in holding]
    if len(chosen) == 1:
        return _choice(chosen[0], found)
    if chosen:
        raise failures.AmbiguousDisk(
            f'Several disks hold {wanted}, to which the node was deployed: '
            f'{listing(chosen)}. Say which is meant by hints for a device.')
    if holding:
        raise failures.WrongDisk(
            f'The node was deployed to {wanted}, which '
            f'{listing(holding)} holds, and the hints or rules choose '
            f'{listing(would_do)}.')
    raise failures.WrongDisk(
        f'The node was deployed to {wanted}, which no disk holds: '
        f'{listing(found)}. Say which is meant by hints for a device.')


def _only(would_do: Sequence[disks.Disk], why: str) -> disks.Disk:
    if len(would_do) > 1:
        raise failures.AmbiguousDisk(
            f'By {why} several disks could be meant: '
            f'{listing(would_do)}. Say which by their serial or wwn.')
    return would_do[0]


def _choice(disk: disks.Disk, found: Sequence[disks.Disk]) -> Choice:
    notes = []
    if disk.used_by:
        notes.append(
            f'{disk.name} is a part of {", ".join(disk.used_by)}: without '
            'the other parts its image may be of no use.')
    paths = [one.name for one in found
             if set(one.serials) & set(disk.serials) and one != disk]
    if paths:
        notes.append(
            f'{", ".join(paths)} has the serial number of {disk.name} too: '
            'maybe another path to it.')
    return Choice(disk, tuple(notes))


def _is_path(disk: disks.Disk, found: Sequence[disks.Disk]) -> bool:
    multipath = {one.name.rpartition('/')[2] for one in found
                 if one.kind == 'multipath'}
    return not multipath.isdisjoint(disk.used_by)


def listing(found: Sequence[disks.Disk]) -> str:
    """Name disks in a sentence."""
    return ', '.join(map(str, found)) or 'there is none'
