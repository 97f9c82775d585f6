# SPDX-License-Identifier: Apache-2.0
"""The guard: real processes, with thawing replaced by files.

The children are forked from the guard of the test's own process, so what
thaws can be put in place here; libvirt is not asked.
"""

import os
import pathlib
import selectors
import signal
import subprocess
import sys
import threading
import time

import pytest

from stillframe.compute import clock
from stillframe.compute import guard
from stillframe.compute import guardian
from stillframe.compute import journal
from stillframe.compute import pidlock
from tests.unit.compute.test_journal import SERVER
from tests.unit.compute.test_journal import a_record

OTHER = '0d6f2a3b-7a10-4f4c-8a43-6f8f5a4a9c01'


@pytest.fixture
def records(tmp_path):
    return journal.Journal(tmp_path)


@pytest.fixture
def watch(tmp_path):
    kept = {number: signal.getsignal(number)
            for number in (signal.SIGTERM, signal.SIGINT)}
    made = guard.Guard(tmp_path, 'test:///default', 1.0, stay=False)
    yield made
    made.close()
    for number, handler in kept.items():
        signal.signal(number, handler)


def a_result(server_id=SERVER, request_id='req-1'):
    return journal.Result(
        server_id, request_id, gone=False, was_frozen=True, thawed=1,
        boot_id=clock.boot_id(), moment=clock.now(), at=clock.wall())


def run(watch, seconds=5.0):
    """Run the main loop; fail when it does not end by itself."""
    timer = threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGALRM))

    def too_long(_number, _frame):
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, too_long)
    timer.start()
    try:
        watch.run()
    finally:
        timer.cancel()
        timer.join()
        signal.signal(signal.SIGALRM, before)


def test_without_worker_and_freezes_it_ends(watch):
    run(watch, 1)


def test_thaws_soon_after_the_deadline_and_not_before(
        watch, records, monkeypatch):
    record = a_record(deadline=clock.now() + 0.5)
    records.write(record)

    def thaw(journal_, server_id, uri, agent_timeout):
        journal_.write_result(a_result())
        return 0

    monkeypatch.setattr(guard, 'thaw', thaw)
    run(watch)
    late = records.result(record).moment - record.deadline
    assert guard.GRACE <= late < guard.GRACE + 1.0
    assert records.read(SERVER) == record


def test_one_that_hangs_holds_up_nobody_and_is_killed(
        watch, records, monkeypatch):
    monkeypatch.setattr(guard, '_JOB_WAIT', -10.2)
    for server_id in (SERVER, OTHER):
        records.write(a_record(server_id=server_id, deadline=clock.now()))
    first = pathlib.Path(records.folder / 'first')

    def thaw(journal_, server_id, uri, agent_timeout):
        if server_id == SERVER and not first.exists():
            first.touch()
            time.sleep(60)
        journal_.write_result(a_result(server_id))
        return 0

    monkeypatch.setattr(guard, 'thaw', thaw)
    run(watch, 10)
    assert records.any_result(OTHER).moment < records.any_result(
        SERVER).moment


def test_tries_again_until_it_is_done(watch, records, monkeypatch):
    records.write(a_record(deadline=clock.now() - 1))
    tries = records.folder / 'tries'

    def thaw(journal_, server_id, uri, agent_timeout):
        with tries.open('a') as file:
            file.write('x')
        if len(tries.read_text()) == 1:
            raise RuntimeError('told to fail')
        if len(tries.read_text()) == 2:
            return 1
        journal_.write_result(a_result())
        return 0

    monkeypatch.setattr(guard, 'thaw', thaw)
    run(watch, 10)
    assert tries.read_text() == 'xxx'


def test_an_unreadable_record_is_overdue(watch, records, monkeypatch):
    (records.folder / f'{SERVER}.freeze.json').write_text('{')

    def thaw(journal_, server_id, uri, agent_timeout):
        journal_.write_result(a_result(request_id=None))
        return 0

    monkeypatch.setattr(guard, 'thaw', thaw)
    run(watch, 3)
    assert records.any_result(SERVER).request_id is None


def test_a_result_of_an_earlier_freeze_is_none_of_an_unreadable_record(
        watch, records, monkeypatch):
    records.write_result(a_result(request_id='req-earlier'))
    test_an_unreadable_record_is_overdue(watch, records, monkeypatch)


def test_a_host_without_room_for_a_process_does_not_end_the_guard(
        watch, records, monkeypatch):
    records.write(a_record(deadline=clock.now() - 1))
    fork, refused = os.fork, []

    def scarce():
        if not refused:
            refused.append(True)
            raise BlockingIOError(11, 'Resource temporarily unavailable')
        return fork()

    def thaw(journal_, server_id, uri, agent_timeout):
        journal_.write_result(a_result())
        return 0

    monkeypatch.setattr(os, 'fork', scarce)
    monkeypatch.setattr(guard, 'thaw', thaw)
    run(watch)
    assert refused
    assert records.any_result(SERVER) is not None


def test_a_child_looks_again_before_it_thaws(records):
    assert guard.thaw(records, SERVER, 'nowhere:///', 1.0) == 0
    records.write(a_record(timeout=60.0, deadline=clock.now() + 60))
    assert guard.thaw(records, SERVER, 'nowhere:///', 1.0) == 0
    assert records.any_result(SERVER) is None


# --- as processes of their own ----------------------------------------------


def start(tmp_path, *arguments):
    """Start a guard; return once it watches."""
    ready, given = os.pipe()
    process = subprocess.Popen(
        [sys.executable, '-m', 'stillframe.compute.guard', '--state-path',
         tmp_path, '--connection-uri', 'test:///default', '--ready-fd',
         str(given), *arguments], pass_fds=(given,))
    os.close(given)
    with selectors.DefaultSelector() as selector:
        selector.register(ready, selectors.EVENT_READ)
        assert selector.select(20)
    os.close(ready)
    return process


def test_there_is_one_guard_of_a_state_path(tmp_path):
    first = start(tmp_path, '--stay')
    lock = pidlock.PidLock(tmp_path / guard.GUARD_LOCK)
    try:
        assert lock.holder() == first.pid
        second = start(tmp_path, '--stay')
        assert second.wait(10) == 1
        first.terminate()
        assert first.wait(10) == 0
        assert lock.holder() is None
    finally:
        first.kill()
        first.wait()
        lock.close()


def test_told_to_stop_it_stays_while_there_is_a_freeze(tmp_path, records):
    records.write(a_record(timeout=60.0, deadline=clock.now() + 60))
    process = start(tmp_path)
    try:
        process.terminate()
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(1.5)
        records.remove(SERVER)
        assert process.wait(10) == 0
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize('hurt', [signal.SIGKILL, signal.SIGSTOP])
def test_a_guardian_replaces_a_guard_that_does_not_watch(tmp_path, hurt):
    """Stopped, it holds its lock, but would let a deadline pass."""
    worker = pidlock.PidLock(tmp_path / guard.WORKER_LOCK)
    assert worker.acquire()
    watcher = guardian.Guardian(tmp_path, 'test:///default', 1.0)
    watcher.start()
    try:
        watcher.ensure()
        first = watcher.pid()
        os.kill(first, hurt)
        if hurt == signal.SIGSTOP:
            watcher.ensure()
            assert watcher.pid() != first
        until = time.monotonic() + 20
        while watcher.pid() in (None, first):
            assert time.monotonic() < until
            time.sleep(0.02)
        watcher.ensure()
    finally:
        watcher.stop()
        last = watcher.pid()
        handle = os.pidfd_open(last)
        worker.close()
        watcher.close()
    with selectors.DefaultSelector() as selector:
        selector.register(handle, selectors.EVENT_READ)
        assert selector.select(10), 'it stays without a worker'
    os.close(handle)


def test_a_guard_that_cannot_start_is_missed(tmp_path):
    (tmp_path / guard.SOCKET).mkdir()
    watcher = guardian.Guardian(tmp_path, 'test:///default', 1.0)
    with pytest.raises(guardian.GuardMissing):
        watcher.ensure()
    watcher.close()
