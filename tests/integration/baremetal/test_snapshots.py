# SPDX-License-Identifier: Apache-2.0
"""Snapshots of nodes whose hardware is made up; all else is real."""

import subprocess

import pytest

from tests.integration.baremetal.site import Refused


def compare(disk, image, image_format='qcow2'):
    """See that an image holds what a disk holds."""
    subprocess.run(['qemu-img', 'compare', '-f', 'raw', '-F', image_format,
                    str(disk), str(image)], check=True)


@pytest.mark.parametrize('disk_format, compress', [
    ('qcow2', None), ('qcow2', 'zstd'), ('raw', None)])
def test_from_request_to_image(site, mac, disk_format, compress):
    node = site.make_node(mac)
    disk = site.disk(mac)
    image = site.snapshot(node, f'{mac}.img'.replace(':', ''),
                          disk_format=disk_format, compress=compress)
    site.in_phase(node, 'booting')
    assert site.node(node)['target_provision_state'] == 'active'
    site.agent(mac, disk)
    found = site.settled(node)
    assert found['provision_state'] == 'active', found['last_error']
    assert found['target_provision_state'] is None
    assert found['power_state'] == 'power on'
    compare(disk, image, disk_format)
    event = site.history(node)[0]
    assert event['outcome'] == 'done'
    assert event['consistency'] == 'clean'
    assert event['disk']['serial'] == mac.replace(':', '')
    assert event['size'] == image.stat().st_size
    assert event['checksum'].startswith('sha')
    assert event['bytes_done'] == event['size']


def test_a_machine_that_does_not_listen_loses_its_power(site, mac):
    node = site.make_node(mac, fake_ignores_soft_power_off=True)
    site.snapshot(node, 'deaf.img')
    site.in_phase(node, 'booting')
    site.agent(mac, site.disk(mac))
    assert site.settled(node)['provision_state'] == 'active'
    assert site.history(node)[0]['consistency'] == 'crash'


def test_a_machine_that_was_off_is_off_again(site, mac):
    node = site.make_node(mac)
    site.request('PUT', f'/v1/nodes/{node}/states/power',
                 {'target': 'power off'})
    assert site.settled(node)['power_state'] == 'power off'
    site.snapshot(node, 'off.img')
    site.in_phase(node, 'booting')
    assert site.node(node)['power_state'] == 'power on'
    site.agent(mac, site.disk(mac))
    found = site.settled(node)
    assert (found['provision_state'], found['power_state']) == (
        'active', 'power off')
    assert site.history(node)[0]['consistency'] == 'off'


def test_while_a_snapshot_waits_there_is_no_other(site, mac):
    node = site.make_node(mac)
    site.snapshot(node, 'twice.img')
    site.in_phase(node, 'booting')
    with pytest.raises(Refused) as caught:
        site.snapshot(node, 'twice-2.img')
    assert caught.value.status == 400
    with pytest.raises(Refused) as caught:
        site.request('PUT', f'/v1/nodes/{node}/states/power',
                     {'target': 'power off'})
    assert caught.value.status in (400, 409)
    site.provision(node, 'abort')
    site.settled(node)


@pytest.mark.parametrize('call', [
    'power.set_power_state', 'management.get_boot_mode',
    'boot.prepare_ramdisk'])
def test_hardware_that_fails(site, mac, call):
    node = site.make_node(mac)
    site.change(node, driver_info={'fake_failures': {call: 3},
                                   'fake_ignores_soft_power_off': True})
    site.snapshot(node, 'fails.img')
    found = site.settled(node)
    assert found['provision_state'] == 'snapshot failed'
    assert found['target_provision_state'] == 'active'
    assert f'{call} fails on purpose' in found['last_error']
    assert found['power_state'] == 'power on'
    device = site.get(f'/v1/nodes/{node}/management/boot_device')
    assert device['boot_device'] == 'disk'
    event = site.history(node)[0]
    assert event['outcome'] == 'failed'
    assert event['finished_at'] is not None
    site.provision(node, 'abort')
    assert site.settled(node)['provision_state'] == 'active'


@pytest.mark.parametrize('call', ['power.get_power_state',
                                  'management.get_boot_device'])
def test_what_only_asks_is_asked_again(site, mac, call):
    node = site.make_node(mac)
    site.change(node, driver_info={'fake_failures': {call: 2}})
    site.snapshot(node, f'{call}.img')
    site.in_phase(node, 'booting')
    site.agent(mac, site.disk(mac))
    found = site.settled(node)
    assert found['provision_state'] == 'active', found['last_error']


def test_what_cannot_be_put_back_is_said(site, mac):
    node = site.make_node(
        mac, fake_failures={'boot.clean_up_ramdisk': True})
    site.snapshot(node, 'left.img')
    site.in_phase(node, 'booting')
    site.provision(node, 'abort')
    found = site.settled(node)
    assert found['provision_state'] == 'snapshot failed'
    assert 'could not be put back' in found['last_error']
    assert 'boot.clean_up_ramdisk' in found['last_error']
    # What could be put back was.
    assert found['power_state'] == 'power on'
    event = site.history(node)[0]
    assert event['outcome'] == 'aborted'
    assert 'could not be put back' in event['reason']


def test_a_snapshot_after_one_that_failed(site, mac):
    node = site.make_node(mac)
    disk = site.disk(mac)
    site.snapshot(node, 'second.img')
    site.in_phase(node, 'booting')
    site.provision(node, 'abort')
    assert site.settled(node)['provision_state'] == 'snapshot failed'
    image = site.snapshot(node, 'second.img')
    site.in_phase(node, 'booting')
    site.agent(mac, disk)
    assert site.settled(node)['provision_state'] == 'active'
    compare(disk, image)
    assert [one['outcome'] for one in site.history(node)] == [
        'done', 'aborted']


def test_no_secret_is_logged(site):
    text = site.log('one')
    for word in ('agent_token', 'password'):
        for line in text.splitlines():
            assert f'{word}=' not in line or f'{word}=***' in line, line
