# SPDX-License-Identifier: Apache-2.0
"""What the transports that mount something have in common."""

import abc
import dataclasses
import time

from stillframe.agent import apart
from stillframe.agent import children
from stillframe.agent import choose
from stillframe.agent import converting
from stillframe.agent import disks
from stillframe.agent import failures
from stillframe.agent import members
from stillframe.agent import orders
from stillframe.agent import source
from stillframe.agent import workplace
from stillframe.qcow2 import writer


@dataclasses.dataclass
class _Seen:
    """What was seen of a disk before it is copied.

    :ivar size: bytes of it.
    """

    disk: disks.Disk
    size: int
    layout: writer.Layout
    notes: tuple[str, ...]


class Mounted(abc.ABC):
    """One disk on its way into a file on something that is mounted."""

    def __init__(self, order: orders.Order):
        self._order = order
        self._runner = children.Children()
        self._source: source.Source | None = None
        self._apart: apart.Apart[_Seen] = apart.Apart('measure')

    def stop(self) -> None:
        """End it as soon as can be: :meth:`run` raises Stopped."""
        self._runner.stop()
        if self._source is not None:
            self._source.stop()
        self._apart.leave()

    def run(self, disk: disks.Disk | None = None) -> orders.Result:
        """Send the disk.

        :param disk: to send; None for the one that the order chooses.
        :raises BadOrder: this ramdisk or this transport cannot do that.
        :raises NoDisk, AmbiguousDisk, WrongDisk: it is not known which.
        :raises ReadFailed: it cannot be read.
        :raises SendFailed: it did not arrive.
        :raises Stopped: :meth:`stop` was called.
        """
        order = self._order
        converting.check(order)
        self._check()
        began, started = time.monotonic(), orders.now()
        seen = self._apart.run(lambda: self._look(disk))
        result = orders.Result(
            order.transport, order.disk_format, seen.disk.document(),
            seen.size, started,
            zero_bytes=seen.size - seen.layout.data_length)
        place = workplace.Workplace(self._room(seen.layout), self._runner)
        try:
            with place:
                result.size, result.sha256 = self._send(seen.disk, place)
        except failures.AgentError as exc:
            exc.args = (' '.join((str(exc), *place.left)),)
            raise
        result.notes += (*seen.notes, *place.left)
        result.duration = round(time.monotonic() - began, 3)
        result.finished_at = orders.now()
        return result

    def _look(self, disk: disks.Disk | None) -> _Seen:
        """Read the disk, to know what an image of it needs."""
        notes: tuple[str, ...] = ()
        if disk is None:
            choice = choose.choose(disks.found(), self._order)
            disk, notes = choice.disk, choice.notes
        with source.Source(disk.name, disk.sector) as opened:
            self._source = opened
            self._runner.check()
            notes = (*notes, *members.notes(opened))
            return _Seen(disk, opened.size, converting.measure(opened),
                         notes)

    @abc.abstractmethod
    def _check(self) -> None:
        """See that this ramdisk has what the transport needs.

        :raises BadOrder: it has not.
        """

    @abc.abstractmethod
    def _room(self, layout: writer.Layout) -> int:
        """Say how much room in memory is needed, in bytes.

        :raises SendFailed: there is less.
        """

    @abc.abstractmethod
    def _send(self, disk: disks.Disk, place: workplace.Workplace
              ) -> tuple[int, str]:
        """Copy the disk, and see that it arrived.

        :return: bytes of the file, and their SHA-256 in hex.
        """
