# SPDX-License-Identifier: Apache-2.0
"""Timers on the boot-time clock."""

import queue

import pytest

from stillframe.compute import clock
from stillframe.compute import scheduler


@pytest.fixture
def timers():
    running = scheduler.Scheduler()
    running.start()
    yield running
    running.stop()


def test_in_the_order_of_their_moments(timers):
    done = queue.SimpleQueue()
    now = clock.now()
    for delay in (0.09, 0.03, 0.06):
        timers.at(now + delay, (delay,),
                  lambda delay=delay: done.put((delay, clock.now())))
    got = [done.get(timeout=5) for _ in range(3)]
    assert [delay for delay, _ in got] == [0.03, 0.06, 0.09]
    assert all(moment >= now + delay for delay, moment in got)


def test_a_past_moment_comes_at_once(timers):
    done = queue.SimpleQueue()
    timers.at(clock.now() - 100, ('x',), lambda: done.put(1))
    assert done.get(timeout=5) == 1


def test_replaced_and_cancelled(timers):
    done = queue.SimpleQueue()
    timers.after(0.02, ('a',), lambda: done.put('old'))
    timers.after(0.05, ('a',), lambda: done.put('new'))
    timers.after(0.02, ('b',), lambda: done.put('cancelled'))
    timers.cancel(('b',))
    assert done.get(timeout=5) == 'new'
    with pytest.raises(queue.Empty):
        done.get(timeout=0.1)


def test_a_failing_timer_does_not_stop_the_rest(timers):
    done = queue.SimpleQueue()

    def fail():
        raise RuntimeError('cannot schedule new futures after shutdown')

    timers.after(0.01, ('a',), fail)
    timers.after(0.02, ('b',), lambda: done.put('b'))
    assert done.get(timeout=5) == 'b'


def test_alarms_hand_their_work_over(timers):
    done = queue.SimpleQueue()
    alarms = scheduler.Alarms(timers, lambda *what: done.put(what))
    alarms.set('check', 'one', clock.now(), print, 'freeze')
    assert done.get(timeout=5) == (print, 'one', 'freeze')
    alarms.set('retry', 'one', clock.now() + 0.02, print)
    alarms.clear('one')
    with pytest.raises(queue.Empty):
        done.get(timeout=0.1)
