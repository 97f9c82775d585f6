# SPDX-License-Identifier: Apache-2.0
"""Choosing what a machine boots from, by Redfish."""

from oslo_log import log as logging
import sushy
from sushy.resources.system.system import System

from stillframe.drivers import base
from stillframe.drivers import errors
from stillframe.drivers.redfish import access
from stillframe.drivers.redfish.machine import Machine

LOG = logging.getLogger(__name__)

# Those that are known by several names, in the order of preference.
_TARGETS = {
    base.DISK: (sushy.BootSource.HDD,),
    base.CDROM: (sushy.BootSource.CD, sushy.BootSource.USB_CD),
    base.PXE: (sushy.BootSource.PXE,),
}
_DEVICES = {target: device for device, targets in _TARGETS.items()
            for target in targets}
_PERSISTENT = {sushy.BootSourceOverrideEnabled.CONTINUOUS: True,
               sushy.BootSourceOverrideEnabled.ONCE: False}
_MODES = {sushy.BootSourceOverrideMode.LEGACY: base.BIOS,
          sushy.BootSourceOverrideMode.UEFI: base.UEFI}


class RedfishManagement(base.ManagementInterface):
    """The boot device of a machine with Redfish."""

    properties = access.PROPERTIES

    def validate(self, node: base.Node) -> None:
        """See the base class."""
        access.read(node)

    def supported_boot_devices(self, node: base.Node) -> tuple[str, ...]:
        """Ask the BMC."""
        def allowed(system: System) -> tuple[str, ...]:
            offered = system.get_allowed_system_boot_source_values()
            return tuple(device for device, targets in _TARGETS.items()
                         if offered.intersection(targets))

        return self._machine(node).do('tell its boot devices', allowed)

    def get_boot_device(self, node: base.Node) -> base.BootDevice:
        """Tell what the override is; no device when there is none."""
        return self._machine(node).do('tell its boot device', _override)

    def get_boot_mode(self, node: base.Node) -> str | None:
        """See the base class."""
        return self._machine(node).do(
            'tell its boot mode',
            lambda system: _MODES.get(system.boot.mode))

    def set_boot_device(self, node: base.Node, device: str,
                        persistent: bool = False) -> None:
        """See the base class.

        Where a BMC takes no lasting override for the disk, overrides are
        switched off, and the machine follows the order that its firmware
        was given.
        """
        if device not in _TARGETS:
            raise errors.UnsupportedRequest(
                node=node['uuid'], what=f'boot from "{device}"',
                reason='there is no such device.')
        machine = self._machine(node)
        what = f'boot from "{device}"'
        enabled = (sushy.BootSourceOverrideEnabled.CONTINUOUS if persistent
                   else sushy.BootSourceOverrideEnabled.ONCE)

        def choose(system: System) -> None:
            if _override(system) != base.BootDevice(device, persistent):
                system.set_system_boot_options(
                    target=_target(system, device), enabled=enabled)

        try:
            machine.do(what, choose)
        except errors.BMCFault:
            raise
        except (errors.BMCRefused, errors.UnsupportedRequest) as exc:
            # It says no when it is asked, or says before what it has.
            if device != base.DISK or not persistent:
                raise
            LOG.info('Node %s: %s Switching overrides off instead.',
                     node['uuid'], exc)
            machine.do(what, _switch_off)

    def follow_own_order(self, node: base.Node) -> None:
        """See the base class."""
        try:
            self._machine(node).do('follow its own boot order', _switch_off)
        except errors.BMCFault:
            raise
        except errors.BMCRefused as exc:
            LOG.info('Node %s: %s Setting the disk instead.', node['uuid'],
                     exc)
            self.set_boot_device(node, base.DISK, persistent=True)

    def _machine(self, node: base.Node) -> Machine:
        return Machine(self.conf, self.shared, node)


def _target(system: System, device: str) -> sushy.BootSource:
    offered = system.get_allowed_system_boot_source_values()
    return next((one for one in _TARGETS[device] if one in offered),
                _TARGETS[device][0])


def _switch_off(system: System) -> None:
    """Switch overrides of the boot device off."""
    if not _override(system).own_order:
        system.set_system_boot_options(
            enabled=sushy.BootSourceOverrideEnabled.DISABLED)


def _override(system: System) -> base.BootDevice:
    boot = system.boot
    if boot.enabled == sushy.BootSourceOverrideEnabled.DISABLED:
        return base.BootDevice(None, None, own_order=True)
    return base.BootDevice(_DEVICES.get(boot.target),
                           _PERSISTENT.get(boot.enabled))
