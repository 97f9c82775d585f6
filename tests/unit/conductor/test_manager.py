# SPDX-License-Identifier: Apache-2.0
"""The conductor's answers to reports."""

import pytest

from stillframe import exceptions
from stillframe.conductor import manager
from stillframe.db import services
from tests.unit.db import scenes

pytestmark = pytest.mark.usefixtures('database')


@pytest.fixture
def conductor():
    return manager.ConductorManager()


def alive(conductor, digest, count=1):
    return conductor.report_service(
        scenes.ctxt(), 'h', services.COMPUTE, '2026-01-31T10:00:00', count,
        {'libvirt': '9.0'}, digest)


def test_a_worker_is_asked_for_all_it_has_until_it_told(conductor):
    assert alive(conductor, 'abc') == {'resync': True}
    assert conductor.report_servers(
        scenes.ctxt(), 'h', [scenes.server()], [], True, 'abc') == {
            'quiesced': {}}
    assert alive(conductor, 'abc', 2) == {'resync': False}
    assert alive(conductor, 'abd', 3) == {'resync': True}
    assert services.get('h', services.COMPUTE)['report_count'] == 3


def test_the_quiesced_are_named(conductor):
    freeze_id = scenes.quiesced()
    assert conductor.report_servers(
        scenes.ctxt(), scenes.HOST, [scenes.server()], [], True, 'd') == {
            'quiesced': {scenes.WEB: freeze_id}}


def test_verdicts_come_in_the_order_of_the_outcomes(conductor):
    scenes.report(scenes.server())
    request_id = scenes.begin('quiesce')
    froze = scenes.outcome('quiesce', request_id)
    ended = scenes.outcome('freeze_ended', 'req-system',
                           freeze_id=request_id, reason='deadline')
    nobody = scenes.outcome('quiesce', 'req-1', server_id='nobody')
    assert conductor.report_outcomes(
        scenes.ctxt(), scenes.HOST, [froze, ended, nobody, froze]) == [
            {'id': froze['id'], 'verdict': 'applied'},
            {'id': ended['id'], 'verdict': 'applied'},
            {'id': nobody['id'], 'verdict': 'unknown'},
            {'id': froze['id'], 'verdict': 'duplicate'}]
    assert scenes.state() == ('active', None)


@pytest.mark.parametrize('change', [
    {'kind': 'melt'}, {'result': 'maybe'}, {'server_id': 7},
    {'message': None}, {'filesystems': {}}])
def test_a_malformed_outcome_does_not_hold_up_the_next(conductor, change):
    scenes.report(scenes.server())
    request_id = scenes.begin('quiesce')
    good = scenes.outcome('quiesce', request_id)
    bad = {**scenes.outcome('quiesce', request_id), **change}
    assert conductor.report_outcomes(
        scenes.ctxt(), scenes.HOST, [bad, good])[1] == {
            'id': good['id'], 'verdict': 'applied'}
    assert scenes.state() == ('quiesced', None)


def test_an_outcome_without_what_it_must_have(conductor):
    scenes.report(scenes.server())
    bad = scenes.outcome('quiesce', scenes.begin('quiesce'))
    del bad['result']
    assert conductor.report_outcomes(scenes.ctxt(), scenes.HOST, [bad]) == [
        {'id': bad['id'], 'verdict': 'unknown'}]


def test_no_error_of_python_itself_goes_out(conductor):
    # One would be raised again in the worker's own threads.
    with pytest.raises(exceptions.StillframeError, match='KeyError'):
        conductor.report_servers(scenes.ctxt(), 'h', [{}], [], True, 'd')
    with pytest.raises(exceptions.StillframeError, match='TypeError'):
        conductor.report_outcomes(scenes.ctxt(), 'h', None)
