# SPDX-License-Identifier: Apache-2.0
"""Giving up is a compare-and-swap: a report at the same moment may win."""

import pytest

from stillframe.db import base
from stillframe.db import reaping
from tests.unit.db import scenes

pytestmark = pytest.mark.usefixtures('database')


def test_servers_in_transition():
    scenes.report(scenes.server())
    assert list(reaping.in_transition()) == []
    request_id = scenes.begin('quiesce')
    row, = reaping.in_transition()
    assert dict(row, task_started_at=None) == {
        'uuid': scenes.WEB, 'host': scenes.HOST,
        'task_request_id': request_id, 'task_action': 'quiesce',
        'task_started_at': None}
    assert row['task_started_at'] <= base.utcnow()


def test_giving_up_a_request():
    scenes.report(scenes.server())
    request_id = scenes.begin('quiesce')
    assert reaping.give_up(scenes.WEB, request_id, scenes.HOST, 'silent')
    assert scenes.state() == ('error', None)
    action, events = scenes.action(request_id)
    assert action['message'] == 'silent'
    assert events[0]['result'] == 'Error'
    assert scenes.fault_messages() == ['silent']
    assert scenes.freeze(request_id)['end_reason'] == 'unreported'
    # Another conductor does the same.
    assert not reaping.give_up(scenes.WEB, request_id, scenes.HOST, 'x')
    assert scenes.fault_messages() == ['silent']


def test_giving_up_a_request_that_ended():
    scenes.report(scenes.server())
    request_id = scenes.begin('quiesce')
    scenes.apply('quiesce', request_id)
    assert not reaping.give_up(scenes.WEB, request_id, scenes.HOST, 'x')
    assert scenes.state() == ('quiesced', None)


def test_standing_freezes():
    freeze_id = scenes.quiesced()
    assert [dict(row) for row in reaping.standing_freezes()] == [{
        'uuid': scenes.WEB, 'host': scenes.HOST, 'freeze_id': freeze_id,
        'timeout': 60.0}]
    request_id = scenes.begin('unquiesce')
    assert len(reaping.standing_freezes()) == 1
    scenes.apply('unquiesce', request_id, freeze_id=freeze_id)
    assert list(reaping.standing_freezes()) == []


def test_ending_a_freeze_that_nobody_reports_on():
    freeze_id = scenes.quiesced()
    assert reaping.end_unreported(scenes.WEB, freeze_id, 'req-1', 'over')
    assert scenes.state() == ('active', None)
    assert scenes.freeze(freeze_id)['end_reason'] == 'unreported'
    action, events = scenes.action('req-1')
    assert (action['action'], action['message']) == ('unquiesce', 'over')
    assert events[0]['result'] == 'Error'
    assert not reaping.end_unreported(scenes.WEB, freeze_id, 'req-2', 'x')


def test_a_freeze_is_not_ended_under_an_unquiesce():
    freeze_id = scenes.quiesced()
    scenes.begin('unquiesce')
    assert not reaping.end_unreported(scenes.WEB, freeze_id, 'req-1', 'x')
    assert scenes.state() == ('quiesced', 'unquiescing')


def test_the_worker_tells_later_how_it_really_ended():
    freeze_id = scenes.quiesced()
    reaping.end_unreported(scenes.WEB, freeze_id, 'req-1', 'over')
    assert scenes.apply('freeze_ended', 'req-2', freeze_id=freeze_id,
                        reason='deadline') == 'applied'
    assert scenes.freeze(freeze_id)['end_reason'] == 'deadline'
    assert scenes.state() == ('active', None)
