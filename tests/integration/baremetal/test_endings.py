# SPDX-License-Identifier: Apache-2.0
"""Ends that nobody wished for: aborted, deleted, silent, restarted."""

import contextlib
import pathlib

import pytest

from tests.integration.baremetal.site import Refused
from tests.integration.baremetal.site import Site
from tests.lab.processes import state_dir


def streaming(site, mac, image):
    """Make a node whose image is on its way."""
    node = site.make_node(mac)
    disk = site.disk(mac)
    site.snapshot(node, image)
    site.in_phase(node, 'booting')
    site.agent(mac, disk)
    site.in_phase(node, 'streaming')
    site.wait(lambda: site.history(node)[0]['bytes_done'],
              f'bytes of node {node}')
    return node


def transfers(site):
    """The files of images on their way."""
    found = pathlib.Path(site.folder).glob('*/transfers/**/*')
    return [path for path in found if path.is_file()
            and path.suffix not in ('.pem',)
            and not path.name.startswith('.')]


def check_as_before(site, node, power='power on'):
    """See that a node has its own boot device and power state."""
    assert site.node(node)['power_state'] == power

    def told():
        # Nobody answers as long as the API asks one that was killed.
        with contextlib.suppress(OSError, Refused):
            return site.get(f'/v1/nodes/{node}/management/boot_device')
        return None

    device = site.wait(told, 'the boot device')
    assert device == {'boot_device': 'disk', 'persistent': True}


@pytest.mark.parametrize('verb, state, outcome', [
    ('abort', 'snapshot failed', 'aborted'),
    ('deleted', 'available', 'deleted')])
@pytest.mark.parametrize('phase', ['booting', 'streaming'])
def test_ended_by_a_request(slow_site, mac, phase, verb, state, outcome):
    site = slow_site
    if phase == 'booting':
        node = site.make_node(mac)
        site.snapshot(node, 'ended.img')
        site.in_phase(node, 'booting')
    else:
        node = streaming(site, mac, 'ended.img')
        site.wait(lambda: transfers(site), 'a file')
    site.provision(node, verb)
    found = site.settled(node)
    assert found['provision_state'] == state
    check_as_before(site, node)
    event = site.history(node)[0]
    assert event['outcome'] == outcome
    assert 'request' in event['reason']
    assert event['finished_at'] is not None
    assert not transfers(site)
    assert not list((site.folder / 'images').iterdir())


def test_what_one_snapshot_could_not_put_back_the_next_does(slow_site, mac):
    """The ramdisk's boot device is not taken for the node's own."""
    site = slow_site
    node = site.make_node(mac, fake_failures={'boot.clean_up_ramdisk': True})
    site.snapshot(node, 'owed.img')
    site.in_phase(node, 'booting')
    site.provision(node, 'abort')
    assert 'could not be put back' in site.settled(node)['last_error']
    site.change(node, driver_info={})
    # The BMC, too, was left as the ramdisk needs it.
    site.request('PUT', f'/v1/nodes/{node}/management/boot_device',
                 {'boot_device': 'pxe', 'persistent': False})
    site.snapshot(node, 'owed.img')
    site.in_phase(node, 'booting')
    site.provision(node, 'abort')
    assert site.settled(node)['provision_state'] == 'snapshot failed'
    check_as_before(site, node)


def test_an_aborted_node_goes_on(slow_site, mac):
    site = slow_site
    node = streaming(site, mac, 'goes-on.img')
    site.provision(node, 'abort')
    assert site.settled(node)['provision_state'] == 'snapshot failed'
    site.provision(node, 'abort')
    found = site.settled(node)
    assert found['provision_state'] == 'active'
    assert found['last_error'] is None
    with pytest.raises(Refused) as caught:
        site.provision(node, 'abort')
    assert caught.value.status == 400


def test_progress_is_shown(slow_site, mac):
    site = slow_site
    node = streaming(site, mac, 'progress.img')
    first = site.get(f'/v1/nodes/{node}/snapshot')
    assert first['phase'] == 'streaming'
    assert first['bytes_total'] > first['bytes_done'] > 0
    site.wait(lambda: site.get(f'/v1/nodes/{node}/snapshot')['bytes_done']
              > first['bytes_done'], 'more bytes')
    site.wait(lambda: site.get(f'/v1/nodes/{node}/snapshot')['rate'],
              'a rate')
    site.provision(node, 'abort')
    site.settled(node)


def test_maintenance_only_interrupts(slow_site, mac):
    site = slow_site
    node = site.make_node(mac)
    disk = site.disk(mac)
    site.snapshot(node, 'maintenance.img')
    site.in_phase(node, 'booting')
    site.request('PUT', f'/v1/nodes/{node}/maintenance', {'reason': 'x'})
    site.agent(mac, disk)
    site.wait(lambda: site.node(node)['driver_internal_info'].get(
        'agent_last_heartbeat'), 'a heartbeat')
    before = site.node(node)['driver_internal_info']['agent_last_heartbeat']
    site.wait(lambda: site.node(node)['driver_internal_info'][
        'agent_last_heartbeat'] > before, 'another heartbeat')
    assert site.history(node)[0]['phase'] == 'booting'
    site.request('DELETE', f'/v1/nodes/{node}/maintenance')
    site.in_phase(node, 'streaming')
    site.provision(node, 'abort')
    site.settled(node)


@pytest.fixture(scope='module')
def impatient_site():
    """A site that waits for nothing for long."""
    with state_dir('bm') as folder, Site(
            folder, bandwidth=0.07, boot_timeout=8,
            silence_timeout=12) as made:
        made.all_in_one()
        yield made


def test_a_ramdisk_that_does_not_report(impatient_site, mac):
    site = impatient_site
    node = site.make_node(mac)
    site.snapshot(node, 'silent.img')
    found = site.settled(node)
    assert found['provision_state'] == 'snapshot failed'
    assert 'gave no sign of life within 8 s' in found['last_error']
    check_as_before(site, node)


def test_an_agent_that_dies(impatient_site, mac):
    site = impatient_site
    node = streaming(site, mac, 'dies.img')
    site.kill(f'agent-{mac.replace(":", "")}')
    found = site.settled(node)
    assert found['provision_state'] == 'snapshot failed'
    assert 'silent' in found['last_error']
    check_as_before(site, node)
    assert not transfers(site)


def test_an_agent_that_is_only_slow_is_waited_for(impatient_site, mac):
    site = impatient_site
    node = streaming(site, mac, 'slow.img')
    # Longer than any of the timeouts, which measure silence alone.
    assert site.settled(node)['provision_state'] == 'active'


def test_an_agent_that_is_started_again_in_the_middle(slow_site, mac):
    site = slow_site
    node = streaming(site, mac, 'started-again.img')
    # Its token is where it kept it, and nothing else.
    site.kill(f'agent-{mac.replace(":", "")}')
    site.agent(mac, site.folder / f'{mac.replace(":", "")}.disk')
    found = site.settled(node)
    assert found['provision_state'] == 'snapshot failed'
    assert 'silent' not in found['last_error']
    check_as_before(site, node)
    assert not transfers(site)


def test_a_store_without_room(mac):
    with state_dir('bm') as folder, Site(folder) as site:
        site.replace('min_free = 1', 'min_free = 999999999')
        site.all_in_one()
        node = site.make_node(mac)
        site.snapshot(node, 'no-room.img')
        found = site.settled(node)
        assert found['provision_state'] == 'snapshot failed'
        assert 'has no room' in found['last_error']
        # It was found out before the machine was touched.
        assert site.history(node)[0]['consistency'] is None
        check_as_before(site, node)


def test_an_order_that_cannot_be(slow_site, mac):
    site = slow_site
    node = site.make_node(mac)
    site.change(node, properties={'root_device': 'the first'})
    site.snapshot(node, 'no-order.img')
    found = site.settled(node)
    assert found['provision_state'] == 'snapshot failed'
    assert 'cannot be ordered' in found['last_error']
    # It was found out before the machine was touched.
    assert site.history(node)[0]['consistency'] is None
    check_as_before(site, node)


def test_a_ramdisk_that_boots_again_in_the_middle(impatient_site, mac):
    site = impatient_site
    node = streaming(site, mac, 'again.img')
    name = f'agent-{mac.replace(":", "")}'
    site.kill(name)
    # What a boot takes with it.
    for path in (site.folder / f'{name}-state').iterdir():
        path.unlink()
    with contextlib.suppress(AssertionError):
        site.agent(mac, site.folder / f'{mac.replace(":", "")}.disk')
    found = site.settled(node)
    assert found['provision_state'] == 'snapshot failed'
    check_as_before(site, node)
