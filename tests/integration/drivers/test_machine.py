# SPDX-License-Identifier: Apache-2.0
"""A virtual machine, driven through its BMC: disk, ramdisk, disk again."""

from collections.abc import Iterator
from typing import Any

import pytest

from stillframe.drivers import base
from stillframe.drivers import errors
from stillframe.drivers import factory
from stillframe.states import power as states
from tests.lab import node_disk
from tests.lab.machine import Machine
from tests.lab.rack import Rack
from tests.unit.drivers.nodes import make_node

# Several boots, on a machine that may be slow.
pytestmark = pytest.mark.timeout(600)


@pytest.fixture
def rack() -> Iterator[Rack]:
    """A rack of this test: meanwhile we are in its network."""
    with Rack() as one:
        yield one


def node_for(rack: Rack, machine: Machine) -> dict[str, Any]:
    # Nobody answers there: here the ramdisk has but to boot.
    iso = rack.cd(machine, f'http://{rack.network.address}:9')
    return make_node(driver='redfish', driver_info=rack.driver_info(
        machine, deploy_iso=iso))


def boot_disk(hardware: base.Hardware, node: dict[str, Any],
              machine: Machine, count: int) -> None:
    hardware.power.set_power_state(node, states.POWER_ON)
    assert hardware.power.get_power_state(node) == states.POWER_ON
    machine.wait_disk_boots(count)


def test_a_cycle(rack: Rack, drivers: factory.Factory) -> None:
    machine = rack.machine(10)
    node = node_for(rack, machine)
    hardware = drivers.build(node)
    assert set(drivers.validate(node).values()) == {None}
    assert hardware.power.get_power_state(node) == states.POWER_OFF
    boot_disk(hardware, node, machine, 1)

    hardware.power.set_power_state(node, states.SOFT_POWER_OFF, 120)
    assert not machine.on
    node_disk.check_root(machine.disks[0])

    # Twice, as after a conductor was killed in between.
    for _ in range(2):
        hardware.boot.prepare_ramdisk(node, {})
    hardware.power.set_power_state(node, states.POWER_ON)
    machine.wait_printed('RAMDISK UP')

    hardware.power.set_power_state(node, states.POWER_OFF)
    for _ in range(2):
        hardware.boot.clean_up_ramdisk(node)
        hardware.boot.prepare_instance(node)
    assert not any(machine.discs())
    assert hardware.management.get_boot_device(node) == base.BootDevice(
        base.DISK, True)
    boot_disk(hardware, node, machine, 2)
    hardware.power.set_power_state(node, states.SOFT_REBOOT, 120)
    machine.wait_disk_boots(3)
    assert machine.ramdisk_boots() == 1


def test_a_system_that_does_not_listen(rack: Rack,
                                       drivers: factory.Factory) -> None:
    machine = rack.machine(11, deaf=True)
    node = node_for(rack, machine)
    hardware = drivers.build(node)
    boot_disk(hardware, node, machine, 1)
    with pytest.raises(errors.PowerStateNotReached, match='within 2 s'):
        hardware.power.set_power_state(node, states.SOFT_POWER_OFF, 2)
    assert machine.on
    hardware.power.set_power_state(node, states.POWER_OFF)
    assert not machine.on
