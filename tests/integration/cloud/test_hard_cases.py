# SPDX-License-Identifier: Apache-2.0
"""What can befall a frozen guest, seen from outside over REST.

After every one: no guest frozen beyond its deadline, no state stuck, an
action that tells the truth.
"""

import concurrent.futures
import os
import signal
import time

import pytest

from tests.lab.processes import wait_until

#: Seconds after a deadline within which a guard has thawed a guest on a
#: machine that is busy.
SOON = 4


def wait_thawed(guest, deadline):
    """The guest is frozen up to its deadline, and no longer."""
    wait_until(lambda: not guest.frozen(), deadline - time.monotonic() + SOON,
               'the guest to thaw')
    assert time.monotonic() > deadline - 0.5, 'thawed before its deadline'


def test_the_main_job(cloud, web):
    before = web.counter()
    request_id = cloud.quiesce(web.uuid)
    assert web.frozen()
    frozen_at = web.counter()
    assert frozen_at >= before
    assert cloud.server(web.uuid)['OS-EXT-STS:vm_state'] == 'quiesced'
    action = cloud.action(web.uuid, request_id)
    assert action['action'] == 'quiesce'
    event = action['events'][0]
    assert (event['event'], event['result'], event['host']) == (
        'compute_quiesce_server', 'Success', 'alpha')
    assert '1 file system' in event['details']
    action = cloud.unquiesce(web.uuid)
    assert 'frozen for' in action['events'][0]['details']
    assert not web.frozen()
    web.wait_counter(above=frozen_at)


def test_twice(cloud, web):
    cloud.quiesce(web.uuid)
    again = cloud.act(web.uuid, quiesce=None)
    assert again.status_code == 409
    assert again.json()['conflictingRequest']['message'] == (
        f"Cannot 'quiesce' instance {web.uuid} while it is in vm_state "
        'quiesced')
    assert web.frozen()
    cloud.unquiesce(web.uuid)
    again = cloud.act(web.uuid, unquiesce=None)
    assert again.status_code == 409
    assert again.json()['conflictingRequest']['message'] == (
        f"Cannot 'unquiesce' instance {web.uuid} while it is in vm_state "
        'active')


def test_fifty_at_once(cloud, web):
    with concurrent.futures.ThreadPoolExecutor(50) as pool:
        codes = list(pool.map(
            lambda _: cloud.act(web.uuid, quiesce=None).status_code,
            range(50)))
    assert sorted(set(codes)) == [202, 409]
    assert codes.count(202) == 1
    cloud.wait_state(web.uuid, 'QUIESCED')
    cloud.unquiesce(web.uuid)


def test_unquiesce_after_the_automatic_thaw(cloud, web):
    cloud.quiesce(web.uuid, timeout=2)
    deadline = time.monotonic() + 2
    wait_until(lambda: not web.frozen(), 2 + SOON, 'the guest to thaw')
    assert time.monotonic() < deadline + SOON
    cloud.wait_state(web.uuid, 'ACTIVE')
    late = cloud.act(web.uuid, unquiesce=None)
    assert late.status_code == 409
    cloud.wait_ended_early(web.uuid, 'deadline')
    action = cloud.newest_action(web.uuid)
    assert action['action'] == 'unquiesce'
    assert action['user_id'] is None


@pytest.mark.parametrize('state', ['active', 'error'])
def test_reset_from_quiesced(cloud, web, state):
    cloud.quiesce(web.uuid)
    answer = cloud.act(web.uuid, **{'os-resetState': {'state': state}})
    assert answer.status_code == 202
    cloud.wait_state(web.uuid, state.upper())
    assert not web.frozen()
    action = cloud.newest_action(web.uuid)
    assert action['action'] == 'resetState'


def test_reset_from_error(cloud, web):
    web.set_hook(fail=True)
    answer = cloud.act(web.uuid, quiesce=None)
    assert answer.status_code == 202
    cloud.wait_state(web.uuid, 'ERROR')
    shown = cloud.server(web.uuid)
    assert shown['fault']['code'] == 500
    assert 'thawed' in shown['fault']['message']
    action = cloud.newest_action(web.uuid)
    assert action['events'][0]['result'] == 'Error'
    assert 'hook' in action['message']
    assert not web.frozen()
    cloud.act(web.uuid, **{'os-resetState': {'state': 'active'}})
    cloud.wait_state(web.uuid, 'ACTIVE')


def test_api_killed_while_frozen(cloud, web):
    cloud.quiesce(web.uuid)
    cloud.kill('api')
    assert web.frozen()
    cloud.heal()
    cloud.unquiesce(web.uuid)


def test_conductor_killed_while_quiescing_and_back(cloud, web):
    web.set_hook(slow=2)
    cloud.act(web.uuid, quiesce=None)
    cloud.kill('conductor')
    wait_until(web.frozen, 15, 'the guest to freeze')
    assert cloud.state(web.uuid) == ('ACTIVE', 'quiescing')
    cloud.start('conductor')
    cloud.wait_state(web.uuid, 'QUIESCED')
    cloud.unquiesce(web.uuid)


def test_conductor_dead_beyond_the_deadline(cloud, web):
    cloud.quiesce(web.uuid, timeout=4)
    deadline = time.monotonic() + 4
    cloud.kill('conductor')
    wait_until(lambda: not web.frozen(), 4 + SOON, 'the guest to thaw')
    assert time.monotonic() < deadline + SOON
    cloud.start('conductor')
    cloud.wait_state(web.uuid, 'ACTIVE')
    cloud.wait_ended_early(web.uuid, 'deadline')


def test_worker_killed_while_frozen_and_not_back(cloud, web):
    called = time.monotonic()
    cloud.quiesce(web.uuid, timeout=8)
    cloud.kill('alpha')
    wait_thawed(web, called + 8)
    # The conductor does not show it as quiesced for ever.
    cloud.wait_state(web.uuid, 'ACTIVE')
    action = cloud.newest_action(web.uuid)
    assert action['action'] == 'unquiesce'
    refused = cloud.act(web.uuid, quiesce=None)
    assert refused.status_code == 409
    message = refused.json()['conflictingRequest']['message']
    assert 'alpha' not in message, 'names a host'
    assert 'down' in message
    # And it can be reset all the same.
    answer = cloud.act(web.uuid, **{'os-resetState': {'state': 'error'}})
    assert answer.status_code == 202
    cloud.wait_state(web.uuid, 'ERROR')


@pytest.mark.parametrize('while_', ['quiescing', 'unquiescing'])
def test_worker_killed_in_a_transition(cloud, web, while_):
    """Settled without the worker, and again by its next life."""
    if while_ == 'unquiescing':
        cloud.quiesce(web.uuid, timeout=12)
        web.hang_agent()
        assert cloud.act(web.uuid, unquiesce=None).status_code == 202
    else:
        web.set_hook(slow=3)
        assert cloud.act(web.uuid, quiesce={'timeout': 12}
                         ).status_code == 202
    time.sleep(0.5)
    cloud.kill('alpha')
    if while_ == 'unquiescing':
        web.wake_agent()
    cloud.start('alpha')
    cloud.wait(lambda: cloud.state(web.uuid)[1] is None, 'no task', 40)
    wait_until(lambda: not web.frozen(), 14, 'the guest to thaw')
    action = cloud.newest_action(web.uuid)
    assert action['events'][0]['result'] == 'Error' or (
        action['action'] == 'unquiesce'), action
    assert action['message'], action


def test_all_killed_while_frozen(cloud, web):
    called = time.monotonic()
    cloud.quiesce(web.uuid, timeout=6)
    cloud.kill('api', 'conductor', 'alpha')
    assert web.frozen()
    wait_thawed(web, called + 6)
    cloud.heal()
    cloud.wait_state(web.uuid, 'ACTIVE')
    cloud.wait_ended_early(web.uuid, 'deadline')


def test_all_killed_with_the_guard(cloud, web):
    """Nobody is left; who is started first thaws."""
    cloud.quiesce(web.uuid, timeout=4)
    pid = cloud.guard_pid('alpha')
    cloud.kill('api', 'conductor', 'alpha')
    os.kill(pid, signal.SIGKILL)
    time.sleep(5)
    assert web.frozen()
    cloud.start('alpha')
    wait_until(lambda: not web.frozen(), 15, 'the guest to thaw')
    cloud.heal()
    cloud.wait_state(web.uuid, 'ACTIVE')


def test_guard_killed_while_frozen(cloud, web):
    called = time.monotonic()
    cloud.quiesce(web.uuid, timeout=8)
    pid = cloud.guard_pid('alpha')
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: cloud.guard_pid('alpha') not in (None, pid), 5,
               'another guard')
    cloud.kill('alpha')
    wait_thawed(web, called + 8)


def test_broker_away_while_frozen(cloud, web, own_rabbit):
    called = time.monotonic()
    cloud.quiesce(web.uuid, timeout=10)
    own_rabbit.stop()
    try:
        begun = time.monotonic()
        refused = cloud.act(web.uuid, unquiesce=None)
        assert refused.status_code == 503, refused.text
        assert 'Retry-After' in refused.headers
        assert time.monotonic() - begun < 30
        assert cloud.state(web.uuid) == ('QUIESCED', None)
        wait_until(lambda: not web.frozen(),
                   max(called + 10 - time.monotonic(), 0) + SOON,
                   'the guest to thaw')
    finally:
        own_rabbit.start()
    cloud.wait_state(web.uuid, 'ACTIVE', 60)
    cloud.wait(cloud.is_well, 'the broker to be used again', 60)
    cloud.wait_ended_early(web.uuid, 'deadline')
    cloud.quiesce(web.uuid)
    cloud.unquiesce(web.uuid)


def test_broker_restarted_while_frozen(cloud, web, own_rabbit):
    cloud.quiesce(web.uuid)
    own_rabbit.restart()
    assert web.frozen()
    cloud.wait(cloud.is_well, 'the broker to be used again', 60)
    cloud.unquiesce(web.uuid)
    assert not web.frozen()


def test_database_away_while_frozen(cloud, web, own_mariadb):
    called = time.monotonic()
    cloud.quiesce(web.uuid, timeout=10)
    own_mariadb.stop()
    try:
        answer = cloud.http.get(f'/servers/{web.uuid}')
        assert answer.status_code == 503, answer.text
        health = cloud.http.get(
            f'http://127.0.0.1:{cloud.port}/healthcheck')
        assert health.status_code == 503
        wait_until(lambda: not web.frozen(),
                   max(called + 10 - time.monotonic(), 0) + SOON,
                   'the guest to thaw')
    finally:
        own_mariadb.start()
    cloud.wait_state(web.uuid, 'ACTIVE', 60)
    cloud.wait(cloud.is_well, 'the database to be used again', 60)
    cloud.wait_ended_early(web.uuid, 'deadline')


def test_libvirt_restarted_while_frozen(cloud, web, alpha):
    cloud.quiesce(web.uuid)
    alpha.restart()
    web.wait_agent()
    assert web.frozen()
    cloud.unquiesce(web.uuid)
    assert not web.frozen()


def test_paused_while_frozen(cloud, web):
    cloud.quiesce(web.uuid)
    web.pause()
    answer = cloud.act(web.uuid, unquiesce=None)
    assert answer.status_code == 202
    cloud.wait_state(web.uuid, 'QUIESCED')
    action = cloud.newest_action(web.uuid)
    assert action['events'][0]['result'] == 'Error'
    assert 'esume' in action['message']
    web.resume()
    cloud.unquiesce(web.uuid)


def test_rebooted_while_frozen(cloud, web):
    boots = web.boots()
    cloud.quiesce(web.uuid)
    web.reset()
    cloud.wait_state(web.uuid, 'ACTIVE')
    late = cloud.act(web.uuid, unquiesce=None)
    assert late.status_code == 409
    assert 'ended early' in late.json()['conflictingRequest']['message']
    web.wait_boots(boots + 1)
    web.wait_agent()


def test_destroyed_and_undefined_while_frozen(cloud, alpha, own_guest):
    guest = own_guest
    cloud.wait(lambda: cloud.http.get(f'/servers/{guest.uuid}'
                                      ).status_code == 200, 'discovery')
    cloud.wait_state(guest.uuid, 'ACTIVE')
    cloud.quiesce(guest.uuid)
    guest.destroy()
    cloud.wait_state(guest.uuid, 'SHUTOFF')
    refused = cloud.act(guest.uuid, quiesce=None)
    assert refused.status_code == 409
    assert 'vm_state stopped' in refused.text
    guest.undefine()
    cloud.wait(lambda: cloud.http.get(f'/servers/{guest.uuid}'
                                      ).status_code == 404, 'to be deleted')
    deleted = cloud.http.get('/servers/detail?deleted=True').json()
    assert guest.uuid in [one['id'] for one in deleted['servers']]
    actions = cloud.http.get(f'/servers/{guest.uuid}/os-instance-actions')
    assert {one['action'] for one
            in actions.json()['instanceActions']} == {'quiesce', 'unquiesce'}
