# SPDX-License-Identifier: Apache-2.0
"""What an action casts to the compute worker, and races between actions."""

import concurrent.futures
import datetime
import threading

from stillframe.db import base
from stillframe.db import models
from stillframe.db import services
from tests.functional import environment
from tests.functional import population
from tests.functional import wsgi

RACERS = 50


def states(api, server):
    """The pair of vm_state and task_state that the API shows."""
    shown = wsgi.call(api.app, 'GET', f'/v2.1/servers/{server}').json()
    return (shown['server']['OS-EXT-STS:vm_state'],
            shown['server']['OS-EXT-STS:task_state'])


def actions(api, server):
    """The actions of a server that the API shows."""
    return wsgi.call(
        api.app, 'GET', f'/v2.1/servers/{server}/os-instance-actions'
    ).json()['instanceActions']


def casts(api, count=1):
    """What the worker got; casts are delivered by a thread of its own."""
    done = threading.Event()
    for _ in range(500):
        if len(api.recorder.casts) >= count:
            break
        done.wait(0.01)
    return api.recorder.casts


def test_quiesce_casts_the_default_timeout(api):
    answer = wsgi.act(api.app, population.WEB, {'quiesce': None})
    assert answer.status == 202
    assert answer.body == b''
    assert casts(api) == [('quiesce_server', population.WEB,
                           {'timeout': 60.0, 'mountpoints': None})]


def test_the_default_timeout_is_never_above_the_ceiling():
    with environment.environment(quiesce__max_timeout=20) as api:
        assert wsgi.act(api.app, population.WEB,
                        {'quiesce': None}).status == 202
        assert casts(api)[0][2]['timeout'] == 20.0


def test_quiesce_casts_what_was_asked_for(api):
    wish = {'timeout': 1.5, 'mountpoints': ['/', '/srv/my data', 'D:\\']}
    assert wsgi.act(api.app, population.WEB,
                    {'quiesce': wish}).status == 202
    assert casts(api) == [('quiesce_server', population.WEB, wish)]


def test_who_calls_by_a_name_that_no_column_holds(api):
    assert wsgi.act(api.app, population.WEB, {'quiesce': None},
                    token='admin:' + 300 * 'p').status == 202
    asked_by = actions(api, population.WEB)[0]['project_id']
    assert asked_by == 252 * 'p' + '...'


def test_longest_timeout(api):
    assert wsgi.act(api.app, population.WEB,
                    {'quiesce': {'timeout': 600}}).status == 202
    assert casts(api)[0][2]['timeout'] == 600.0


def test_unquiesce_names_the_freeze(api):
    assert wsgi.act(api.app, population.APP,
                    {'unquiesce': {}}).status == 202
    assert casts(api) == [
        ('unquiesce_server', population.APP,
         {'freeze_id': population.FREEZE[population.APP]})]


def conductor_dead():
    """Report for a conductor, long ago."""
    services.report('brain', services.CONDUCTOR,
                    '2026-01-01T00:00:00.000000', 1, {})
    with base.writer() as conn:
        conn.execute(
            models.services.update()
            .where(models.services.c.binary == services.CONDUCTOR)
            .values(last_seen=base.utcnow() - datetime.timedelta(hours=1)))


def test_without_a_conductor_a_worker_that_looks_down_may_thaw(api):
    """Nobody could have told that the worker is alive."""
    refused = wsgi.act(api.app, population.FAR_FROZEN, {'unquiesce': None})
    assert refused.status == 409
    assert 'is down' in refused.body.decode()
    conductor_dead()
    # Handed out; that the broker knows of no such worker is another answer.
    tried = wsgi.act(api.app, population.FAR_FROZEN, {'unquiesce': None})
    assert tried.status == 503
    assert 'The compute worker' in tried.body.decode()
    assert states(api, population.FAR_FROZEN) == ('quiesced', None)


def test_without_a_conductor_nothing_new_is_frozen(api):
    conductor_dead()
    refused = wsgi.act(api.app, population.FAR, {'quiesce': None})
    assert refused.status == 503
    assert 'The conductor does not answer' in refused.body.decode()
    assert states(api, population.FAR) == ('active', None)


def test_reset_of_a_frozen_server_casts(api):
    assert wsgi.act(api.app, population.APP,
                    {'os-resetState': {'state': 'error'}}).status == 202
    assert casts(api) == [('reset_server', population.APP,
                           {'state': 'error'})]
    assert states(api, population.APP) == ('quiesced', 'unquiescing')


def test_reset_of_what_cannot_be_frozen_casts_nothing(api):
    assert wsgi.act(api.app, population.OFF,
                    {'os-resetState': {'state': 'active'}}).status == 202
    assert api.recorder.casts == []
    assert states(api, population.OFF) == ('active', None)
    request_id = actions(api, population.OFF)[0]['request_id']
    shown = wsgi.call(
        api.app, 'GET', f'/v2.1/servers/{population.OFF}'
        f'/os-instance-actions/{request_id}').json()['instanceAction']
    event, = shown['events']
    assert (event['event'], event['result']) == ('api_reset_server',
                                                 'Success')
    assert event['finish_time'] is not None


def test_reset_while_a_request_runs_takes_it_over(api):
    first = wsgi.act(api.app, population.WEB, {'quiesce': None})
    assert wsgi.act(api.app, population.WEB,
                    {'os-resetState': {'state': 'active'}}).status == 202
    assert states(api, population.WEB) == ('active', 'unquiescing')
    reset, quiesce = actions(api, population.WEB)
    assert reset['action'] == 'resetState'
    assert quiesce['request_id'] == first.headers['x-compute-request-id']
    assert 'Given up' in quiesce['message']


def test_the_request_id_of_the_answer_is_the_actions(api):
    answer = wsgi.act(api.app, population.WEB, {'quiesce': None})
    request_id = answer.headers['x-compute-request-id']
    assert answer.headers['x-openstack-request-id'] == request_id
    assert actions(api, population.WEB)[0]['request_id'] == request_id


def test_a_refused_action_leaves_no_record(api):
    assert wsgi.act(api.app, population.FAR,
                    {'quiesce': None}).status == 409
    assert actions(api, population.FAR) == []


def test_largest_body_that_is_taken(api):
    answer = wsgi.call(
        api.app, 'POST', f'/v2.1/servers/{population.WEB}/action',
        b'{"quiesce": null}'.ljust(65536))
    assert answer.status == 202


def race(api, bodies):
    """Send actions to one server at the same moment."""
    barrier = threading.Barrier(len(bodies))

    def send(body):
        barrier.wait(30)
        return wsgi.act(api.app, population.WEB, body)

    with concurrent.futures.ThreadPoolExecutor(len(bodies)) as pool:
        return list(pool.map(send, bodies))


def test_of_racing_requests_one_wins(api):
    answers = race(api, [{'quiesce': None}] * RACERS)
    statuses = sorted(answer.status for answer in answers)
    assert statuses == [202] + [409] * (RACERS - 1)
    for answer in answers:
        if answer.status == 409:
            assert 'while it is in task_state quiescing' in answer.message
    assert len(casts(api)) == 1
    assert len(actions(api, population.WEB)) == 1


def test_racing_resets_all_win(api):
    answers = race(api, [{'os-resetState': {'state': 'active'}},
                         {'quiesce': None}] * 4)
    assert {answer.status for answer in answers} <= {202, 409}
    assert all(answers[one].status == 202 for one in range(0, 8, 2))
    assert states(api, population.WEB)[0] == 'active'


def test_internal_errors_do_not_say_what_happened(api):
    with base.writer() as conn:
        conn.exec_driver_sql('DROP TABLE volumes')
    answer = wsgi.call(api.app, 'GET', f'/v2.1/servers/{population.WEB}')
    assert answer.status == 500
    assert answer.json()['computeFault']['code'] == 500
    assert b'volumes' not in answer.body
    assert answer.headers['x-compute-request-id'].startswith('req-')
