# SPDX-License-Identifier: Apache-2.0
"""What workers report is applied once, in any order, as far as it holds."""

import concurrent.futures
import datetime

import pytest

from stillframe.db import models
from stillframe.db import outcomes
from stillframe.db import reaping
from stillframe.db import servers
from stillframe.db import transitions
from stillframe.states import servers as states
from tests.unit.db import scenes

pytestmark = pytest.mark.usefixtures('database')


def test_a_successful_quiesce():
    scenes.report(scenes.server())
    request_id = scenes.begin('quiesce')
    assert scenes.apply('quiesce', request_id) == 'applied'
    assert scenes.state() == ('quiesced', None)
    row = servers.get(scenes.WEB)
    assert row['freeze_id'] == request_id
    assert row['task_request_id'] is None
    freeze = scenes.freeze(request_id)
    assert freeze['filesystems'] == 2
    assert freeze['frozen_at'] == datetime.datetime(
        2026, 1, 31, 10, 0, 0, 500000)
    assert freeze['ended_at'] is None
    action, events = scenes.action(request_id)
    assert action['finish_time'] == datetime.datetime(
        2026, 1, 31, 10, 0, 1, 1)
    assert events[0]['result'] == 'Success'
    assert events[0]['details'] == (
        '2 file systems frozen; freeze call 0.250 s; '
        'automatic thaw after 60 s')


@pytest.mark.parametrize(('kind', 'result', 'vm_state'), [
    (kind, result, states.after(kind, result))
    for kind in states.TRANSITIONS for result in states.Result])
def test_every_result_ends_the_request(kind, result, vm_state):
    if kind == 'unquiesce':
        freeze_id = scenes.quiesced()
        request_id = scenes.begin('unquiesce')
    else:
        scenes.report(scenes.server())
        freeze_id = request_id = scenes.begin('quiesce')
    told = scenes.outcome(kind, request_id, result.value)
    told.update(freeze_id=freeze_id, reason='why',
                verified_thawed=result is not states.Result.CANNOT)
    if vm_state == states.QUIESCED:
        told['verified_thawed'] = None
    assert outcomes.apply(scenes.HOST, told) == 'applied'
    assert scenes.state() == (vm_state, None)
    action, events = scenes.action(request_id)
    assert action['message'] == f'{kind} {result.value}'
    assert events[0]['result'] == (
        'Success' if result is states.Result.SUCCESS else 'Error')
    over = vm_state != states.QUIESCED
    assert (scenes.freeze(freeze_id)['ended_at'] is not None) is over
    assert (scenes.fault_messages() == []) is (
        result is not states.Result.FAILED)
    # Once more, it changes nothing.
    before = servers.get(scenes.WEB)
    assert outcomes.apply(scenes.HOST, told) == 'duplicate'
    assert servers.get(scenes.WEB) == before
    assert scenes.action(request_id) == (action, events)
    assert len(scenes.rows(models.actions)) == (
        2 if kind == 'unquiesce' else 1)


def test_active_means_what_the_power_says():
    scenes.report(scenes.server())
    request_id = scenes.begin('quiesce')
    scenes.report(scenes.server(power_state=states.POWER_PAUSED))
    assert scenes.state() == ('active', 'quiescing')
    scenes.apply('quiesce', request_id, 'cannot')
    assert scenes.state() == ('paused', None)


def test_a_late_freeze_is_stale_each_time_it_is_told():
    scenes.report(scenes.server())
    request_id = scenes.begin('quiesce')
    assert reaping.give_up(scenes.WEB, request_id, scenes.HOST, 'given up')
    told = scenes.outcome('quiesce', request_id)
    assert outcomes.apply(scenes.HOST, told) == 'stale'
    assert outcomes.apply(scenes.HOST, told) == 'stale'
    assert scenes.state() == ('error', None)
    assert scenes.action(request_id)[0]['message'] == 'given up'
    # The worker thaws it and says so.
    assert scenes.apply('freeze_ended', 'req-thaw', freeze_id=request_id,
                        reason='stale', verified_thawed=True) == 'applied'
    assert scenes.state() == ('error', None)
    assert scenes.freeze(request_id)['end_reason'] == 'stale'


def test_a_late_thaw_ends_the_freeze_but_not_the_error():
    freeze_id = scenes.quiesced()
    request_id = scenes.begin('unquiesce')
    reaping.give_up(scenes.WEB, request_id, scenes.HOST, 'given up')
    assert scenes.freeze(freeze_id)['ended_at'] is None
    scenes.apply('unquiesce', request_id, freeze_id=freeze_id)
    assert scenes.state() == ('error', None)
    assert scenes.freeze(freeze_id)['ended_at'] is not None


def test_an_unquiesce_that_was_taken_back_but_arrived_is_believed():
    freeze_id = scenes.quiesced()
    request_id = scenes.begin('unquiesce')
    transitions.revert(scenes.WEB, request_id, 'not sent')
    assert scenes.state() == ('quiesced', None)
    scenes.apply('unquiesce', request_id, freeze_id=freeze_id)
    assert scenes.state() == ('active', None)


@pytest.mark.parametrize(('result', 'vm_state'), [
    ('success', 'active'), ('lost', 'active'), ('failed', 'error')])
def test_a_freeze_that_ended_by_itself(result, vm_state):
    freeze_id = scenes.quiesced()
    told = scenes.outcome('freeze_ended', 'req-system', result,
                          freeze_id=freeze_id, reason='deadline',
                          verified_thawed=result != 'failed')
    assert outcomes.apply(scenes.HOST, told) == 'applied'
    assert scenes.state() == (vm_state, None)
    action, events = scenes.action('req-system')
    assert action['action'] == 'unquiesce'
    assert action['user_id'] is None
    assert action['finish_time'] is not None
    assert len(events) == 1
    assert outcomes.apply(scenes.HOST, told) == 'duplicate'
    assert len(scenes.rows(models.actions)) == 2


def test_the_end_is_recorded_once_whoever_asks_again():
    freeze_id = scenes.quiesced()
    scenes.apply('unquiesce', scenes.begin('unquiesce'),
                 freeze_id=freeze_id)
    # The worker was asked about a freeze that it had ended just then.
    assert scenes.apply('freeze_ended', 'req-system', 'lost',
                        freeze_id=freeze_id, reason='lost') == 'duplicate'
    assert len(scenes.rows(models.actions)) == 2


def test_the_end_told_before_the_beginning():
    scenes.report(scenes.server())
    request_id = scenes.begin('quiesce')
    scenes.apply('freeze_ended', 'req-system', freeze_id=request_id,
                 reason='deadline')
    assert scenes.state() == ('active', 'quiescing')
    assert scenes.apply('quiesce', request_id) == 'applied'
    assert scenes.state() == ('active', None)
    action, events = scenes.action(request_id)
    assert events[0]['result'] == 'Error'
    assert 'has ended since (deadline)' in action['message']


def test_the_freeze_ended_while_the_unquiesce_was_refused():
    freeze_id = scenes.quiesced()
    request_id = scenes.begin('unquiesce')
    scenes.apply('freeze_ended', 'req-system', freeze_id=freeze_id,
                 reason='deadline')
    assert scenes.state() == ('quiesced', 'unquiescing')
    scenes.apply('unquiesce', request_id, 'cannot', freeze_id=freeze_id)
    assert scenes.state() == ('active', None)


def test_the_end_of_an_older_freeze_leaves_the_newer_standing():
    old = scenes.quiesced()
    transitions.reset_now(scenes.ctxt(), scenes.WEB, 'active', 'x')
    new = scenes.begin('quiesce')
    scenes.apply('quiesce', new)
    scenes.apply('freeze_ended', 'req-system', freeze_id=old,
                 reason='deadline')
    assert scenes.state() == ('quiesced', None)
    assert scenes.freeze(new)['ended_at'] is None


def test_a_server_that_moved_did_not_stop():
    freeze_id = scenes.quiesced()
    scenes.report(scenes.server(), host='there')
    assert scenes.apply('freeze_ended', 'req-old', freeze_id=freeze_id,
                        reason='stopped') == 'applied'
    assert scenes.state() == ('quiesced', None)
    scenes.apply('freeze_ended', 'req-new', freeze_id=freeze_id,
                 reason='deadline', host='there')
    assert scenes.state() == ('active', None)


def test_a_thaw_that_came_after_all():
    scenes.report(scenes.server())
    request_id = scenes.begin('quiesce')
    scenes.apply('quiesce', request_id, 'failed', verified_thawed=False)
    assert scenes.freeze(request_id)['ended_at'] is None
    scenes.apply('thawed', 'req-system', freeze_id=request_id,
                 reason='agent', verified_thawed=True)
    assert scenes.state() == ('error', None)
    assert scenes.freeze(request_id)['end_reason'] == 'agent'


@pytest.mark.parametrize('verified', [True, False])
def test_reset_ends_in_the_wished_state(verified):
    freeze_id = scenes.quiesced()
    who = scenes.ctxt()
    transitions.begin_reset(who, scenes.WEB)
    told = scenes.outcome('reset', who.request_id, freeze_id=None,
                          verified_thawed=verified, state='error')
    assert outcomes.apply(scenes.HOST, told) == 'applied'
    assert scenes.state() == ('error', None)
    assert (scenes.freeze(freeze_id)['ended_at'] is not None) is verified
    assert outcomes.apply(scenes.HOST, told) == 'duplicate'


def test_the_second_of_two_resets_wins():
    scenes.quiesced()
    first, second = scenes.ctxt(), scenes.ctxt()
    transitions.begin_reset(first, scenes.WEB)
    transitions.begin_reset(second, scenes.WEB)
    scenes.apply('reset', first.request_id, state='active',
                 verified_thawed=True)
    assert scenes.state() == ('quiesced', 'unquiescing')
    scenes.apply('reset', second.request_id, state='error',
                 verified_thawed=True)
    assert scenes.state() == ('error', None)


def test_an_outcome_of_an_unknown_server():
    assert scenes.apply('quiesce', 'req-1') == 'unknown'


@pytest.mark.parametrize('change', [
    {'kind': 'melt'}, {'result': 'maybe'}])
def test_a_malformed_outcome_changes_nothing(change):
    scenes.report(scenes.server())
    request_id = scenes.begin('quiesce')
    with pytest.raises(ValueError, match='melt|maybe'):
        outcomes.apply(scenes.HOST, {
            **scenes.outcome('quiesce', request_id), **change})
    assert scenes.state() == ('active', 'quiescing')


def test_texts_that_are_too_long_are_cut():
    scenes.report(scenes.server())
    request_id = scenes.begin('quiesce')
    scenes.apply('quiesce', request_id, 'failed', message='m' * 70000,
                 detail='d' * 70000, reason='r' * 100, verified_thawed=True)
    assert scenes.state() == ('error', None)
    assert scenes.fault_messages() == ['m' * 252 + '...']
    assert scenes.freeze(request_id)['end_reason'] == 'r' * 61 + '...'


def test_one_outcome_told_to_many_conductors_at_once():
    freeze_id = scenes.quiesced()
    told = scenes.outcome('freeze_ended', 'req-system',
                          freeze_id=freeze_id, reason='deadline')
    with concurrent.futures.ThreadPoolExecutor(10) as pool:
        verdicts = list(pool.map(
            lambda _: outcomes.apply(scenes.HOST, told), range(10)))
    assert sorted(verdicts) == ['applied'] + 9 * ['duplicate']
    assert scenes.state() == ('active', None)


@pytest.mark.parametrize(('text', 'expected'), [
    (None, None), ('nonsense', None),
    ('2026-01-31T23:59:59.000001',
     datetime.datetime(2026, 1, 31, 23, 59, 59, 1)),
    ('2026-01-31T23:59:59', datetime.datetime(2026, 1, 31, 23, 59, 59))])
def test_times_are_read_leniently(text, expected):
    assert outcomes.when(text) == expected


@pytest.mark.parametrize(('result', 'verified', 'vm_state'), [
    ('failed', True, 'error'), ('failed', False, 'error'),
    ('lost', True, 'active'), ('cannot', None, 'quiesced')])
def test_a_worker_that_was_killed_tells_a_second_end_of_a_quiesce(
        result, verified, vm_state):
    freeze_id = scenes.quiesced()
    scenes.apply('quiesce', freeze_id, result, verified_thawed=verified)
    assert scenes.state() == (vm_state, None)
    assert (scenes.freeze(freeze_id)['ended_at'] is not None) is bool(
        verified)
