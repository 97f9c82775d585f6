# SPDX-License-Identifier: Apache-2.0
"""The provision state machine, rule by rule (DESIGN: states of nodes)."""

import pytest

from stillframe.states import nodes


@pytest.mark.parametrize('state, event, expected', [
    ('active', 'snapshot', 'snapshotting'),
    ('snapshotting', 'fail', 'snapshot failed'),
    ('snapshotting', 'wait', 'snapshot wait'),
    ('snapshot wait', 'resume', 'snapshotting'),
    ('snapshot wait', 'fail', 'snapshot failed'),
    ('snapshot wait', 'abort', 'snapshot failed'),
    ('snapshotting', 'done', 'active'),
    ('snapshot failed', 'abort', 'active'),
    ('snapshot failed', 'snapshot', 'snapshotting'),
    ('snapshot wait', 'delete', 'deleting'),
    ('snapshot failed', 'delete', 'deleting'),
])
def test_the_snapshot_family(state, event, expected):
    target = None if expected == 'active' else (
        'available' if expected == 'deleting' else 'active')
    assert nodes.after(state, event) == (expected, target)


def test_the_family_has_no_other_ways():
    ways = {(start, event) for start, event, _ in nodes.MACHINE
            if start in nodes.SNAPSHOT_FAMILY}
    assert len(ways) == 10


@pytest.mark.parametrize('state, verb, expected', [
    ('enroll', 'manage', True),
    ('enroll', 'provide', False),
    ('manageable', 'provide', True),
    ('manageable', 'adopt', True),
    ('available', 'active', True),
    ('available', 'snapshot', False),
    ('active', 'snapshot', True),
    ('active', 'deleted', True),
    ('active', 'abort', False),
    ('snapshotting', 'abort', False),
    ('snapshotting', 'deleted', False),
    ('snapshot wait', 'snapshot', False),
    ('snapshot wait', 'abort', True),
    ('active', 'frobnicate', False),
    # An event that only a conductor makes is no request.
    ('snapshot wait', 'resume', False),
])
def test_can(state, verb, expected):
    assert nodes.can(state, verb) is expected


def test_what_cannot_happen_says_so():
    with pytest.raises(nodes.NoTransition) as caught:
        nodes.after('enroll', 'snapshot')
    assert "'snapshot' cannot happen in state 'enroll'" in str(caught.value)


@pytest.mark.parametrize('state, verb, expected', [
    ('active', 'snapshot', True),
    ('snapshot wait', 'abort', True),
    ('snapshot failed', 'abort', False),
    ('available', 'manage', False),
    ('enroll', 'manage', True),
    ('adopt failed', 'manage', False),
])
def test_needs_conductor(state, verb, expected):
    assert nodes.needs_conductor(state, verb) is expected


def test_the_kinds_of_states_share_nothing_and_leave_none_out():
    kinds = [nodes.STABLE, nodes.WAITING, nodes.WORKING, nodes.FAILED]
    assert sum(map(len, kinds)) == len(nodes.PROVISION_STATES)
    assert frozenset().union(*kinds) == nodes.PROVISION_STATES
    assert {'error', 'adopt failed', 'snapshot failed'} == nodes.FAILED
    assert {'snapshot wait'} == nodes.WAITING


def test_every_state_can_be_reached_and_left():
    ways = list(nodes.MACHINE)
    assert {end for _, _, end in ways} | {'enroll'} == nodes.PROVISION_STATES
    assert {start for start, _, _ in ways} == nodes.PROVISION_STATES


def test_no_work_is_without_an_end():
    for state in nodes.WORKING:
        assert nodes.after(state, 'fail')


def test_clients_see_a_failure_by_the_name():
    # They look for this suffix, or for "error".
    for state in nodes.FAILED:
        assert state == 'error' or state.endswith(' failed')


def test_a_target_is_where_a_node_rests():
    for state in nodes.PROVISION_STATES:
        target = nodes.target(state)
        assert (target is None) == (state in nodes.STABLE)
        assert target is None or target in nodes.STABLE
    for state in nodes.SNAPSHOT_FAMILY:
        assert nodes.target(state) == 'active'
