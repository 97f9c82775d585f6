# SPDX-License-Identifier: Apache-2.0
"""The server state machine, rule by rule (DESIGN: states of servers)."""

import pytest

from stillframe.states import servers
from tools import draw_states


@pytest.mark.parametrize('request_, vm_state, task_state, expected', [
    ('quiesce', 'active', None, True),
    ('quiesce', 'active', 'quiescing', False),
    ('quiesce', 'quiesced', None, False),
    ('quiesce', 'paused', None, False),
    ('quiesce', 'stopped', None, False),
    ('quiesce', 'error', None, False),
    ('unquiesce', 'quiesced', None, True),
    ('unquiesce', 'quiesced', 'unquiescing', False),
    ('unquiesce', 'active', None, False),
    ('unquiesce', 'error', None, False),
])
def test_can(request_, vm_state, task_state, expected):
    assert servers.can(request_, vm_state, task_state) is expected


@pytest.mark.parametrize('request_, result, expected', [
    ('quiesce', 'success', 'quiesced'),
    ('quiesce', 'cannot', 'active'),
    ('quiesce', 'failed', 'error'),
    ('quiesce', 'lost', 'active'),
    ('unquiesce', 'success', 'active'),
    ('unquiesce', 'cannot', 'quiesced'),
    ('unquiesce', 'failed', 'error'),
    ('unquiesce', 'lost', 'active'),
])
def test_after(request_, result, expected):
    assert servers.after(request_, servers.Result(result)) == expected


def test_every_result_has_an_end():
    for transition in servers.TRANSITIONS.values():
        assert set(transition.outcome) == set(servers.Result)
        assert set(transition.outcome.values()) <= servers.VM_STATES
        assert transition.task_state in servers.TASK_STATES


def test_tables_cannot_be_changed():
    with pytest.raises(TypeError):
        servers.TRANSITIONS['quiesce'] = None  # type: ignore[index]


@pytest.mark.parametrize('vm_state, task_state, expected', [
    ('quiesced', None, True),
    ('error', None, True),
    ('active', 'quiescing', True),
    ('active', None, False),
    ('stopped', None, False),
])
def test_reset_thaws(vm_state, task_state, expected):
    assert servers.reset_thaws(vm_state, task_state) is expected


def test_every_vm_state_has_a_status_and_back():
    for vm_state in servers.VM_STATES:
        word = servers.status(vm_state)
        assert servers.vm_state_of_status(word) == vm_state
        assert servers.vm_state_of_status(word.lower()) == vm_state
    assert servers.vm_state_of_status('NOSUCH') is None


def test_every_power_state_has_a_vm_state():
    for power in servers.POWER_STATES:
        assert servers.vm_state_of_power(power) in servers.FOLLOWS_POWER


def test_requested_states_do_not_follow_the_power_state():
    assert servers.QUIESCED not in servers.FOLLOWS_POWER
    assert servers.ERROR not in servers.FOLLOWS_POWER


def test_the_drawn_document_is_up_to_date():
    assert draw_states.TARGET.read_text() == draw_states.text()
