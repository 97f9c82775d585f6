# SPDX-License-Identifier: Apache-2.0
"""Booting a ramdisk from a medium that the BMC plays to the machine.

The medium is made beforehand by the operator, with kernel parameters and
all; nothing is put into it here. A machine may go on using a medium that
was taken out while it ran, so both calls want it switched off.
"""

from collections.abc import Iterable
from collections.abc import Mapping
import time
from urllib import parse

from oslo_log import log as logging
import sushy
from sushy.resources.manager.virtual_media import VirtualMedia
from sushy.resources.system.system import System

from stillframe.drivers import base
from stillframe.drivers import driver_info
from stillframe.drivers import errors
from stillframe.drivers.driver_info import Property
from stillframe.drivers.redfish import access
from stillframe.drivers.redfish.machine import Machine

LOG = logging.getLogger(__name__)

ISO = Property(
    'deploy_iso', 'URL (http or https, to be fetched by the BMC) of the '
    'image to boot the ramdisk from. Its kernel line has to have '
    'ipa-api-url.', required=True)
# Seconds between two looks at a drive.
_PAUSE = 0.5
_DISCS = {sushy.VirtualMediaType.CD, sushy.VirtualMediaType.DVD}


class RedfishVirtualMediaBoot(base.BootInterface):
    """Boots the ramdisk from a virtual CD."""

    properties = (*access.PROPERTIES, ISO)

    def validate(self, node: base.Node) -> None:
        """See the base class."""
        access.read(node)
        _iso(node)

    def prepare_ramdisk(self, node: base.Node,
                        params: Mapping[str, str]) -> None:
        """See the base class.

        :param params: must be on the medium already; they are not used.
        """
        iso = _iso(node)

        def insert(system: System) -> None:
            device = _disc_drive(node, system)
            if device.inserted:
                # Anew, even when it is ours: there may be a newer one.
                LOG.info('Node %s: taking out the medium that is in its '
                         'virtual drive.', node['uuid'])
                device.eject_media()
                self._wait(node, device, inserted=False)
            device.insert_media(iso)
            self._wait(node, device, inserted=True)

        self._machine(node).do('take the virtual medium', insert)
        self.management.set_boot_device(node, base.CDROM)

    def clean_up_ramdisk(self, node: base.Node) -> None:
        """See the base class. A medium that is not ours stays."""
        iso = _iso(node)

        def eject(system: System) -> None:
            device = _disc_drive(node, system)
            if device.inserted and _is(device, iso):
                device.eject_media()
                self._wait(node, device, inserted=False)

        self._machine(node).do('give back the virtual medium', eject)

    def _wait(self, node: base.Node, device: VirtualMedia,
              inserted: bool) -> None:
        """Wait until the drive shows that it did what it was told.

        :raises BMCUnintelligible: it does not.
        """
        deadline = time.monotonic() + self.conf.redfish.request_timeout
        device.refresh(force=True)
        while bool(device.inserted) is not inserted:
            if time.monotonic() > deadline:
                raise errors.BMCUnintelligible(
                    node=node['uuid'], reason='it took a virtual medium, '
                    'and says that there is none' if inserted else 'it gave '
                    'back a virtual medium, and says that there is one')
            time.sleep(_PAUSE)
            device.refresh(force=True)

    def _machine(self, node: base.Node) -> Machine:
        return Machine(self.conf, self.shared, node)


def _iso(node: base.Node) -> str:
    driver_info.require(node['uuid'], node['driver_info'], (ISO,))
    return driver_info.url(node['uuid'], node['driver_info'], ISO.key)


def _is(device: VirtualMedia, iso: str) -> bool:
    """Tell whether a drive has this medium; BMCs may shorten its name."""
    if not device.image:
        return True
    name = parse.urlsplit(iso).path.rpartition('/')[2]
    return (device.image == iso
            or parse.urlsplit(device.image).path.rpartition('/')[2] == name)


def _disc_drive(node: base.Node, system: System) -> VirtualMedia:
    """Give the first virtual drive for discs.

    It belongs to the system since Redfish 2020.4, to a manager before.
    """
    for device in _drives(system):
        if _DISCS.intersection(device.media_types):
            return device
    raise errors.UnsupportedRequest(
        node=node['uuid'], what='boot from a virtual medium',
        reason='its BMC has no virtual drive for discs.')


def _drives(system: System) -> Iterable[VirtualMedia]:
    try:
        yield from system.virtual_media.get_members()
    except (sushy.exceptions.MissingAttributeError,
            sushy.exceptions.ResourceNotFoundError):
        for manager in system.managers:
            try:
                yield from manager.virtual_media.get_members()
            except (sushy.exceptions.MissingAttributeError,
                    sushy.exceptions.ResourceNotFoundError):
                continue
