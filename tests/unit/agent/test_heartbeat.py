# SPDX-License-Identifier: Apache-2.0
"""When heartbeats are sent, by a clock that the test winds."""

import os
import random
import signal
import threading

import pytest

from stillframe.agent import api
from stillframe.agent import heartbeat
from stillframe.agent import waking


class Bench:
    """A heartbeat whose time and whose API are the test's."""

    def __init__(self, waker, timeout=300.0):
        self.time = 1000.0
        self.sent = []
        self.trouble = None
        self.busy = False
        self.after = lambda: None
        self.beats = heartbeat.Heartbeat(
            self.send, timeout, waker, lambda: self.busy,
            lambda: self.time)

    def send(self):
        self.sent.append(self.time)
        self.after()
        if self.trouble:
            raise self.trouble


@pytest.fixture
def waker():
    with waking.Waker() as one:
        yield one


@pytest.fixture
def bench(waker):
    return Bench(waker)


def test_pauses_are_parts_of_the_timeout(bench):
    pauses = set()
    for _ in range(200):
        bench.beats.beat()
        pauses.add(bench.beats.due_in())
    assert len(pauses) > 100
    assert 90 <= min(pauses) < 100
    assert 170 < max(pauses) <= 180


def test_a_forced_one_comes_soon_and_once(bench):
    bench.beats.beat()
    bench.beats.force()
    assert bench.beats.due_in() == 5.0
    bench.time += 4
    assert bench.beats.due_in() == 1.0
    bench.time += 40
    assert bench.beats.due_in() == 0.0
    bench.beats.beat()
    assert bench.beats.due_in() >= 90


def test_forced_while_one_is_on_its_way(bench):
    bench.after = bench.beats.force
    bench.beats.beat()
    assert bench.beats.due_in() == 5.0


@pytest.mark.parametrize('trouble', [
    api.Unreachable('gone'), api.Refused(409, 'locked'),
    api.Refused(400, 'wrong')])
def test_a_failed_one_is_sent_again_after_a_random_pause(bench, trouble):
    bench.trouble = trouble
    pauses = set()
    for _ in range(50):
        bench.beats.beat()
        pauses.add(bench.beats.due_in())
    assert len(pauses) > 25
    assert min(pauses) >= 5
    assert max(pauses) <= 10


def test_an_api_that_never_listens(bench):
    bench.trouble = api.Refused(400, 'Agent token is wrong.')
    bench.time += 3599
    bench.beats.beat()
    bench.time += 2
    bench.busy = True
    bench.beats.beat()
    bench.busy = False
    with pytest.raises(heartbeat.Unheard, match=r'3601 s.*token is wrong'):
        bench.beats.beat()


def test_one_that_listens_now_and_then(bench):
    for _ in range(5):
        bench.time += 3000
        bench.trouble = api.Unreachable('gone')
        bench.beats.beat()
        bench.trouble = None
        bench.beats.beat()
    assert len(bench.sent) == 10


def test_a_long_timeout_is_waited_for(waker):
    bench = Bench(waker, timeout=7200.0)
    bench.trouble = api.Unreachable('gone')
    bench.time += 4 * 7200
    bench.beats.beat()
    bench.time += 1
    with pytest.raises(heartbeat.Unheard):
        bench.beats.beat()


def test_a_signal_ends_it(bench):
    sent = threading.Event()
    bench.after = sent.set

    def end():
        sent.wait(60)
        os.kill(os.getpid(), signal.SIGTERM)

    other = threading.Thread(target=end)
    other.start()
    bench.beats.run()
    other.join(60)
    assert len(bench.sent) == 1


def test_forcing_ends_a_wait(waker, monkeypatch):
    monkeypatch.setattr(random, 'uniform', lambda low, high: high)
    bench = Bench(waker)
    first, second = threading.Event(), threading.Event()

    def sent():
        if first.is_set():
            second.set()
        first.set()
    bench.after = sent

    def force():
        first.wait(60)
        # Time has passed since, so the forced one is due at once.
        bench.time += 6
        bench.beats.force()
        second.wait(60)
        os.kill(os.getpid(), signal.SIGINT)

    other = threading.Thread(target=force)
    other.start()
    bench.beats.run()
    other.join(60)
    assert bench.sent == [1000.0, 1006.0]
