# SPDX-License-Identifier: Apache-2.0
"""Nodes move one request at a time, and only by who has them reserved."""

import concurrent.futures

import pytest

from stillframe import exceptions
from stillframe.db import node_moves
from stillframe.db import node_snapshots
from stillframe.db import nodes
from stillframe.states import nodes as states
from tests.unit.db import node_scenes as scenes

pytestmark = pytest.mark.usefixtures('database')


def look(node):
    row = nodes.get(node['uuid'])
    return (row['provision_state'], row['target_provision_state'],
            row['reservation'])


def test_a_request_moves_and_reserves():
    node = scenes.write(scenes.node(), last_error='old')
    after = node_moves.begin(node, 'manage', 'c1')
    assert look(node) == ('verifying', 'manageable', 'c1')
    assert after['last_error'] is None
    assert after['provision_updated_at'] is not None
    assert after['snapshot_id'] is None


def test_a_request_without_work_reserves_nothing():
    node = scenes.node('available')
    node_moves.begin(node, 'manage', 'c1')
    assert look(node) == ('manageable', None, None)
    node = scenes.node('snapshot failed')
    node_moves.begin(node, 'abort', None)
    assert look(node) == ('active', None, None)


def test_work_needs_a_conductor():
    with pytest.raises(ValueError, match='needs a conductor'):
        node_moves.begin(scenes.node(), 'manage', None)


@pytest.mark.parametrize('state, verb', [
    ('enroll', 'provide'), ('active', 'abort'), ('available', 'deleted'),
    ('active', 'nonsense')])
def test_a_request_that_the_state_refuses(state, verb):
    node = scenes.node(state)
    with pytest.raises(exceptions.WrongNodeState) as caught:
        node_moves.begin(node, verb, 'c1')
    assert caught.value.message == (
        f'The requested action "{verb}" can not be performed on node '
        f'"{node["uuid"]}" while it is in state "{state}".')
    assert look(node) == (state, None, None)


def test_a_node_at_work_is_locked_whatever_is_asked():
    node = scenes.snapshotting()
    for verb in ('abort', 'snapshot', 'manage'):
        with pytest.raises(exceptions.NodeLocked) as caught:
            node_moves.begin(node, verb, 'c1',
                             scenes.REQUEST if verb == 'snapshot' else None)
        assert 'locked by host c1' in caught.value.message


@pytest.mark.parametrize('state, verb', [
    ('active', 'snapshot'), ('available', 'active'), ('manageable', 'adopt')])
def test_maintenance_refuses(state, verb):
    node = scenes.node(state, maintenance=True)
    with pytest.raises(exceptions.NodeInMaintenance):
        node_moves.begin(node, verb, 'c1',
                         scenes.REQUEST if verb == 'snapshot' else None)
    assert look(node) == (state, None, None)


def test_an_abort_ends_the_snapshot_that_is_there():
    seen = scenes.waiting()
    node = node_moves.begin(seen, 'abort', 'c1')
    node = node_moves.release(node, 'c1', end=('aborted', 'Asked for.'))
    node = node_moves.begin(node, 'snapshot', 'c1', scenes.REQUEST)
    node_moves.move(node, 'c1', 'wait', release=True)
    # Of one who has not looked since.
    node_moves.begin(seen, 'abort', 'c1')
    assert scenes.snapshot(node)['uuid'] != seen['snapshot_id']
    assert scenes.snapshot(node)['outcome'] == 'aborted'


def test_maintenance_does_not_keep_from_ending():
    node = scenes.write(scenes.waiting(), maintenance=True)
    node_moves.begin(node, 'abort', 'c1')
    assert look(node)[0] == 'snapshot failed'


def test_a_node_that_is_gone():
    node = scenes.node('manageable')
    nodes.destroy(node)
    with pytest.raises(exceptions.NodeNotFound):
        node_moves.begin(node, 'provide', 'c1')


def test_a_stale_sight_of_a_node_is_no_matter():
    before = scenes.node('available')
    node_moves.begin(before, 'manage', None)
    node_moves.begin(before, 'provide', 'c1')
    assert look(before)[0] == 'cleaning'


def test_a_snapshot_has_its_row():
    node = scenes.snapshotting()
    assert look(node) == ('snapshotting', 'active', 'c1')
    row = scenes.snapshot(node)
    assert row['node_uuid'] == node['uuid']
    assert row['conductor'] == 'c1'
    assert row['phase'] == 'preparing'
    assert row['options'] == {'compress': 'zstd'}
    assert row['outcome'] is None
    assert row['finished_at'] is None
    with pytest.raises(ValueError):
        node_moves.begin(scenes.node('active'), 'snapshot', 'c1')


def test_of_many_requests_one_wins():
    node = scenes.node('active')

    def ask(_):
        try:
            return node_moves.begin(node, 'snapshot', 'c1', scenes.REQUEST)
        except exceptions.NodeLocked:
            return None

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        won = [one for one in pool.map(ask, range(8)) if one]
    assert len(won) == 1
    assert [row['uuid'] for row in
            node_snapshots.history(node['uuid'], 10)] == [
                won[0]['snapshot_id']]


@pytest.mark.parametrize('verb, outcome, state', [
    ('abort', 'aborted', ('snapshot failed', 'active', 'c2')),
    ('deleted', 'deleted', ('deleting', 'available', 'c2'))])
def test_a_request_ends_a_snapshot_that_waits(verb, outcome, state):
    node = scenes.waiting()
    node_moves.begin(node, verb, 'c2')
    assert look(node) == state
    row = scenes.snapshot(node)
    assert row['outcome'] == outcome
    assert row['phase'] == 'restoring'
    assert row['reason']
    assert row['finished_at'] is None
    # What comes late changes nothing of that.
    assert not node_snapshots.write(row['uuid'], {'phase': 'streaming'})
    node_snapshots.settle(row['uuid'], 'failed', 'late')
    assert scenes.snapshot(node)['outcome'] == outcome


def test_taking_back_a_snapshot_that_was_not_handed_over():
    before = scenes.node('active')
    after = node_moves.begin(before, 'snapshot', 'c1', scenes.REQUEST)
    assert node_moves.revert(before, after, 'no broker')
    assert look(before) == ('active', None, None)
    assert nodes.get(before['uuid'])['last_error'] == 'no broker'
    row = scenes.snapshot(before)
    assert (row['outcome'], row['reason']) == ('failed', 'no broker')
    assert row['finished_at'] is not None


def test_taking_back_an_abort_that_was_not_handed_over():
    before = scenes.waiting()
    node_snapshots.write(before['snapshot_id'],
                         {'phase': 'streaming', 'command_id': 'x'})
    after = node_moves.begin(before, 'abort', 'c1')
    assert node_moves.revert(before, after, 'no broker')
    assert look(before) == ('snapshot wait', 'active', None)
    row = scenes.snapshot(before)
    assert (row['outcome'], row['phase']) == (None, 'streaming')


def test_nothing_is_taken_back_once_it_was_taken_up():
    before = scenes.node('active')
    after = node_moves.begin(before, 'snapshot', 'c1', scenes.REQUEST)
    node_moves.move(after, 'c1', 'wait', release=True)
    assert not node_moves.revert(before, after, 'no broker')
    assert look(before)[0] == 'snapshot wait'


def test_work_that_has_begun_is_not_taken_back():
    """The message came through; that it did was what got lost."""
    before = scenes.node('active')
    after = node_moves.begin(before, 'snapshot', 'c1', scenes.REQUEST)
    node_moves.write(after, 'c1', {})
    assert not node_moves.revert(before, after, 'no broker')
    assert look(before) == ('snapshotting', 'active', 'c1')
    assert scenes.snapshot(after)['finished_at'] is None


def test_only_who_has_it_reserved_moves_a_node():
    node = scenes.snapshotting()
    with pytest.raises(node_moves.LostNode):
        node_moves.move(node, 'c2', 'wait')
    moved = node_moves.move(node, 'c1', 'wait', also={'power_state':
                                                      'power on'})
    assert moved['power_state'] == 'power on'
    assert look(node) == ('snapshot wait', 'active', 'c1')
    # Seen in a state that is over.
    with pytest.raises(node_moves.LostNode):
        node_moves.move(node, 'c1', 'fail')
    with pytest.raises(states.NoTransition):
        node_moves.move(moved, 'c1', 'done')
    node_moves.release(moved, 'c1')
    with pytest.raises(node_moves.LostNode):
        node_moves.write(moved, 'c1', {'last_error': 'x'})


def test_who_was_taken_for_dead_cannot_meddle_with_the_next_snapshot():
    old = scenes.snapshotting()
    taken = node_moves.reserve(old['uuid'], 'c2', 'snapshotting', 'c1')
    node_moves.move(taken, 'c2', 'fail', release=True,
                    end=('failed', 'c1 died'))
    node_moves.begin(nodes.get(old['uuid']), 'snapshot', 'c1',
                     {**scenes.REQUEST, 'request_id': 'req-2'})
    with pytest.raises(node_moves.LostNode):
        node_moves.move(old, 'c1', 'wait')


def test_the_end_of_a_snapshot():
    node = node_moves.move(scenes.snapshotting(), 'c1', 'done',
                           release=True, end=('done', None))
    assert look(node) == ('active', None, None)
    row = scenes.snapshot(node)
    assert row['outcome'] == 'done'
    assert row['finished_at'] is not None


def test_an_end_keeps_the_outcome_and_adds_to_the_reason():
    node = scenes.snapshotting()
    node_snapshots.settle(node['snapshot_id'], 'aborted', 'why')
    node_moves.move(node, 'c1', 'fail', release=True,
                    end=('failed', 'why; and the power is off'))
    row = scenes.snapshot(node)
    assert (row['outcome'], row['reason']) == (
        'aborted', 'why; and the power is off')


def test_reserving():
    node = scenes.waiting()
    assert node_moves.reserve(node['uuid'], 'c1', 'active') is None
    assert node_moves.reserve(node['uuid'], 'c2', 'snapshot wait', 'c1') \
        is None
    assert node_moves.reserve(node['uuid'], 'c2', 'snapshot wait')[
        'reservation'] == 'c2'
    assert node_moves.reserve(node['uuid'], 'c1', 'snapshot wait') is None
    assert node_moves.reserve(node['uuid'], 'c1', 'snapshot wait', 'c2')


def test_a_long_error_is_cut():
    node = scenes.snapshotting()
    node_moves.write(node, 'c1', {'last_error': 'x' * 100_000})
    assert len(nodes.get(node['uuid'])['last_error']) == 16000


def test_power():
    node = scenes.node('active')
    after = node_moves.begin_power(node, 'soft power off', 'c1')
    assert after['reservation'] == 'c1'
    assert after['target_power_state'] == 'power off'
    with pytest.raises(exceptions.NodeLocked):
        node_moves.begin_power(node, 'power on', 'c1')
    assert node_moves.revert_power(after, 'no broker')
    assert look(node) == ('active', None, None)
    assert nodes.get(node['uuid'])['target_power_state'] is None
    assert not node_moves.revert_power(after, 'no broker')


def test_power_of_a_node_that_is_snapshotted_is_not_the_users():
    node = scenes.waiting()
    with pytest.raises(exceptions.WrongNodeState):
        node_moves.begin_power(node, 'power off', 'c1')


def test_what_may_be_stuck():
    scenes.node('active')
    one, two = scenes.snapshotting(), scenes.waiting()
    assert [row['uuid'] for row in node_moves.reserved()] == [one['uuid']]
    assert [row['uuid'] for row in
            node_moves.in_states(['snapshot wait', 'snapshotting'])] == [
                two['uuid']]
    assert [scenes.snapshot(node)['finished_at']
            for node in (one, two)] == [None, None]
