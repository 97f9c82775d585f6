# SPDX-License-Identifier: Apache-2.0
"""A machine that is only said to be there: power, boot device, boot.

For trying out, and for tests of what is around a machine. Its power state
is what its record says, so any number of nodes costs nothing and all
conductors agree. Only the boot device, and how often something failed on
purpose, are kept in memory, and lost with the process.
"""

from collections.abc import Mapping
import time
from typing import Any
from typing import ClassVar

from stillframe.drivers import base
from stillframe.drivers import errors
from stillframe.drivers.driver_info import Property
from stillframe.drivers.fake_machines import Machines
from stillframe.states import power as states

#: Longest delay that can be asked for, in seconds.
MAX_DELAY = 3600.0

DELAYS = Property(
    'fake_delays', 'Seconds that calls take, by name, such as '
    '{"power.set_power_state": 0.5}; "snapshot.transfer" is the time '
    'between the start of a snapshot and its data.')
FAILURES = Property(
    'fake_failures', 'Calls that fail, by name, such as '
    '{"boot.prepare_ramdisk": 2}: the number of times, or true for each '
    'time.')
DEAF = Property(
    'fake_ignores_soft_power_off', 'Whether the operating system that is '
    'not there takes no notice of a soft power off. Default false.')
COMMON = (DELAYS, FAILURES)


def validate(node: base.Node) -> None:
    """Check what is common to all fake interfaces.

    :raises InvalidDriverInfo: of a wrong type.
    """
    for delay in _by_call(node, DELAYS.key).values():
        if (isinstance(delay, bool) or not isinstance(delay, (int, float))
                or not 0 <= delay <= MAX_DELAY):
            raise errors.InvalidDriverInfo(
                node=node['uuid'], key=DELAYS.key,
                reason=f'each has to be 0 to {MAX_DELAY:g} seconds.')
    for times in _by_call(node, FAILURES.key).values():
        if not isinstance(times, int):
            raise errors.InvalidDriverInfo(
                node=node['uuid'], key=FAILURES.key,
                reason='each has to be a whole number, or true.')


def delay_of(node: base.Node, call: str) -> float:
    """Give the seconds that a call is to take."""
    return _by_call(node, DELAYS.key).get(call, 0)


def _by_call(node: base.Node, key: str) -> Mapping[str, Any]:
    value = node['driver_info'].get(key) or {}
    if not isinstance(value, dict):
        raise errors.InvalidDriverInfo(
            node=node['uuid'], key=key,
            reason='it has to be an object, by name of the call.')
    return value


class Fake(base.Interface):
    """What the fake interfaces have in common."""

    properties: ClassVar[tuple[Property, ...]] = COMMON

    def validate(self, node: base.Node) -> None:
        """See the base class."""
        validate(node)

    def _machines(self) -> Machines:
        return self.shared.get(Machines)

    def _happen(self, node: base.Node, method: str) -> None:
        """Take as long as wished, and fail if wished.

        :raises DriverError: as wished.
        """
        validate(node)
        call = f'{self.kind}.{method}'
        delay = delay_of(node, call)
        if delay:
            time.sleep(delay)
        times = _by_call(node, FAILURES.key).get(call, 0)
        if times and self._machines().fails(node['uuid'], call, times):
            raise errors.DriverError(node=node['uuid'],
                                     reason=f'{call} fails on purpose.')


class FakePower(Fake, base.PowerInterface):
    """The power of no machine."""

    properties = (*COMMON, DEAF)

    def supported_targets(self, node: base.Node) -> tuple[str, ...]:
        """See the base class."""
        return states.TARGETS

    def get_power_state(self, node: base.Node) -> str | None:
        """Give what the record says; off when it says nothing."""
        self._happen(node, 'get_power_state')
        return node['power_state'] or states.POWER_OFF

    def set_power_state(self, node: base.Node, target: str,
                        timeout: float | None = None) -> None:
        """Do nothing: the caller records the state.

        One that takes no notice of a soft power off says so at once.
        """
        self._happen(node, 'set_power_state')
        if target not in states.TARGETS:
            raise errors.UnsupportedRequest(
                node=node['uuid'], what=f'get to "{target}"',
                reason='there is no such power state.')
        if (target in (states.SOFT_POWER_OFF, states.SOFT_REBOOT)
                and node['driver_info'].get(DEAF.key) is True):
            raise errors.PowerStateNotReached(
                node=node['uuid'], target=states.POWER_OFF,
                timeout=timeout or 0, state=node['power_state'])


class FakeManagement(Fake, base.ManagementInterface):
    """The boot device of no machine."""

    def supported_boot_devices(self, node: base.Node) -> tuple[str, ...]:
        """See the base class."""
        return (base.DISK, base.CDROM, base.PXE)

    def get_boot_device(self, node: base.Node) -> base.BootDevice:
        """Give what was set last in this process; the disk at first."""
        self._happen(node, 'get_boot_device')
        return self._machines().boot_device(node['uuid'])

    def get_boot_mode(self, node: base.Node) -> str | None:
        """See the base class."""
        self._happen(node, 'get_boot_mode')
        return base.UEFI

    def set_boot_device(self, node: base.Node, device: str,
                        persistent: bool = False) -> None:
        """See the base class."""
        self._happen(node, 'set_boot_device')
        if device not in self.supported_boot_devices(node):
            raise errors.UnsupportedRequest(
                node=node['uuid'], what=f'boot from "{device}"',
                reason='it has no such device.')
        self._machines().set_boot_device(
            node['uuid'], base.BootDevice(device, persistent))

    def follow_own_order(self, node: base.Node) -> None:
        """See the base class."""
        self._happen(node, 'follow_own_order')
        self._machines().set_boot_device(
            node['uuid'], base.BootDevice(None, None, own_order=True))


class FakeBoot(Fake, base.BootInterface):
    """The ramdisk of no machine: only the boot device is set."""

    def prepare_ramdisk(self, node: base.Node,
                        params: Mapping[str, str]) -> None:
        """See the base class."""
        self._happen(node, 'prepare_ramdisk')
        self.management.set_boot_device(node, base.PXE)

    def clean_up_ramdisk(self, node: base.Node) -> None:
        """See the base class."""
        self._happen(node, 'clean_up_ramdisk')

    def prepare_instance(self, node: base.Node) -> None:
        """See the base class."""
        self._happen(node, 'prepare_instance')
        super().prepare_instance(node)
