# SPDX-License-Identifier: Apache-2.0
"""What the API hands to conductors, and requests that race."""

from concurrent import futures
import json

import pytest

from stillframe.db import node_agents
from stillframe.db import node_snapshots
from stillframe.db import nodes as db
from stillframe.states import nodes as states
from tests.functional import environment
from tests.functional import node_population as nodes
from tests.functional import population
from tests.functional import wsgi
from tests.lab.processes import wait_until

AT_ONCE = 8


@pytest.fixture
def api():
    """An API with nodes of its own for each test."""
    with environment.environment(nodes=True) as made:
        yield made


def call(api, method, path, body=None, token='', version='1.116'):
    """Send a request."""
    headers = {'OpenStack-API-Version': f'baremetal {version}'}
    if token:
        headers['X-Auth-Token'] = token
    return wsgi.call(api.app, method, path,
                     b'' if body is None else json.dumps(body).encode(),
                     headers)


def at_once(work):
    """Do something several times at once; gives what came of each."""
    with futures.ThreadPoolExecutor(AT_ONCE) as pool:
        return [one.result(60) for one in
                [pool.submit(work) for _ in range(AT_ONCE)]]


def provision(api, node, **body):
    """Ask for a node to be moved."""
    return call(api, 'PUT', f'/v1/nodes/{node}/states/provision', body)


def test_of_racing_snapshots_one_is_taken(api):
    image = nodes.images()['QUEUED_IMAGE']
    answers = at_once(lambda: provision(
        api, nodes.ACTIVE, target='snapshot', image_ref=image))
    assert sorted(one.status for one in answers) == [202] + [409] * (
        AT_ONCE - 1)
    node = db.get(nodes.ACTIVE)
    assert node['provision_state'] == states.SNAPSHOTTING
    assert node['reservation'] == nodes.CONDUCTOR
    (snapshot,) = node_snapshots.history(nodes.ACTIVE, 10)
    assert snapshot['uuid'] == node['snapshot_id']
    assert snapshot['conductor'] == nodes.CONDUCTOR
    assert api.baremetal.casts == [
        ('do_node_snapshot', nodes.ACTIVE,
         {'snapshot_id': snapshot['uuid']})]


def test_racing_abort_and_delete(api):
    turns = iter(['abort', 'deleted'] * (AT_ONCE // 2))
    answers = at_once(lambda: provision(api, nodes.WAITING,
                                        target=next(turns)))
    assert sorted(one.status for one in answers) == [202] + [409] * (
        AT_ONCE - 1)
    ((method, node, args),) = api.baremetal.casts
    assert (method, node) == ('do_provisioning_action', nodes.WAITING)
    snapshot = node_snapshots.get(nodes.SNAPSHOT[nodes.WAITING])
    assert snapshot['outcome'] == {
        'abort': 'aborted', 'deleted': 'deleted'}[args['verb']]


def test_of_racing_switches_one_is_done(api):
    answers = at_once(lambda: call(
        api, 'PUT', f'/v1/nodes/{nodes.ACTIVE}/states/power',
        {'target': 'soft power off', 'timeout': 30}))
    assert sorted(one.status for one in answers) == [202] + [409] * (
        AT_ONCE - 1)
    assert api.baremetal.casts == [
        ('change_node_power_state', nodes.ACTIVE,
         {'target': 'soft power off', 'timeout': 30.0})]


def test_of_racing_lookups_one_gets_the_token(api):
    answers = at_once(lambda: call(
        api, 'GET', f'/v1/lookup?addresses={nodes.MACS[nodes.BOOTING]}'))
    tokens = [one.json()['config']['agent_token'] for one in answers]
    (token,) = set(tokens) - {'******'}
    assert tokens.count(token) == 1
    row = db.get(nodes.BOOTING)
    assert node_agents.token_matches(row, token)
    assert token not in row.values()


def test_racing_changes_lose_nothing(api):
    """Each change is made, or refused; none is overwritten unseen."""
    turns = iter(range(AT_ONCE))

    def change():
        key = next(turns)
        return key, call(api, 'PATCH', f'/v1/nodes/{nodes.ACTIVE}', [
            {'op': 'add', 'path': f'/extra/k{key}', 'value': key}])

    answers = at_once(change)
    made = {f'k{key}': key for key, answer in answers
            if answer.status == 200}
    assert {answer.status for _, answer in answers} <= {200, 409}
    assert made
    assert db.get(nodes.ACTIVE)['extra'] == {'rack': 7, **made}


def test_racing_nodes_of_one_name(api):
    answers = at_once(lambda: call(api, 'POST', '/v1/nodes', {
        'name': 'same', 'driver': 'fake-hardware'}))
    assert sorted(one.status for one in answers) == [201] + [409] * (
        AT_ONCE - 1)


def test_heartbeats(api):
    body = {'callback_url': nodes.AGENT_URL, 'agent_version': '13.0.0',
            'agent_token': nodes.tokens[nodes.WAITING],
            'agent_verify_ca': nodes.CERTIFICATE}
    path = f'/v1/heartbeat/{nodes.WAITING}'
    before = db.get(nodes.WAITING)
    answers = at_once(lambda: call(api, 'POST', path, body, version='1.68'))
    assert [one.status for one in answers] == [202] * AT_ONCE
    assert api.baremetal.casts == [
        ('heartbeat', nodes.WAITING,
         {'agent_token': nodes.tokens[nodes.WAITING]})] * AT_ONCE
    after = db.get(nodes.WAITING)
    assert after['agent_last_heartbeat'] > before['agent_last_heartbeat']
    assert after['provision_state'] == before['provision_state']


def test_a_heartbeat_that_nobody_waits_for(api):
    """While the conductor works on the node, it asks by itself."""
    row = db.get(nodes.WAITING)
    assert provision(api, nodes.WAITING, target='abort').status == 202
    # A cast is on its way when the request is answered.
    wait_until(lambda: api.baremetal.casts, 30, 'the abort')
    api.baremetal.casts.clear()
    answer = call(api, 'POST', f'/v1/heartbeat/{nodes.WAITING}', {
        'callback_url': row['agent_url'], 'agent_version': '13.0.0',
        'agent_token': nodes.tokens[nodes.WAITING],
        'agent_verify_ca': row['agent_verify_ca']}, version='1.68')
    assert answer.status == 202
    assert not api.baremetal.casts


def test_boot_devices(api):
    assert call(api, 'PUT',
                f'/v1/nodes/{nodes.ACTIVE}/management/boot_device',
                {'boot_device': 'pxe'}).status == 204
    assert api.baremetal.casts == [
        ('set_boot_device', nodes.ACTIVE,
         {'device': 'pxe', 'persistent': False})]
    sentence = 'Node x cannot boot from "pxe": it has no such device.'
    for method, request in (('set_boot_device', 'PUT'),
                            ('get_boot_device', 'GET')):
        api.baremetal.answers[method] = {'error': sentence}
        answer = call(api, request,
                      f'/v1/nodes/{nodes.ACTIVE}/management/boot_device',
                      {'boot_device': 'pxe'} if request == 'PUT' else None)
        assert answer.status == 400
        assert sentence in json.loads(
            answer.json()['error_message'])['faultstring']


def test_a_boot_script_that_cannot_be_written(api):
    """The API was not told where ramdisks are to report to."""
    answer = call(api, 'GET', f'/boot/ipxe/{nodes.MACS[nodes.NETBOOT]}')
    assert (answer.status, answer.body) == (200, b'#!ipxe\nexit 1\n')


def test_what_a_snapshot_is_told(api):
    image = nodes.images()['QUEUED_IMAGE']
    answer = call(
        api, 'PUT', f'/v1/nodes/{nodes.ACTIVE}/states/provision',
        {'target': 'snapshot', 'image_ref': image.upper(),
         'disk_format': 'raw', 'on_read_error': 'zero',
         'transport': 'nfs'}, token=f'fred:{population.PROJECT}')
    assert answer.status == 202
    row = node_snapshots.get(db.get(nodes.ACTIVE)['snapshot_id'])
    assert row['image_ref'] == image
    assert row['disk_format'] == 'raw'
    assert row['options'] == {
        'compress': None, 'skip_free_space': False, 'device': 'root',
        'transport': 'nfs', 'on_read_error': 'zero'}
    assert (row['user_id'], row['project_id']) == (
        'fred', population.PROJECT)
    assert row['request_id'] == answer.headers['x-openstack-request-id']
