# SPDX-License-Identifier: Apache-2.0
"""The machine that does not exist."""

import time

import pytest

from stillframe.drivers import base
from stillframe.drivers import errors
from stillframe.drivers import factory
from stillframe.drivers import fake_machines
from stillframe.states import power as states
from tests.unit.drivers.nodes import configuration
from tests.unit.drivers.nodes import make_node


@pytest.fixture
def drivers():
    conf = configuration(enabled_hardware_types=['fake-hardware'])
    with factory.Factory(conf) as made:
        yield made


def test_power_is_what_the_record_says(drivers):
    node = make_node()
    power = drivers.build(node).power
    assert power.get_power_state(node) == states.POWER_OFF
    for target in power.supported_targets(node):
        power.set_power_state(node, target)
        after = {**node, 'power_state': states.RESULT[target]}
        assert power.get_power_state(after) == states.RESULT[target]


def test_an_unknown_power_state(drivers):
    node = make_node()
    with pytest.raises(errors.UnsupportedRequest, match='get to "purple"'):
        drivers.build(node).power.set_power_state(node, 'purple')


@pytest.mark.parametrize('target', [states.SOFT_POWER_OFF,
                                    states.SOFT_REBOOT])
def test_a_system_that_does_not_listen(drivers, target):
    node = make_node(driver_info={'fake_ignores_soft_power_off': True},
                power_state=states.POWER_ON)
    power = drivers.build(node).power
    with pytest.raises(errors.PowerStateNotReached, match='within 7 s'):
        power.set_power_state(node, target, 7)
    power.set_power_state(node, states.POWER_OFF, 7)


def test_boot_device(drivers):
    node, other = make_node(), make_node(uuid='other')
    hardware = drivers.build(node)
    assert hardware.management.get_boot_device(node) == base.BootDevice(
        base.DISK, True)
    hardware.boot.prepare_ramdisk(node, {'ipa-api-url': 'http://a'})
    assert hardware.management.get_boot_device(node) == base.BootDevice(
        base.PXE, False)
    assert hardware.management.get_boot_device(other).device == base.DISK
    hardware.boot.clean_up_ramdisk(node)
    hardware.boot.prepare_instance(node)
    assert hardware.management.get_boot_device(node) == base.BootDevice(
        base.DISK, True)
    with pytest.raises(errors.UnsupportedRequest):
        hardware.management.set_boot_device(node, 'floppy')


def test_failing_a_few_times(drivers):
    node = make_node(driver_info={
        'fake_failures': {'boot.prepare_ramdisk': 2}})
    boot = drivers.build(node).boot
    for _ in range(2):
        with pytest.raises(errors.DriverError, match='on purpose'):
            boot.prepare_ramdisk(node, {})
    boot.prepare_ramdisk(node, {})


def test_failing_for_ever(drivers):
    node = make_node(driver_info={
        'fake_failures': {'power.set_power_state': True}})
    power = drivers.build(node).power
    for _ in range(3):
        with pytest.raises(errors.DriverError):
            power.set_power_state(node, states.POWER_ON)
    power.get_power_state(node)


def test_taking_time(drivers):
    node = make_node(driver_info={
        'fake_delays': {'power.set_power_state': 0.05}})
    begin = time.monotonic()
    drivers.build(node).power.set_power_state(node, states.POWER_ON)
    assert time.monotonic() - begin >= 0.05


@pytest.mark.parametrize('info', [
    {'fake_delays': 3},
    {'fake_delays': {'boot.prepare_ramdisk': 'long'}},
    {'fake_delays': {'boot.prepare_ramdisk': -1}},
    {'fake_delays': {'boot.prepare_ramdisk': 1e9}},
    {'fake_delays': {'boot.prepare_ramdisk': True}},
    {'fake_failures': ['boot.prepare_ramdisk']},
    {'fake_failures': {'boot.prepare_ramdisk': 'often'}},
])
def test_nonsense_is_refused(drivers, info):
    found = drivers.validate(make_node(driver_info=info))
    assert all('cannot be used' in str(one) for one in found.values())


def test_memory_has_a_bound(monkeypatch):
    monkeypatch.setattr(fake_machines, 'LIMIT', 3)
    machines = fake_machines.Machines(configuration())
    for number in range(5):
        machines.set_boot_device(str(number), base.BootDevice('pxe', False))
    known = [machines.boot_device(str(number)).device == 'pxe'
             for number in range(5)]
    assert known == [False, False, True, True, True]
