# SPDX-License-Identifier: Apache-2.0
"""What a conductor left behind is taken up, whatever it was."""

import datetime

import pytest

from stillframe.conductor.baremetal import finishing
from stillframe.conductor.baremetal import provisioning
from stillframe.conductor.baremetal import recovery
from stillframe.conf import CONF
from stillframe.db import base
from stillframe.db import node_moves
from stillframe.db import node_snapshots
from stillframe.db import nodes
from stillframe.db import services
from tests.lab.processes import wait_until
from tests.unit.db import node_scenes as scenes

ONE_HOUR = datetime.timedelta(hours=1)
ORIGINAL = {'stage': 'booting', 'power_state': 'power on',
            'boot_device': 'disk', 'persistent': True}


@pytest.fixture
def found(tools, clock):
    return recovery.Recovery(tools, clock)


def rests(node):
    """Wait until nobody works on a node; give it."""
    def over():
        row = nodes.get(node['uuid'])
        return row if row['reservation'] is None else None

    return wait_until(over, 30, 'rest')


def wait_and_look(found, clock, seconds):
    """Look, let time pass, and look at each interval."""
    step = 2 * CONF.conductor.reap_interval
    found.look()
    for _ in range(int(seconds / step) + 1):
        clock.now += step
        found.look()


@pytest.mark.parametrize('state, verb, end', [
    ('enroll', 'manage', 'manageable'),
    ('manageable', 'provide', 'available'),
    ('manageable', 'adopt', 'active'),
    ('available', 'active', 'active'),
    ('active', 'deleted', 'available')])
def test_provisioning_is_done_again(found, state, verb, end):
    node = node_moves.begin(scenes.node(state), verb, scenes.HOST)
    found.look(at_start=True)
    assert rests(node)['provision_state'] == end


def test_a_snapshot_is_ended(found):
    node = scenes.snapshotting(power_state='power on')
    node_snapshots.write(node['snapshot_id'], {'original': ORIGINAL})
    found.look(at_start=True)
    ended = rests(node)
    assert ended['provision_state'] == 'snapshot failed'
    assert 'c1 was interrupted' in ended['last_error']
    assert ended['power_state'] == 'power on'
    assert scenes.snapshot(node)['outcome'] == 'failed'
    assert scenes.snapshot(node)['original']['stage'] == 'restored'


def test_an_abort_is_ended(found):
    node = node_moves.begin(scenes.waiting(), 'abort', scenes.HOST)
    found.look(at_start=True)
    ended = rests(node)
    assert ended['provision_state'] == 'snapshot failed'
    row = scenes.snapshot(node)
    assert row['outcome'] == 'aborted'
    assert row['finished_at'] is not None


def test_a_delete_is_ended(found):
    node = node_moves.begin(
        scenes.waiting(instance_info={'a': 1}), 'deleted', scenes.HOST)
    found.look(at_start=True)
    ended = rests(node)
    assert ended['provision_state'] == 'available'
    assert ended['instance_info'] == {}
    row = scenes.snapshot(node)
    assert row['outcome'] == 'deleted'
    assert row['finished_at'] is not None


def test_a_change_of_power_is_looked_at(found):
    node = scenes.node('active', power_state='power on')
    node_moves.begin_power(node, 'power off', scenes.HOST)
    found.look(at_start=True)
    ended = rests(node)
    assert ended['target_power_state'] is None
    assert 'interrupted' in ended['last_error']


def test_a_node_that_was_only_held_is_let_go(found):
    node = scenes.waiting()
    assert node_moves.reserve(node['uuid'], scenes.HOST, 'snapshot wait')
    found.look(at_start=True)
    assert rests(node)['provision_state'] == 'snapshot wait'


def test_work_that_was_lost_on_its_way_is_waited_for_first(found, clock):
    node = node_moves.begin(scenes.node('manageable'), 'provide',
                            scenes.HOST)
    found.look()
    assert nodes.get(node['uuid'])['reservation'] == scenes.HOST
    wait_and_look(found, clock, CONF.baremetal.handover_timeout)
    assert rests(node)['provision_state'] == 'available'


def test_nodes_of_one_that_is_dead_are_taken(found, clock):
    node = node_moves.begin(scenes.node('manageable'), 'provide', 'dead')
    wait_and_look(found, clock, CONF.api.service_down_time)
    assert rests(node)['provision_state'] == 'available'


def test_with_a_wrong_clock_nothing_is_taken_from_the_living(
        found, clock, tools, monkeypatch):
    # All that others reported looks an hour old, until they report again.
    def report(count):
        with monkeypatch.context() as patch:
            patch.setattr(base, 'utcnow', lambda: now - ONE_HOUR)
            services.report('c2', services.CONDUCTOR, 'life', count, {
                'drivers': ['fake-hardware'], 'groups': ['']})
        tools.ring.refresh()

    now = base.utcnow()
    report(1)
    held = node_moves.begin(scenes.node('manageable'), 'provide', 'c2')
    waiting = scenes.waiting()
    node_snapshots.write(waiting['snapshot_id'], {'phase': 'streaming'})
    node_snapshots.take_over(waiting['snapshot_id'], 'c2', scenes.HOST)
    found.look(at_start=True)
    assert tools.ring.alive() == {scenes.HOST}
    for count in range(2, 9):
        report(count)
        clock.now += CONF.conductor.reap_interval
        found.look()
    assert nodes.get(held['uuid'])['reservation'] == 'c2'
    tools.work.stop(30)
    assert nodes.get(waiting['uuid'])['provision_state'] == 'snapshot wait'


def test_nodes_of_one_that_lives_are_left(found, tools):
    services.report('c2', services.CONDUCTOR, 'life', 1, {
        'drivers': [], 'groups': []})
    tools.ring.refresh()
    node = node_moves.begin(scenes.node('manageable'), 'provide', 'c2')
    found.look()
    assert nodes.get(node['uuid'])['reservation'] == 'c2'


def test_a_ramdisk_that_boots_is_waited_for_by_another(found, clock):
    node = scenes.waiting()
    node_snapshots.write(node['snapshot_id'], {'phase': 'booting'})
    node_snapshots.take_over(node['snapshot_id'], 'dead', scenes.HOST)
    wait_and_look(found, clock, CONF.api.service_down_time)
    assert scenes.snapshot(node)['conductor'] == scenes.HOST
    assert nodes.get(node['uuid'])['provision_state'] == 'snapshot wait'


def test_an_image_on_its_way_to_a_dead_one_is_lost(found, clock):
    node = scenes.waiting()
    node_snapshots.write(node['snapshot_id'], {'phase': 'streaming'})
    node_snapshots.take_over(node['snapshot_id'], 'dead', scenes.HOST)
    wait_and_look(found, clock, CONF.api.service_down_time)

    def over():
        row = nodes.get(node['uuid'])
        return (row['provision_state'] == 'snapshot failed'
                and row['reservation'] is None and row['last_error'])

    assert 'dead' in wait_until(over, 30, 'the end')


def test_a_snapshot_whose_image_is_whole_ends_well(found):
    node = scenes.snapshotting(power_state='power on')
    node_snapshots.write(node['snapshot_id'], {
        'original': ORIGINAL, 'result': {'size': 1}})
    node_snapshots.settle(node['snapshot_id'], 'done', None)
    found.look(at_start=True)
    ended = rests(node)
    assert ended['provision_state'] == 'active'
    assert scenes.snapshot(node)['outcome'] == 'done'


def test_a_result_without_its_file_is_no_image(found):
    node = scenes.snapshotting(power_state='power on')
    node_snapshots.write(node['snapshot_id'], {
        'original': ORIGINAL, 'result': {'version': 1}})
    found.look(at_start=True)
    ended = rests(node)
    assert ended['provision_state'] == 'snapshot failed'
    assert 'No transfer is open' in ended['last_error']


def test_what_never_ends_is_let_go_as_it_is(found, clock, monkeypatch):
    def fail(_task):
        raise RuntimeError('on purpose')

    monkeypatch.setattr(provisioning, 'act', fail)
    monkeypatch.setattr(finishing, 'finish', fail)
    node = node_moves.begin(scenes.node('manageable'), 'provide',
                            scenes.HOST)
    step = 2 * CONF.conductor.reap_interval

    def over():
        clock.now += step
        found.look()
        row = nodes.get(node['uuid'])
        return row if row['reservation'] is None else None

    ended = wait_until(over, 60, 'the end')
    assert ended['provision_state'] == 'error'
    assert 'several times' in ended['last_error']
