# SPDX-License-Identifier: Apache-2.0
"""A process starts its services in order and stops them in reverse."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from stillframe import exceptions
from stillframe import service


class Part:
    """A service that writes down what happens to it."""

    def __init__(self, name, diary, start=None, stop=None):
        self.name = name
        self._diary = diary
        self._start = start
        self._stop = stop

    def start(self):
        if self._start is not None:
            self._start()
        self._diary.append(f'{self.name} starts')

    def stop(self):
        self._diary.append(f'{self.name} stops')
        if self._stop is not None:
            self._stop()


@pytest.fixture
def diary():
    return []


def interrupt(number=signal.SIGTERM):
    os.kill(os.getpid(), number)


def fail(exc):
    raise exc


@pytest.mark.parametrize('number', [signal.SIGTERM, signal.SIGINT])
def test_in_order_and_in_reverse(diary, number):
    parts = [Part(name, diary) for name in 'abc']
    assert service.run(
        parts, started=lambda services: interrupt(number)) == 0
    assert diary == ['a starts', 'b starts', 'c starts',
                     'c stops', 'b stops', 'a stops']


def test_handlers_of_signals_are_put_back(diary):
    before = signal.getsignal(signal.SIGTERM)
    service.run([Part('a', diary)], started=lambda _: interrupt())
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.parametrize('exc', [
    exceptions.ConfigError(reason='port taken'), RuntimeError('boom')])
def test_a_failed_start_stops_what_runs(diary, exc):
    parts = [Part('a', diary), Part('b', diary, start=lambda: fail(exc)),
             Part('c', diary)]
    begun = []
    assert service.run(parts, started=begun.append) == 1
    assert diary == ['a starts', 'a stops']
    assert begun == []


def test_a_stop_that_fails_does_not_keep_the_others(diary):
    parts = [Part('a', diary),
             Part('b', diary, stop=lambda: fail(RuntimeError('boom')))]
    assert service.run(parts, started=lambda _: interrupt()) == 0
    assert diary[-2:] == ['b stops', 'a stops']


def test_a_signal_is_heard_while_a_start_hangs(diary, monkeypatch):
    monkeypatch.setattr(service, '_START_TIMEOUT', 0.1)
    release, hangs = threading.Event(), threading.Event()

    def hang():
        hangs.set()
        release.wait(30)

    sender = threading.Thread(
        target=lambda: hangs.wait(30) and interrupt())
    sender.start()
    begun = time.monotonic()
    assert service.run([Part('a', diary), Part('b', diary, start=hang),
                        Part('c', diary)]) == 0
    assert time.monotonic() - begun < 10
    assert diary == ['a starts', 'a stops']
    release.set()
    sender.join()


def test_periodic_work_goes_on_after_an_error():
    turns, enough = [], threading.Event()

    def work():
        turns.append(len(turns))
        if len(turns) == 3:
            enough.set()
        raise RuntimeError('boom')

    one = service.Periodic('test', work, lambda: 0.001)
    one.start()
    assert enough.wait(10)
    one.stop()
    assert 'test' not in {thread.name for thread in threading.enumerate()}


def test_periodic_work_stops_at_once():
    one = service.Periodic('test', lambda: None, lambda: 3600)
    one.start()
    begun = time.monotonic()
    one.stop()
    assert time.monotonic() - begun < 5


def test_what_is_wrong_is_said_once(tmp_path):
    (tmp_path / 'x.conf').write_text(
        f'[DEFAULT]\nstate_path = {tmp_path}\ntransport_url = inproc://\n'
        f'[database]\nconnection = sqlite:///{tmp_path}/x.sqlite\n')
    done = subprocess.run(
        [sys.executable, '-m', 'stillframe.cmd.api', '--config-file',
         tmp_path / 'x.conf'], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert done.stderr.count('stillframe-manage') == 1
