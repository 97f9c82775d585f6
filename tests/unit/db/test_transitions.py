# SPDX-License-Identifier: Apache-2.0
"""Requests move a server, one at a time, or are refused with a reason."""

import concurrent.futures

import pytest

from stillframe import exceptions
from stillframe.db import transitions
from stillframe.states import servers as states
from tests.unit.db import scenes

pytestmark = pytest.mark.usefixtures('database')


def test_quiesce_moves_the_server_and_begins_an_action():
    scenes.report(scenes.server())
    request_id = scenes.begin('quiesce', timeout=30.0)
    assert scenes.state() == ('active', 'quiescing')
    action, events = scenes.action(request_id)
    assert action['action'] == 'quiesce'
    assert action['finish_time'] is None
    assert [event['event'] for event in events] == [
        'compute_quiesce_server']
    assert events[0]['host'] == scenes.HOST
    assert scenes.freeze(request_id)['timeout'] == 30.0


def test_a_quiesce_without_a_timeout_is_a_mistake_of_the_caller():
    scenes.report(scenes.server())
    with pytest.raises(ValueError, match='timeout'):
        transitions.begin(scenes.ctxt(), scenes.WEB, 'quiesce')
    assert scenes.state() == ('active', None)


def test_a_second_quiesce_is_refused_while_the_first_runs():
    scenes.report(scenes.server())
    scenes.begin('quiesce')
    with pytest.raises(exceptions.WrongState) as caught:
        scenes.begin('quiesce')
    assert "Cannot 'quiesce' instance" in str(caught.value)
    assert 'task_state quiescing' in str(caught.value)


def test_quiesce_of_a_quiesced_server_is_refused():
    scenes.quiesced()
    with pytest.raises(exceptions.WrongState, match='vm_state quiesced'):
        scenes.begin('quiesce')
    with pytest.raises(exceptions.WrongState, match='vm_state quiesced'):
        transitions.check(scenes.WEB, 'quiesce')
    assert transitions.check(scenes.WEB, 'unquiesce')['uuid'] == scenes.WEB


def test_unquiesce_of_an_active_server_is_refused():
    scenes.report(scenes.server())
    with pytest.raises(exceptions.WrongState, match='vm_state active'):
        scenes.begin('unquiesce')


def test_unquiesce_after_the_freeze_ended_says_when_and_why():
    freeze_id = scenes.quiesced()
    scenes.apply('freeze_ended', 'req-system', freeze_id=freeze_id,
                 reason='deadline', ended_at='2026-01-31T10:01:00.5')
    with pytest.raises(exceptions.FreezeEndedEarly) as caught:
        scenes.begin('unquiesce')
    assert '2026-01-31T10:01:00Z (deadline)' in str(caught.value)


def test_unquiesce_after_an_unquiesce_is_refused_plainly():
    freeze_id = scenes.quiesced()
    scenes.apply('unquiesce', scenes.begin('unquiesce'),
                 freeze_id=freeze_id)
    with pytest.raises(exceptions.WrongState) as caught:
        scenes.begin('unquiesce')
    assert not isinstance(caught.value, exceptions.FreezeEndedEarly)


def test_unquiesce_after_a_reset_says_that_the_freeze_was_ended():
    freeze_id = scenes.quiesced()
    who = scenes.ctxt()
    transitions.begin_reset(who, scenes.WEB)
    scenes.apply('reset', who.request_id, freeze_id=freeze_id,
                 state='active', verified_thawed=True)
    assert scenes.state() == ('active', None)
    with pytest.raises(exceptions.FreezeEndedEarly, match='reset'):
        scenes.begin('unquiesce')


@pytest.mark.parametrize('request_name', ['quiesce', 'unquiesce'])
def test_an_unknown_server_is_not_found(request_name):
    with pytest.raises(exceptions.ServerNotFound):
        scenes.begin(request_name)


def test_a_deleted_server_is_not_found():
    scenes.report(scenes.server())
    scenes.report()
    with pytest.raises(exceptions.ServerNotFound):
        scenes.begin('quiesce')
    with pytest.raises(exceptions.ServerNotFound):
        transitions.begin_reset(scenes.ctxt(), scenes.WEB)
    with pytest.raises(exceptions.ServerNotFound):
        transitions.reset_now(scenes.ctxt(), scenes.WEB, 'active', 'x')


def test_of_fifty_racing_requests_one_wins():
    scenes.report(scenes.server())

    def attempt(_number):
        try:
            return scenes.begin('quiesce')
        except exceptions.WrongState as exc:
            return exc

    with concurrent.futures.ThreadPoolExecutor(50) as pool:
        answers = list(pool.map(attempt, range(50)))
    won = [one for one in answers if isinstance(one, str)]
    assert len(won) == 1
    assert all(one.http_status == 409 for one in answers
               if one not in won)
    action, _events = scenes.action(won[0])
    assert action['action'] == 'quiesce'
    assert len(scenes.rows(transitions.actions.models.actions)) == 1


def test_revert_gives_the_server_back_and_ends_the_action():
    scenes.report(scenes.server())
    request_id = scenes.begin('quiesce')
    transitions.revert(scenes.WEB, request_id, 'not sent')
    assert scenes.state() == ('active', None)
    action, events = scenes.action(request_id)
    assert action['message'] == 'not sent'
    assert [event['result'] for event in events] == ['Error']
    assert scenes.freeze(request_id)['end_reason'] == 'not_sent'


def test_revert_of_an_unquiesce_leaves_the_freeze_standing():
    freeze_id = scenes.quiesced()
    transitions.revert(scenes.WEB, scenes.begin('unquiesce'), 'not sent')
    assert scenes.state() == ('quiesced', None)
    assert scenes.freeze(freeze_id)['ended_at'] is None


def lost_with_the_freeze(move):
    """Have a freeze end under a request of which nobody knows any more."""
    freeze_id = scenes.quiesced()
    who = scenes.ctxt()
    move(who)
    scenes.apply('freeze_ended', 'req-system', freeze_id=freeze_id,
                 reason='deadline', verified_thawed=True)
    assert scenes.state() == ('quiesced', 'unquiescing')
    assert transitions.revert(scenes.WEB, who.request_id, 'lost')


@pytest.mark.parametrize('move', [
    pytest.param(lambda who: transitions.begin(who, scenes.WEB, 'unquiesce'),
                 id='unquiesce'),
    pytest.param(lambda who: transitions.begin_reset(who, scenes.WEB),
                 id='reset')])
def test_revert_leaves_nothing_quiesced_by_a_freeze_that_is_over(move):
    lost_with_the_freeze(move)
    assert scenes.state() == ('active', None)


def test_revert_shows_what_became_of_the_guest_meanwhile():
    def move(who):
        transitions.begin(who, scenes.WEB, 'unquiesce')
        scenes.report(scenes.server(power_state=states.POWER_SHUTDOWN))

    lost_with_the_freeze(move)
    assert scenes.state() == ('stopped', None)


def test_revert_of_a_quiesce_shows_that_the_guest_was_paused():
    scenes.report(scenes.server())
    request_id = scenes.begin('quiesce')
    scenes.report(scenes.server(power_state=states.POWER_PAUSED))
    assert transitions.revert(scenes.WEB, request_id, 'not sent')
    assert scenes.state() == ('paused', None)


def test_revert_does_not_touch_what_another_request_holds():
    scenes.report(scenes.server())
    first = scenes.begin('quiesce')
    scenes.apply('quiesce', first, 'cannot', message='no agent')
    second = scenes.begin('quiesce')
    assert not transitions.revert(scenes.WEB, first, 'not sent')
    assert scenes.state() == ('active', 'quiescing')
    assert scenes.action(first)[0]['message'] == 'no agent'
    assert scenes.action(second)[0]['finish_time'] is None


def test_a_reset_takes_the_server_from_what_runs():
    scenes.report(scenes.server())
    request_id = scenes.begin('quiesce')
    who = scenes.ctxt()
    before = transitions.begin_reset(who, scenes.WEB)
    assert before['task_state'] == 'quiescing'
    assert scenes.state() == ('active', 'unquiescing')
    action, events = scenes.action(request_id)
    assert 'an administrator reset' in action['message']
    assert events[0]['result'] == 'Error'
    # What it was doing comes too late.
    assert scenes.apply('quiesce', request_id) == 'stale'
    assert scenes.state() == ('active', 'unquiescing')


def test_reset_in_the_database_alone():
    freeze_id = scenes.quiesced()
    who = scenes.ctxt()
    transitions.reset_now(who, scenes.WEB, 'error', 'worker is down')
    assert scenes.state() == ('error', None)
    action, events = scenes.action(who.request_id)
    assert action['message'] == 'worker is down'
    assert action['finish_time'] is not None
    assert [(one['event'], one['result']) for one in events] == [
        ('api_reset_server', 'Success')]
    assert scenes.freeze(freeze_id)['end_reason'] == 'reset'


def test_reset_that_cannot_be_handed_out_ends_in_the_database():
    scenes.quiesced()
    who = scenes.ctxt()
    transitions.begin_reset(who, scenes.WEB)
    transitions.reset_now(who, scenes.WEB, 'active', 'broker is down')
    assert scenes.state() == ('active', None)
    action, events = scenes.action(who.request_id)
    assert action['message'] == 'broker is down'
    assert events[0]['finish_time'] is not None


def test_the_worker_corrects_when_a_freeze_ended_by_reset():
    freeze_id = scenes.quiesced()
    transitions.reset_now(scenes.ctxt(), scenes.WEB, 'active', 'x')
    scenes.apply('freeze_ended', 'req-system', freeze_id=freeze_id,
                 reason='deadline', ended_at='2026-01-31T10:01:00.5')
    assert scenes.freeze(freeze_id)['end_reason'] == 'deadline'
    assert scenes.action('req-system')[0]['action'] == 'unquiesce'
