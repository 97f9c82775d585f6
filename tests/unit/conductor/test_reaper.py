# SPDX-License-Identifier: Apache-2.0
"""The reaper counts by a clock of its own, and only while it looks."""

import datetime

import pytest
import sqlalchemy as sa

from stillframe.conductor import reaper
from stillframe.conf import CONF
from stillframe.db import base
from stillframe.db import models
from tests.unit.db import scenes

pytestmark = pytest.mark.usefixtures('database')


class Clock:
    """A monotonic clock that the test moves."""

    def __init__(self):
        self.now = 5000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def one(clock):
    """A reaper."""
    return reaper.Reaper(CONF, clock)


def look(one, clock, seconds):
    """Let time pass with a look each interval."""
    interval = CONF.conductor.reap_interval
    for _ in range(round(seconds / interval)):
        clock.now += interval
        one.look()


def quiescing():
    scenes.report(scenes.server())
    return scenes.begin('quiesce')


def test_a_request_that_never_ends_is_given_up(one, clock):
    request_id = quiescing()
    one.look()
    look(one, clock, CONF.conductor.transition_timeout - 5)
    assert scenes.state() == ('active', 'quiescing')
    look(one, clock, 5)
    assert scenes.state() == ('error', None)
    action, events = scenes.action(request_id)
    # Any user of the server may read it: no name of a host.
    assert ('the compute worker of the server did not report within 180 s'
            in action['message'])
    assert 'here' not in action['message']
    assert events[0]['result'] == 'Error'
    assert scenes.fault_messages() == [action['message']]


def test_each_request_has_its_own_time(one, clock):
    first = quiescing()
    one.look()
    look(one, clock, 100)
    scenes.apply('quiesce', first, 'cannot')
    scenes.begin('quiesce')
    look(one, clock, 150)
    assert scenes.state() == ('active', 'quiescing')
    look(one, clock, 100)
    assert scenes.state() == ('error', None)


def test_an_unquiesce_that_never_ends_is_given_up(one, clock):
    freeze_id = scenes.quiesced()
    scenes.begin('unquiesce')
    one.look()
    # Its deadline is over before that, but the request holds the server.
    look(one, clock, CONF.conductor.transition_timeout - 5)
    assert scenes.state() == ('quiesced', 'unquiescing')
    look(one, clock, 5)
    assert scenes.state() == ('error', None)
    assert scenes.freeze(freeze_id)['ended_at'] is None


def test_a_freeze_whose_end_nobody_reports(one, clock):
    freeze_id = scenes.quiesced()
    one.look()
    # The timeout of 60 s and the grace of 15 s.
    look(one, clock, 70)
    assert scenes.state() == ('quiesced', None)
    look(one, clock, 5)
    assert scenes.state() == ('active', None)
    assert scenes.freeze(freeze_id)['end_reason'] == 'unreported'
    action = scenes.rows(models.actions)[-1]
    assert action['action'] == 'unquiesce'
    assert 'deadline of 60 s has passed' in action['message']


def test_trying_to_unquiesce_does_not_prolong_a_freeze(one, clock):
    freeze_id = scenes.quiesced()
    one.look()
    for _ in range(7):
        request_id = scenes.begin('unquiesce')
        look(one, clock, 10)
        scenes.apply('unquiesce', request_id, 'cannot',
                     freeze_id=freeze_id)
    assert scenes.state() == ('quiesced', None)
    look(one, clock, 5)
    assert scenes.state() == ('active', None)


def aged(seconds):
    """Have the request that holds the server begun so long ago."""
    with base.writer() as conn:
        conn.execute(sa.update(models.servers).values(
            task_started_at=base.utcnow()
            - datetime.timedelta(seconds=seconds)))


def test_a_new_conductor_goes_on_counting(clock):
    quiescing()
    aged(100)
    new = reaper.Reaper(CONF, clock)
    new.look()
    look(new, clock, 75)
    assert scenes.state() == ('active', 'quiescing')
    look(new, clock, 10)
    assert scenes.state() == ('error', None)


def test_a_new_conductor_waits_for_what_workers_kept(clock):
    quiescing()
    aged(3600)
    new = reaper.Reaper(CONF, clock)
    new.look()
    # Work takes 60 s at the most.
    look(new, clock, 70)
    assert scenes.state() == ('active', 'quiescing')
    look(new, clock, 5)
    assert scenes.state() == ('error', None)


@pytest.mark.parametrize('wrong_by', [3600, -3600])
def test_no_wrong_clock_cuts_work_that_takes_its_time(clock, wrong_by):
    settings = [('freeze_call_timeout', 150.0, 'compute'),
                ('settle_timeout', 40.0, 'compute'),
                ('transition_timeout', 220.0, 'conductor')]
    for setting in settings:
        CONF.set_override(*setting)
    try:
        request_id = quiescing()
        aged(wrong_by)
        new = reaper.Reaper(CONF, clock)
        new.look()
        look(new, clock, 190)
        scenes.apply('quiesce', request_id)
        assert scenes.state() == ('quiesced', None)
    finally:
        for name, _value, group in settings:
            CONF.clear_override(name, group)


@pytest.mark.parametrize(('age', 'limit', 'work', 'counted'), [
    (30, 180, 0, 30),
    (500, 180, 0, 120),
    (500, 180, 100, 65),
    (500, 50, 0, 0),
    (-500, 180, 0, 0)])
def test_how_much_a_first_look_counts(age, limit, work, counted):
    moment = base.utcnow() - datetime.timedelta(seconds=age)
    assert reaper.before(moment, limit, work) == pytest.approx(
        counted, abs=1)


def test_the_wall_clock_counts_at_the_first_look_alone(one, clock):
    one.look()
    quiescing()
    aged(3600)
    one.look()
    look(one, clock, 175)
    assert scenes.state() == ('active', 'quiescing')
    aged(-3600)
    new = reaper.Reaper(CONF, clock)
    new.look()
    look(new, clock, 175)
    assert scenes.state() == ('active', 'quiescing')
    look(new, clock, 5)
    assert scenes.state() == ('error', None)


def test_two_conductors_do_it_once(one, clock):
    scenes.quiesced()
    other = reaper.Reaper(CONF, clock)
    one.look()
    other.look()
    for _ in range(20):
        clock.now += 5
        one.look()
        other.look()
    assert scenes.state() == ('active', None)
    assert len(scenes.rows(models.actions)) == 2


def test_time_in_which_nobody_looked_does_not_count(one, clock):
    request_id = quiescing()
    one.look()
    look(one, clock, 100)
    # The process was suspended for an hour; reports wait for it.
    clock.now += 3600
    one.look()
    assert scenes.state() == ('active', 'quiescing')
    look(one, clock, 60)
    scenes.apply('quiesce', request_id, 'cannot')
    assert scenes.state() == ('active', None)


def test_an_outage_of_the_database_does_not_count(one, clock, tmp_path):
    quiescing()
    one.look()
    look(one, clock, 100)
    url = CONF.database.connection
    base.dispose()
    base.configure(CONF)
    CONF.set_override('connection', f'sqlite:///{tmp_path}/no/such',
                      'database')
    look(one, clock, 200)
    base.dispose()
    base.configure(CONF)
    CONF.set_override('connection', url, 'database')
    one.look()
    assert scenes.state() == ('active', 'quiescing')
    look(one, clock, 75)
    assert scenes.state() == ('active', 'quiescing')
    look(one, clock, 10)
    assert scenes.state() == ('error', None)
