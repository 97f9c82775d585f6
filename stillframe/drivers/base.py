# SPDX-License-Identifier: Apache-2.0
"""What a hardware type and each kind of interface have to do.

An interface is made once and used for many nodes by many threads: it keeps
nothing about a node that it could not do without. All calls block, all of
them have an end, and all raise :class:`~stillframe.drivers.errors.DriverError`
and nothing else. Calls may come again after a conductor was killed, so each
one can be repeated.
"""

import abc
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from typing import ClassVar

from oslo_config import cfg

from stillframe.conf import drivers as conf_drivers
from stillframe.drivers.driver_info import Property
from stillframe.drivers.shared import Shared

#: The kinds of interfaces.
KINDS = conf_drivers.KINDS

# Boot devices, in the words of the API.
DISK = 'disk'
CDROM = 'cdrom'
PXE = 'pxe'
BIOS = 'bios'
UEFI = 'uefi'

#: What drivers get of a node: its row, by the names of the columns; they
#: write nothing. Read are uuid, driver, driver_info, power_state, the names
#: of its interfaces (None for the default), agent_url, agent_verify_ca and,
#: for the snapshot interface alone, agent_token: the agent's own words,
#: which are not in the row; whoever has them in memory adds them.
Node = Mapping[Any, Any]


class HardwareType(abc.ABC):
    """Which interfaces fit together, best first."""

    @property
    @abc.abstractmethod
    def supported(self) -> Mapping[str, tuple[str, ...]]:
        """Names of usable interfaces for each of :data:`KINDS`."""


class Interface(abc.ABC):
    """What all interfaces have.

    :param conf: the configuration.
    :param shared: what interfaces of this process have in common.
    """

    kind: ClassVar[str]
    #: What it reads of driver_info.
    properties: ClassVar[tuple[Property, ...]] = ()

    def __init__(self, conf: cfg.ConfigOpts, shared: Shared):
        self.conf = conf
        self.shared = shared

    @abc.abstractmethod
    def validate(self, node: Node) -> None:
        """Check driver_info, without asking anybody over a network.

        :raises MissingDriverInfo: see there.
        :raises InvalidDriverInfo: see there.
        """


class PowerInterface(Interface):
    """Switches the machine on and off."""

    kind = 'power'

    @abc.abstractmethod
    def supported_targets(self, node: Node) -> tuple[str, ...]:
        """Give those of stillframe.states.power.TARGETS that it takes."""

    @abc.abstractmethod
    def get_power_state(self, node: Node) -> str | None:
        """Give POWER_ON or POWER_OFF; None while it is changing."""

    @abc.abstractmethod
    def set_power_state(self, node: Node, target: str,
                        timeout: float | None = None) -> None:
        """Bring the machine there; no harm when it is there already.

        A soft power off asks the operating system, which may not listen:
        the caller decides whether to go on with a hard one.

        :param target: one of stillframe.states.power.TARGETS.
        :param timeout: seconds until giving up; None for the configured.
        :raises PowerStateNotReached: it did not get there in time.
        :raises UnsupportedRequest: not one of the supported targets.
        """


@dataclass(frozen=True)
class BootDevice:
    """What a machine boots from.

    :ivar device: DISK, CDROM, PXE; None when it cannot be told.
    :ivar persistent: False for the next boot only; None when unknown.
    :ivar own_order: nothing is set: the machine follows the order that its
        firmware was given.
    """

    device: str | None
    persistent: bool | None
    own_order: bool = False


class ManagementInterface(Interface):
    """Chooses what the machine boots from."""

    kind = 'management'

    @abc.abstractmethod
    def supported_boot_devices(self, node: Node) -> tuple[str, ...]:
        """Give the devices that can be set."""

    @abc.abstractmethod
    def get_boot_device(self, node: Node) -> BootDevice:
        """Tell what the machine boots from."""

    @abc.abstractmethod
    def get_boot_mode(self, node: Node) -> str | None:
        """Give BIOS or UEFI; None when it cannot be told."""

    @abc.abstractmethod
    def set_boot_device(self, node: Node, device: str,
                        persistent: bool = False) -> None:
        """Choose what the machine boots from at its next power-on.

        :param persistent: also at those that follow.
        :raises UnsupportedRequest: the machine has no such device.
        """

    def follow_own_order(self, node: Node) -> None:
        """Have the machine boot in the order that its firmware was given.

        Where that cannot be said, as here, the disk is chosen for good.
        """
        self.set_boot_device(node, DISK, persistent=True)


class BootInterface(Interface):
    """Has the machine boot a ramdisk, and its own disk again.

    :param management: of the same node; sets the boot device.
    """

    kind = 'boot'

    def __init__(self, conf: cfg.ConfigOpts, shared: Shared,
                 management: ManagementInterface):
        super().__init__(conf, shared)
        self.management = management

    @abc.abstractmethod
    def prepare_ramdisk(self, node: Node, params: Mapping[str, str]) -> None:
        """Have the next power-on boot the ramdisk. The machine is off.

        :param params: kernel parameters, such as ``ipa-api-url``. None of
            them is secret: a boot script can be read by anybody.
        """

    @abc.abstractmethod
    def clean_up_ramdisk(self, node: Node) -> None:
        """Take back what the ramdisk needed. The machine is off.

        No harm when nothing was prepared.
        """

    def prepare_instance(self, node: Node) -> None:
        """Have all power-ons from now on boot the disk.

        Said explicitly, because not every BMC forgets a boot device that
        was to be used once.
        """
        self.management.set_boot_device(node, DISK, persistent=True)


@dataclass(frozen=True)
class Progress:
    """The work goes on."""


@dataclass(frozen=True)
class Done:
    """The work is done.

    :ivar result: as described in the orders of the agent.
    """

    result: Mapping[str, Any]


@dataclass(frozen=True)
class Failed:
    """The work has ended and will not go on.

    :ivar reason: a sentence for users.
    """

    reason: str


class SnapshotInterface(Interface):
    """Has the disk of a machine sent to the receiver.

    :cvar needs_ramdisk: whether the machine has to run the ramdisk for it.
    """

    kind = 'snapshot'
    needs_ramdisk: ClassVar[bool] = True

    @abc.abstractmethod
    def start(self, node: Node, order: Mapping[str, Any]) -> str:
        """Start sending; return when that was taken.

        :param order: as described in the orders of the agent.
        :return: an id of the work, for the other calls.
        """

    @abc.abstractmethod
    def poll(self, node: Node, command_id: str) -> Progress | Done | Failed:
        """Tell how far it is."""

    @abc.abstractmethod
    def stop(self, node: Node, command_id: str) -> None:
        """Forget the work, after its transfer was cut at the receiver.

        No harm when there is none.
        """


@dataclass(frozen=True)
class Hardware:
    """The interfaces of one node.

    :ivar names: of the interfaces by kind.
    """

    driver: str
    names: Mapping[str, str]
    power: PowerInterface
    management: ManagementInterface
    boot: BootInterface
    snapshot: SnapshotInterface

    def interface(self, kind: str) -> Interface:
        """Give one of them.

        :param kind: one of :data:`KINDS`.
        """
        return getattr(self, kind)
