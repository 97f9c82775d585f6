# SPDX-License-Identifier: Apache-2.0
"""Killed at the worst moment: the worker, the guard, libvirt, all of them.

No guest stays frozen beyond its deadline, and the next life of the worker
says what happened.
"""

import contextlib
import os
import signal
import time

import libvirt
import pytest

from tests.integration.compute.workers import Worker
from tests.lab.guests import Guest
from tests.lab.libvirtd import Libvirtd
from tests.lab.processes import wait_until


def wait_thawed(guest, timeout=10):
    def thawed():
        # libvirt may be busy thawing it, or not have found the agent yet.
        with contextlib.suppress(libvirt.libvirtError):
            return not guest.frozen()
        return False
    wait_until(thawed, timeout, 'the guest to thaw')


def test_worker_killed_the_guard_keeps_the_deadline(new_worker, guest):
    worker = new_worker()
    freeze_id = worker.frozen(guest.uuid, timeout=3)
    worker.kill()
    assert guest.frozen()
    wait_thawed(guest)
    worker.start()
    ended = worker.outcome(kind='freeze_ended', freeze_id=freeze_id)
    assert (ended['result'], ended['reason']) == ('success', 'deadline')
    assert 3 < ended['frozen_for'] < 4.5
    worker.wait_no_record()


def test_worker_killed_and_back_before_the_deadline(new_worker, guest):
    worker = new_worker()
    freeze_id = worker.frozen(guest.uuid, timeout=60)
    worker.kill()
    worker.start()
    assert guest.frozen()
    assert worker.ping()['frozen'] == 1
    request_id = worker.unquiesce(guest.uuid, freeze_id)
    outcome = worker.outcome(request_id=request_id)
    assert outcome['result'] == 'success'
    assert outcome['filesystems'] == outcome['thawed'] == 1
    assert not guest.frozen()


def test_worker_stopped_politely_leaves_it_to_the_guard(new_worker, guest):
    worker = new_worker()
    worker.frozen(guest.uuid, timeout=6)
    guard_pid = worker.wait_guard()
    worker.terminate()
    assert guest.frozen()
    # Asked to stop, it does not as long as there is something to thaw.
    os.kill(guard_pid, signal.SIGTERM)
    wait_thawed(guest, 10)
    wait_until(lambda: worker.guard_pid() is None, 10, 'the guard to end')


def test_an_idle_guard_ends_after_its_worker(new_worker):
    worker = new_worker()
    worker.wait_guard()
    worker.terminate()
    wait_until(lambda: worker.guard_pid() is None, 10, 'the guard to end')


def test_guard_killed_is_replaced(new_worker, guest):
    worker = new_worker()
    worker.frozen(guest.uuid, timeout=8)
    first = worker.wait_guard()
    os.kill(first, signal.SIGKILL)
    second = worker.wait_guard(other_than=first)
    worker.kill()
    assert worker.guard_pid() == second
    assert guest.frozen()
    wait_thawed(guest, 12)


def test_both_killed_and_back_after_the_deadline(new_worker, guest):
    worker = new_worker()
    freeze_id = worker.frozen(guest.uuid, timeout=4)
    worker.kill()
    os.kill(worker.wait_guard(), signal.SIGKILL)
    time.sleep(4)
    assert guest.frozen()
    worker.start()
    ended = worker.outcome(kind='freeze_ended', freeze_id=freeze_id)
    assert (ended['result'], ended['reason']) == ('success', 'deadline')
    assert not guest.frozen()


def test_worker_killed_while_quiescing(new_worker, guest):
    worker = new_worker()
    guest.set_hook(slow=2)
    hooks = guest.printed().count('hook freeze')
    freeze_id = worker.quiesce(guest.uuid)
    wait_until(lambda: guest.printed().count('hook freeze') > hooks, 5,
               'the hook')
    worker.kill()
    worker.start()
    outcome = worker.outcome(request_id=freeze_id)
    assert (outcome['result'], outcome['reason']) == ('failed', 'restarted')
    assert outcome['verified_thawed'] is True
    time.sleep(2)
    assert not guest.frozen()
    # It looks on until the freeze can be on its way no more.
    worker.wait_no_record(45)


def test_worker_killed_while_quiescing_and_not_back(new_worker, guest):
    worker = new_worker()
    guest.set_hook(slow=2)
    hooks = guest.printed().count('hook freeze')
    worker.quiesce(guest.uuid, timeout=3)
    wait_until(lambda: guest.printed().count('hook freeze') > hooks, 5,
               'the hook')
    worker.kill()
    wait_until(guest.frozen, 8, 'the queued freeze')
    wait_thawed(guest, 10)


def test_worker_killed_while_unquiescing(new_worker, guest):
    worker = new_worker()
    freeze_id = worker.frozen(guest.uuid)
    guest.hang_agent()
    request_id = worker.unquiesce(guest.uuid, freeze_id)
    wait_until(lambda: '"state": "thawing"' in worker.records[0].read_text(),
               5, 'the thaw to begin')
    worker.kill()
    guest.wake_agent()
    worker.start()
    outcome = worker.outcome(request_id=request_id)
    assert outcome['kind'] == 'unquiesce'
    assert outcome['result'] in ('success', 'lost')
    assert not guest.frozen()
    worker.wait_no_record()


def test_outcomes_survive_a_conductor_that_is_away(new_worker, guest):
    worker = new_worker()
    worker.answer(down=True)
    freeze_id = worker.quiesce(guest.uuid, timeout=60)
    wait_until(guest.frozen, 10, 'the freeze')
    request_id = worker.unquiesce(guest.uuid, freeze_id)
    kept = worker.path / 'state/outbox'
    wait_until(lambda: len(list(kept.glob('*.json'))) == 2, 10,
               'both outcomes to be kept')
    assert not guest.frozen()
    assert worker.outcomes == []
    worker.kill()
    worker.start()
    assert worker.outcome(request_id=freeze_id)['result'] == 'success'
    assert worker.outcome(request_id=request_id)['result'] == 'success'
    ids = [one['id'] for one in worker.outcomes]
    assert len(ids) == len(set(ids))


def test_a_record_that_cannot_be_read(new_worker, guest):
    worker = new_worker()
    worker.frozen(guest.uuid, timeout=60)
    worker.kill()
    worker.records[0].write_text('{"half": ')
    # For the guard it is overdue at once.
    wait_thawed(guest)
    worker.start()
    worker.wait_no_record()


def test_two_workers_on_one_state_path(new_worker):
    worker = new_worker()
    worker.start(wait=False)
    assert worker.process.wait(20) == 1
    assert 'is a compute worker on the state path' in worker.log


@pytest.fixture
def lonely():
    """A hypervisor with one guest, to be killed, and its worker."""
    with Libvirtd('k') as host, Guest(host, 'lonely') as guest, \
            Worker(host) as worker:
        yield host, guest, worker


def test_libvirt_restarted(lonely):
    host, guest, worker = lonely
    freeze_id = worker.frozen(guest.uuid, timeout=60)
    host.restart()
    wait_until(lambda: worker.ping()['libvirt_connected'], 15,
               'the worker to connect again')
    assert guest.frozen()
    request_id = worker.unquiesce(guest.uuid, freeze_id)
    assert worker.outcome(request_id=request_id)['result'] == 'success'
    # Events come again too.
    freeze_id = worker.frozen(guest.uuid, timeout=60)
    guest.reset()
    ended = worker.outcome(kind='freeze_ended', freeze_id=freeze_id)
    assert ended['reason'] == 'rebooted'


def test_libvirt_dead_at_the_deadline(lonely):
    host, guest, worker = lonely
    freeze_id = worker.frozen(guest.uuid, timeout=2)
    host.kill()
    ended = worker.outcome(kind='freeze_ended', freeze_id=freeze_id)
    assert (ended['result'], ended['verified_thawed']) == ('failed', False)
    host.start()
    thawed = worker.outcome(25, kind='thawed', freeze_id=freeze_id)
    assert thawed['verified_thawed'] is True
    assert not guest.frozen()


def test_libvirt_and_worker_dead_at_the_deadline(lonely):
    host, guest, worker = lonely
    worker.frozen(guest.uuid, timeout=2)
    worker.kill()
    host.kill()
    time.sleep(3)
    host.start()
    wait_thawed(guest, 15)


def test_libvirt_deaf_at_the_deadline(lonely):
    host, guest, worker = lonely
    freeze_id = worker.frozen(guest.uuid, timeout=2)
    host.suspend()
    # Calls that hang are cut off by the keep-alive, and it says so.
    ended = worker.outcome(25, kind='freeze_ended', freeze_id=freeze_id)
    assert (ended['result'], ended['verified_thawed']) == ('failed', False)
    host.resume()
    worker.outcome(25, kind='thawed', freeze_id=freeze_id)
    assert not guest.frozen()


def test_everything_restarted_while_frozen(lonely):
    host, guest, worker = lonely
    freeze_id = worker.frozen(guest.uuid, timeout=60)
    worker.kill()
    os.kill(worker.wait_guard(), signal.SIGKILL)
    host.kill()
    host.start()
    worker.start()
    assert guest.frozen()
    request_id = worker.unquiesce(guest.uuid, freeze_id)
    assert worker.outcome(request_id=request_id)['result'] == 'success'


def test_the_guard_and_a_guest_that_was_stopped(new_worker, new_guest):
    """Nobody is there to say so, and the guard does not try for ever."""
    doomed, reborn = new_guest('doomed'), new_guest('reborn')
    worker = new_worker()
    for guest in (doomed, reborn):
        worker.frozen(guest.uuid, timeout=6)
    worker.kill()
    doomed.destroy()
    reborn.destroy()
    reborn.start()
    wait_until(lambda: worker.guard_pid() is None, 25, 'the guard to end')
    results = [path.read_text() for path in
               (worker.path / 'state/freezes').glob('*.result.json')]
    assert len(results) == 2
    assert all('"gone": true' in text for text in results)
    worker.start()
    worker.wait(lambda: len([one for one in worker.outcomes if
                             one['kind'] == 'freeze_ended']) == 2,
                15, 'both ends')
    worker.wait_no_record()
