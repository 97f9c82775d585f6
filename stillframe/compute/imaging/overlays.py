# SPDX-License-Identifier: Apache-2.0
"""A point in time by overlays, where there is no backup job.

For the time of an image the guest writes to overlays in the scratch folder,
and what lies below stands still. Afterwards each overlay is merged down by
an active commit; that its disk is back on its own file is then seen in the
live chain, and nothing else counts as proof.
"""

from collections.abc import Callable
import pathlib
import threading
from xml.sax import saxutils

import libvirt

from stillframe.compute import clock
from stillframe.compute.imaging import exports
from stillframe.compute.libvirt import domain_xml
from stillframe.compute.libvirt import errors
from stillframe.compute.libvirt import image_disks

_SNAPSHOT = (libvirt.VIR_DOMAIN_SNAPSHOT_CREATE_DISK_ONLY
             | libvirt.VIR_DOMAIN_SNAPSHOT_CREATE_ATOMIC
             | libvirt.VIR_DOMAIN_SNAPSHOT_CREATE_NO_METADATA)
_COMMIT = (libvirt.VIR_DOMAIN_BLOCK_COMMIT_ACTIVE
           | libvirt.VIR_DOMAIN_BLOCK_COMMIT_SHALLOW)
# Seconds for all merges before they are left to a later try, and between
# two looks; libvirt's events are lost with a connection.
_PATIENCE = 600.0
_LOOK = 0.2


class NotMerged(Exception):
    """A disk is still on its overlay; merging has to be tried again."""


class Overlays:
    """The overlays of one domain that lie in one folder.

    Raises :class:`~stillframe.compute.libvirt.troubles.AgentTrouble` for
    what libvirt has to say.
    """

    def __init__(self, lookup: Callable[[], libvirt.virDomain],
                 folder: pathlib.Path, disks: list[image_disks.Disk],
                 stopping: threading.Event):
        self._lookup = lookup
        self._folder = folder
        self._disks = disks
        self._stopping = stopping
        self._exports = exports.Exports(folder, stopping)

    def begin(self, others: list[str]) -> None:
        """Put an overlay on each disk, all at one instant.

        :param others: all other disks of the domain.
        """
        quote = saxutils.quoteattr
        parts = [f'<disk name={quote(disk.target)} snapshot="external" '
                 'type="file"><driver type="qcow2"/><source file='
                 f'{quote(str(self._folder / disk.target))}/></disk>'
                 for disk in self._disks]
        parts += [f'<disk name={quote(name)} snapshot="no"/>'
                  for name in others]
        try:
            self._lookup().snapshotCreateXML(
                f'<domainsnapshot><disks>{"".join(parts)}</disks>'
                '</domainsnapshot>', _SNAPSHOT)
        except libvirt.libvirtError as exc:
            raise errors.trouble(exc) from exc

    def export(self, target: str) -> str:
        """Export what lies below the overlay of a disk."""
        disk = next(one for one in self._disks if one.target == target)
        return self._exports.add(target, image_disks.block_node(disk))

    def _left(self) -> list[str]:
        """Give the targets of the disks that are on an overlay of ours."""
        try:
            # Of one that is off, this is its definition.
            xml = self._lookup().XMLDesc(0)
        except libvirt.libvirtError as exc:
            raise errors.trouble(exc) from exc
        return [disk.target for disk in image_disks.find(xml)
                if disk.path == str(self._folder / disk.target)]

    def end(self) -> None:
        """Merge all overlays down; no harm when there are none.

        :raises NotMerged: see there.
        """
        self._exports.close()
        begun = clock.now()
        pause = threading.Event()
        while left := self._left():
            for target in left:
                self._step(target)
            if (self._stopping.is_set()
                    or clock.now() - begun > _PATIENCE):
                raise NotMerged(f'{len(left)} disks are still on overlays '
                                f'in {self._folder}')
            pause.wait(_LOOK)

    def _step(self, target: str) -> None:
        """Do for one disk what is to be done next."""
        try:
            domain = self._lookup()
            if not domain.isActive():
                raise NotMerged(f'the guest is off, with {target} on an '
                                'overlay; start it to have it merged')
            info = domain.blockJobInfo(target, 0)
            if not info:
                domain.blockCommit(target, None, None, 0, _COMMIT)
            elif _is_ready(domain.XMLDesc(0), target):
                domain.blockJobAbort(
                    target, libvirt.VIR_DOMAIN_BLOCK_JOB_ABORT_PIVOT)
        except libvirt.libvirtError as exc:
            raise errors.trouble(exc) from exc


def _is_ready(xml: str, target: str) -> bool:
    """Tell whether the commit of a disk waits for its pivot."""
    for disk in domain_xml.root(xml).iterfind('devices/disk'):
        found, mirror = disk.find('target'), disk.find('mirror')
        if (found is not None and found.get('dev') == target
                and mirror is not None):
            return mirror.get('ready') == 'yes'
    return False
