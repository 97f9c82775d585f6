# SPDX-License-Identifier: Apache-2.0
"""Points in time of all disks of a server, and reading them at leisure.

A point is prepared (slow, changes nothing), taken (an instant), read over
NBD, and released, after which nothing of it is left.
"""

from collections.abc import Callable
import pathlib
import threading
from typing import Protocol

import libvirt
from oslo_log import log

from stillframe.compute import clock
from stillframe.compute.imaging import exports
from stillframe.compute.imaging import overlays
from stillframe.compute.libvirt import backup
from stillframe.compute.libvirt import errors
from stillframe.compute.libvirt import image_disks
from stillframe.compute.libvirt import jobs
from stillframe.compute.libvirt.troubles import AgentTrouble
from stillframe.compute.libvirt.troubles import Trouble

LOG = log.getLogger(__name__)

Lookup = Callable[[], libvirt.virDomain]

BACKUP = 'backup'
STOPPED = 'stopped'
OVERLAY = 'overlay'
VOLUMES = 'volumes'

# Seconds for which to try to end a job while libvirt cannot be reached,
# and for the job to be gone after it was told to end; the same when this
# worker is stopping, whose next life goes on with it.
_PATIENCE = 30.0
_LAST_PATIENCE = 2.0
_LOOK = 0.05
_LOOK_FOR_LIBVIRT = 0.5


class NotReleased(Exception):
    """Something of a point is left; releasing it has to be tried again."""


class Busy(Exception):
    """Another job is at work on the server; nothing was changed.

    The text says which, to any user of the server.
    """


class Point(Protocol):
    """A point in time of some disks; see the module.

    :ivar method: how it is taken; certain once it was.
    """

    method: str

    def prepare(self) -> None:
        """Do what can be done before the instant."""

    def take(self) -> None:
        """Take the point in time."""

    def export(self, target: str) -> str:
        """Give the path of the socket that exports a disk."""

    def release(self) -> None:
        """Undo all; no harm when nothing was done, or done already.

        :raises NotReleased: see there.
        """


class RunningPoint:
    """Of a running or paused guest: by the backup job, else by overlays."""

    def __init__(self, lookup: Lookup, folder: pathlib.Path,
                 disks: list[image_disks.Disk], chained: list[str],
                 overlay: bool, stopping: threading.Event):
        """Take what is needed.

        :param chained: targets of the disks on which a block job would be
            in the way.
        :param overlay: do not try the backup job.
        """
        self.method = OVERLAY if overlay else BACKUP
        self._lookup = lookup
        self._job = backup.Backup(lookup, folder)
        self._overlays = overlays.Overlays(lookup, folder, disks, stopping)
        self._targets = [disk.target for disk in disks]
        self._chained = chained
        self._stopping = stopping
        self._others: list[str] = []

    def prepare(self) -> None:
        """Find out what is not part of it, and whether there is a chance.

        :raises Busy: see there.
        """
        domain = self._lookup()
        _check_free(domain, self._chained)
        try:
            xml = domain.XMLDesc(0)
        except libvirt.libvirtError as exc:
            raise errors.trouble(exc) from exc
        self._others = [name for name in image_disks.targets(xml)
                        if name not in self._targets]

    def take(self) -> None:
        """Begin the job; where there is no such thing, switch the disks."""
        if self.method == BACKUP:
            try:
                self._job.begin(self._targets, self._others)
            except AgentTrouble as trouble:
                if trouble.kind is not Trouble.UNSUPPORTED:
                    raise
                LOG.info('No backup job here, so overlays have to do: %s',
                         trouble)
                self.method = OVERLAY
        if self.method == OVERLAY:
            self._overlays.begin(self._others)

    def export(self, target: str) -> str:
        """Give the path of the socket that exports a disk."""
        if self.method == OVERLAY:
            return self._overlays.export(target)
        return self._job.socket

    def release(self) -> None:
        """End what there is, also across a restart of libvirt's daemon."""
        begun = clock.now()
        pause = threading.Event()
        while True:
            try:
                if self._released():
                    return
                wait = _LOOK
            except AgentTrouble as trouble:
                if trouble.kind is Trouble.GONE:
                    return
                LOG.warning('The point in time at %s cannot be released '
                            'yet: %s', self._job.socket, trouble)
                wait = _LOOK_FOR_LIBVIRT
            except overlays.NotMerged as exc:
                raise NotReleased(str(exc)) from exc
            pause.wait(wait)
            if clock.now() - begun > (
                    _LAST_PATIENCE if self._stopping.is_set()
                    else _PATIENCE):
                raise NotReleased('The point in time at '
                                  f'{self._job.socket} is still there.')

    def _released(self) -> bool:
        """Do what is to be done next; tell whether nothing is left."""
        self._job.end()
        # It is told to end, and is gone a little later.
        if self._job.there():
            return False
        self._overlays.end()
        if self.starving():
            self._job.relieve()
            LOG.warning('A guest that was paused for want of room in %s '
                        'goes on', self._job.socket)
            # The write that it repeats may have come too early.
            return False
        return True

    def starving(self) -> bool:
        """Tell whether the guest stands still for want of room."""
        return self._job.starving()


class StoppedPoint:
    """Of a guest that is off: its disks stand still by themselves."""

    method = STOPPED

    def __init__(self, folder: pathlib.Path,
                 disks: list[image_disks.Disk], stopping: threading.Event):
        self._disks = disks
        self._exports = exports.Exports(folder, stopping)
        self._sockets: dict[str, str] = {}

    def prepare(self) -> None:
        """Nothing is to be done beforehand."""

    def take(self) -> None:
        """Open the disks, which keeps the guest from starting."""
        for disk in self._disks:
            self._sockets[disk.target] = self._exports.add(
                disk.target, image_disks.block_node(disk))

    def export(self, target: str) -> str:
        """Give the disk's own socket."""
        return self._sockets[target]

    def release(self) -> None:
        """End the exports."""
        self._exports.close()


class NoPoint:
    """Of disks of which nothing is to be read here."""

    method = VOLUMES

    def prepare(self) -> None:
        """Nothing is to be done."""

    def take(self) -> None:
        """Nothing is to be done."""

    def export(self, target: str) -> str:
        """Nothing is exported."""
        raise KeyError(target)

    def release(self) -> None:
        """Nothing is to be undone here."""


class VolumesPoint(NoPoint):
    """Of a running guest all of whose disks are Cinder's, which does it.

    :param chained: see :class:`RunningPoint`; empty where Cinder needs
        nothing of this host.
    """

    def __init__(self, lookup: Lookup, chained: list[str]):
        self._lookup = lookup
        self._chained = chained

    def prepare(self) -> None:
        """Find out whether there is a chance.

        :raises Busy: see there.
        """
        if self._chained:
            _check_free(self._lookup(), self._chained)


def _check_free(domain: libvirt.virDomain, targets: list[str]) -> None:
    """Refuse a domain with a job, before anything of it is frozen.

    libvirt refuses to begin another one, or waits for the end of this one,
    and only when the guest is frozen already.
    """
    job = jobs.at_work(domain, targets)
    if job is not None:
        raise Busy(f'{job} Try again when that is done.')


def leftover(method: str, lookup: Lookup, folder: pathlib.Path,
             stopping: threading.Event) -> Point:
    """Give the point that an earlier life of the worker had taken."""
    if method in (BACKUP, OVERLAY):
        return RunningPoint(lookup, folder, [], [], False, stopping)
    # What exported a stopped guest's disks died with its worker.
    return NoPoint()
