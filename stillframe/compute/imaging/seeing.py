# SPDX-License-Identifier: Apache-2.0
"""Looking what of a server there is to image."""

from collections.abc import Mapping
import dataclasses

import libvirt

from stillframe.clients import cinder
from stillframe.compute.imaging import points
from stillframe.compute.imaging import volumes as volumes_
from stillframe.compute.libvirt import disks as disks_
from stillframe.compute.libvirt import errors
from stillframe.compute.libvirt import host as host_
from stillframe.compute.libvirt import image_disks


class CannotImage(Exception):
    """The image cannot be made; nothing was changed.

    :ivar reason: a stable word.
    """

    def __init__(self, reason: str, message: str, detail: str | None = None):
        super().__init__(message)
        self.reason = reason
        self.detail = detail


@dataclasses.dataclass(frozen=True)
class Seen:
    """What there is to image.

    :ivar running: there is a QEMU that has the disks open.
    :ivar awake: the guest runs and is not paused, so it can be frozen.
    :ivar disks: all of them, the root disk first.
    :ivar owner: user and group of its QEMU.
    :ivar sizes: GiB by target, of the disks that are volumes of Cinder.
    :ivar require_quiesce: the domain wants a freeze or no image.
    """

    running: bool
    awake: bool
    disks: list[image_disks.Disk]
    owner: tuple[int, int] | None
    sizes: Mapping[str, int]
    require_quiesce: bool

    @property
    def local(self) -> list[image_disks.Disk]:
        """The disks whose data goes into images."""
        return [disk for disk in self.disks
                if disk.target not in self.sizes]

    @property
    def volumes(self) -> dict[str, str]:
        """Volume id by target, of the disks that are Cinder's."""
        return {disk.target: disk.volume_id for disk in self.disks
                if disk.target in self.sizes}

    @property
    def chained(self) -> list[str]:
        """Targets of the disks on which a block job would be in the way.

        Of volumes, those in files: Cinder has this host take their
        snapshots.
        """
        return [disk.target for disk in self.disks
                if disk.target not in self.sizes or disk.kind == 'file']

    @property
    def method(self) -> str:
        """How the point in time is taken."""
        if not self.local:
            return points.VOLUMES
        return points.BACKUP if self.running else points.STOPPED


def look(host: host_.Host, server_id: str, volumes: volumes_.Volumes
         ) -> Seen:
    """Look what there is.

    :param volumes: tells which disks are Cinder's.
    :raises CannotImage: there is nothing, or Cinder does not say.
    :raises AgentTrouble, BadXML: as libvirt and its XML have it.
    """
    try:
        run = host.guest(server_id).run()
        xml = host.domain(server_id).XMLDesc(
            libvirt.VIR_DOMAIN_XML_INACTIVE if run.off else 0)
    except libvirt.libvirtError as exc:
        raise errors.trouble(exc) from exc
    disks = image_disks.find(xml)
    if not disks:
        raise CannotImage('no_disks', 'The server has no disk of which an '
                          'image could be made.')
    try:
        sizes = volumes.sizes(disks)
    except (cinder.Unreachable, cinder.Refused) as exc:
        raise CannotImage(
            'cinder', 'The block storage service does not say which disks '
            'of the server are volumes. Look at it, and try again.',
            str(exc)) from exc
    return Seen(running=not run.off, awake=not run.off and not run.halted,
                disks=disks, sizes=sizes,
                require_quiesce=disks_.requires_quiesce(xml),
                owner=None if run.off else image_disks.owner(xml))
