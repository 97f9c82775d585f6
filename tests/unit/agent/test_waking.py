# SPDX-License-Identifier: Apache-2.0
"""The one place that a main thread waits in."""

import os
import signal
import threading
import time

import pytest

from stillframe.agent import waking


def test_time_passes():
    with waking.Waker() as waker:
        began = time.monotonic()
        assert waker.wait(0.05)
        assert time.monotonic() - began >= 0.05
        assert waker.wait(-3)


def test_a_call_ends_a_wait_and_does_not_end_the_agent():
    with waking.Waker() as waker:
        waker.wake()
        began = time.monotonic()
        assert waker.wait(60)
        assert time.monotonic() - began < 30


def test_a_thousand_calls_do_no_harm():
    with waking.Waker() as waker:
        for _ in range(100_000):
            waker.wake()
        assert waker.wait(60)


def test_a_signal_is_for_good():
    before = signal.getsignal(signal.SIGTERM)
    with waking.Waker() as waker:
        waker.wake()
        os.kill(os.getpid(), signal.SIGTERM)
        assert not waker.wait(60)
        assert not waker.wait(60)
        assert waker.ending
    assert signal.getsignal(signal.SIGTERM) == before


@pytest.mark.timeout(60)
def test_a_signal_at_any_moment_ends_the_wait():
    for _ in range(300):
        with waking.Waker() as waker:
            sender = threading.Thread(
                target=os.kill, args=(os.getpid(), signal.SIGTERM))
            sender.start()
            while waker.wait():
                pass
            sender.join()


@pytest.mark.timeout(60)
def test_other_signals_end_a_wait_and_not_the_agent():
    before = signal.signal(signal.SIGUSR1, lambda *_: None)
    try:
        with waking.Waker() as waker:
            os.kill(os.getpid(), signal.SIGUSR1)
            assert waker.wait()
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_everything_is_as_before_afterwards():
    before = signal.getsignal(signal.SIGINT)
    opened = len(os.listdir('/proc/self/fd'))
    with waking.Waker():
        assert signal.getsignal(signal.SIGINT) is not before
    assert signal.getsignal(signal.SIGINT) is before
    assert signal.set_wakeup_fd(-1) == -1
    assert len(os.listdir('/proc/self/fd')) == opened
