# SPDX-License-Identifier: Apache-2.0
"""Nodes with an instance, as servers of the compute dialect."""

import uuid

import pytest

from tests.integration.baremetal.site import Refused


def make_server(site, mac, **driver_info):
    """Make a node with an instance, and wait until it is a server."""
    node = site.make_node(mac, 'fake', **driver_info)
    server = str(uuid.uuid4())
    site.change(node, instance_uuid=server, name=f'n{mac[-2:]}',
                lessee='tenant', resource_class='gold')

    def there():
        return server in [one['id'] for one in
                          site.get('/v2.1/servers?all_tenants=1')['servers']]

    site.wait(there, f'server {server}')
    return node, server


def act(site, server, **action):
    """Ask for an action, and wait for its end."""
    answer = site.request('POST', f'/v2.1/servers/{server}/action', action)

    def ended():
        found = site.get(
            f'/v2.1/servers/{server}/os-instance-actions'
        )['instanceActions'][0]
        full = site.get(f'/v2.1/servers/{server}/os-instance-actions/'
                        f'{found["request_id"]}')['instanceAction']
        return (full if all(event['finish_time'] for event in
                            full['events']) else None)

    return answer, site.wait(ended, f'the end of {action}')


def status(site, server):
    found = site.get(f'/v2.1/servers/{server}')['server']
    return found['status'], found['OS-EXT-STS:task_state']


def test_a_node_with_an_instance_is_a_server(site, mac):
    node, server = make_server(site, mac)
    found = site.get(f'/v2.1/servers/{server}')['server']
    assert found['name'] == f'n{mac[-2:]}'
    assert found['tenant_id'] == 'tenant'
    assert found['status'] == 'ACTIVE'
    assert found['OS-EXT-SRV-ATTR:host'] == 'one-baremetal'
    site.provision(node, 'deleted')
    site.settled(node)

    def gone():
        try:
            site.get(f'/v2.1/servers/{server}')
        except Refused as exc:
            return exc.status == 404
        return False

    site.wait(gone, 'the end of the server')


def test_it_cannot_be_quiesced(site, mac):
    _, server = make_server(site, mac)
    _, action = act(site, server, quiesce=None)
    assert 'bare-metal machine' in action['message']
    assert action['events'][0]['result'] == 'Error'
    assert status(site, server) == ('ACTIVE', None)


def test_an_image_of_it_is_a_snapshot_of_its_node(site, mac):
    node, server = make_server(site, mac)
    _, action = act(site, server, createImage={'name': 'picture'})
    assert action['events'][0]['result'] == 'Success', action
    event = site.history(node)[0]
    assert event['outcome'] == 'done'
    assert event['request_id'] == action['request_id']
    assert status(site, server) == ('ACTIVE', None)
    folder = site.folder / 'one' / 'images'
    assert event['size'] in [path.stat().st_size for path in
                             folder.glob(f'{event["image_ref"]}*')]
    assert site.settled(node)['provision_state'] == 'active'


def test_an_image_that_fails_says_why(site, mac):
    node, server = make_server(
        site, mac, fake_failures={'snapshot.start': 9})
    _, action = act(site, server, createImage={'name': 'picture'})
    assert 'snapshot.start fails on purpose' in action['message']
    assert action['events'][0]['result'] == 'Error'
    assert status(site, server) == ('ACTIVE', None)
    assert site.settled(node)['provision_state'] == 'snapshot failed'
    # In this state its node takes none.
    site.request('PUT', f'/v1/nodes/{node}/maintenance', {'reason': 'x'})
    _, action = act(site, server, createImage={'name': 'picture'})
    assert 'maintenance' in action['message']
    assert status(site, server) == ('ACTIVE', None)


@pytest.mark.parametrize('wish', ['yes', 'true'])
def test_an_image_that_needs_a_freeze_is_refused(site, mac, wish):
    _, server = make_server(site, mac)
    _, action = act(site, server, createImage={
        'name': 'picture', 'metadata': {'os_require_quiesce': wish}})
    assert 'os_require_quiesce' in action['message']
    assert action['events'][0]['result'] == 'Error'
