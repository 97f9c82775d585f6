# SPDX-License-Identifier: Apache-2.0
"""Choosing and loading hardware types and interfaces."""

import pytest

from stillframe import exceptions
from stillframe.drivers import base
from stillframe.drivers import errors
from stillframe.drivers import factory
from tests.unit.drivers.nodes import configuration
from tests.unit.drivers.nodes import make_node

BOTH = ['fake-hardware', 'redfish']


def make(**options):
    return factory.Factory(configuration(
        **{'enabled_hardware_types': BOTH, **options}))


def test_a_node_gets_the_first_that_its_type_can_use():
    with make() as drivers:
        hardware = drivers.build(make_node(driver='redfish'))
    assert hardware.names == {
        'power': 'redfish', 'management': 'redfish',
        'boot': 'redfish-virtual-media', 'snapshot': 'agent'}
    assert isinstance(hardware.power, base.PowerInterface)
    assert isinstance(hardware.management, base.ManagementInterface)
    assert isinstance(hardware.boot, base.BootInterface)
    assert isinstance(hardware.snapshot, base.SnapshotInterface)
    assert hardware.boot.management is hardware.management


def test_a_default_goes_to_the_types_that_can_have_it():
    with make(default_boot_interface='redfish-virtual-media') as drivers:
        choices = drivers.hardware_types()
        assert choices['redfish']['boot'].default == 'redfish-virtual-media'
        assert choices['fake-hardware']['boot'].default == 'fake'


def test_a_node_may_choose():
    with make() as drivers:
        hardware = drivers.build(make_node(driver='redfish',
                                      boot_interface='ipxe',
                                      snapshot_interface='no-snapshot'))
    assert hardware.names['boot'] == 'ipxe'
    assert hardware.names['snapshot'] == 'no-snapshot'


def test_interfaces_are_shared_between_nodes():
    with make() as drivers:
        one = drivers.build(make_node(uuid='a'))
        other = drivers.build(make_node(uuid='b'))
        third = drivers.build(make_node(driver='redfish',
                                        boot_interface='ipxe'))
        fourth = drivers.build(make_node(boot_interface='ipxe'))
    assert one == other
    # One boot interface for each management interface that it works with.
    assert third.boot is not fourth.boot
    assert third.boot.management is third.management


def test_interfaces_of_a_new_node():
    with make() as drivers:
        assert drivers.interfaces_for('fake-hardware', {'boot': 'ipxe'}) == {
            'power': 'fake', 'management': 'fake', 'boot': 'ipxe',
            'snapshot': 'fake'}


def test_a_type_that_is_not_enabled():
    with (make(enabled_hardware_types=['redfish']) as drivers,
          pytest.raises(errors.DriverNotFound, match='redfish') as caught):
        drivers.build(make_node())
    assert caught.value.http_status == 404
    assert 'fake-hardware' in caught.value.message


@pytest.mark.parametrize('name', ['redfish', 'pxe'])
def test_an_interface_that_the_type_cannot_have(name):
    with (make() as drivers,
          pytest.raises(errors.InterfaceNotFound) as caught):
        drivers.build(make_node(power_interface=name))
    assert caught.value.http_status == 400
    assert f'cannot use {name} as its power interface' in str(caught.value)


def test_an_interface_that_is_not_enabled():
    with (make(enabled_snapshot_interfaces=['fake', 'agent']) as drivers,
          pytest.raises(errors.InterfaceNotFound, match='It can use: agent')):
        drivers.build(make_node(driver='redfish',
                           snapshot_interface='no-snapshot'))


@pytest.mark.parametrize(('options', 'sentence'), [
    ({'enabled_hardware_types': []}, 'enabled_hardware_types is empty'),
    ({'enabled_hardware_types': ['ipmi']},
     'names ipmi, which is not installed. There is: .*redfish'),
    ({'enabled_boot_interfaces': ['pxe']},
     'enabled_boot_interfaces names pxe, which is not installed'),
    ({'enabled_power_interfaces': ['fake']},
     'enabled_power_interfaces has none for the hardware type redfish'),
    ({'default_boot_interface': 'fake', 'enabled_boot_interfaces': ['ipxe']},
     'default_boot_interface names fake, which .* does not enable'),
])
def test_a_configuration_that_cannot_work(options, sentence):
    with pytest.raises(exceptions.ConfigError, match=sentence):
        make(**options)


def test_properties_are_those_of_all_enabled_interfaces():
    with make() as drivers:
        found = drivers.properties('redfish')
        assert set(found) >= {'redfish_address', 'redfish_password',
                              'deploy_iso', 'deploy_kernel'}
        assert found['redfish_address'].endswith(' Required.')
        assert found['deploy_iso'].endswith(
            ' Required by the boot interface redfish-virtual-media.')
        assert 'Required' not in found['redfish_username']
        assert all(text[0].isupper() and text.endswith('.')
                   for text in found.values())
        with pytest.raises(errors.DriverNotFound):
            drivers.properties('ipmi')


def test_validate_tells_by_interface():
    with make() as drivers:
        assert set(drivers.validate(make_node()).values()) == {None}
        node = make_node(driver='redfish', snapshot_interface='no-snapshot')
        assert 'lacks redfish_address' in str(
            drivers.validate(node)['power'])
        node['driver_info']['redfish_address'] = 'bmc.example.org'
        found = drivers.validate(node)
    assert found['power'] is None
    assert 'lacks deploy_iso' in str(found['boot'])
    assert 'no snapshot interface' in str(found['snapshot'])
