# SPDX-License-Identifier: Apache-2.0
"""Freezes that go wrong after they were sent.

The hazard: a freeze that timed out on the host may still happen in the
guest later. Each test ends with a guest that is thawed and writes.
"""

from tests.lab.processes import wait_until


def failed(worker, freeze_id, timeout=15):
    outcome = worker.outcome(timeout, request_id=freeze_id)
    assert (outcome['kind'], outcome['result']) == ('quiesce', 'failed')
    return outcome


def writes_again(worker, guest):
    worker.wait_no_record()
    assert not guest.frozen()
    guest.wait_counter(guest.counter())
    wait_until(lambda: 'lease' not in guest.domain.XMLDesc(), 5,
               'the lease to be taken away')


def test_a_hook_that_fails(worker, guest):
    guest.set_hook(fail=True)
    outcome = failed(worker, worker.quiesce(guest.uuid))
    assert outcome['reason'] == 'refused'
    assert outcome['verified_thawed'] is True
    assert 'hook has failed' in outcome['message']
    writes_again(worker, guest)


def test_a_hook_slower_than_the_time_out(worker, guest):
    # Freezes 1 s after the host gave it up, within the time to settle.
    guest.set_hook(slow=4)
    outcome = failed(worker, worker.quiesce(guest.uuid))
    assert outcome['reason'] == 'agent_silent'
    assert outcome['verified_thawed'] is True
    assert outcome['thawed'] == 1
    writes_again(worker, guest)


def test_a_hook_slower_than_the_time_to_settle(worker, guest):
    guest.set_hook(slow=12)
    freeze_id = worker.quiesce(guest.uuid)
    outcome = failed(worker, freeze_id, 20)
    assert outcome['verified_thawed'] is False
    assert worker.records
    thawed = worker.outcome(20, kind='thawed', freeze_id=freeze_id)
    assert thawed['verified_thawed'] is True
    writes_again(worker, guest)


def test_an_agent_that_hangs_in_the_middle_of_the_freeze(worker, guest):
    guest.set_hook(hang=12)
    freeze_id = worker.quiesce(guest.uuid)
    assert failed(worker, freeze_id, 20)['verified_thawed'] is False
    # The administrator resets it, and it freezes only after that.
    reset = worker.reset(guest.uuid)
    outcome = worker.outcome(20, request_id=reset)
    assert outcome['result'] == 'success'
    worker.outcome(25, freeze_id=freeze_id, verified_thawed=True)
    writes_again(worker, guest)


def test_an_agent_killed_in_the_middle_of_the_freeze(worker, guest):
    guest.set_hook(slow=2)
    hooks = guest.printed().count('hook freeze')
    freeze_id = worker.quiesce(guest.uuid)
    wait_until(lambda: guest.printed().count('hook freeze') > hooks, 5,
               'the hook')
    guest.kill_agent()
    outcome = failed(worker, freeze_id)
    assert outcome['verified_thawed'] is True
    writes_again(worker, guest)


def test_a_timeout_shorter_than_the_freeze(worker, guest):
    guest.set_hook(slow=2)
    outcome = failed(worker, worker.quiesce(guest.uuid, timeout=1))
    assert outcome['verified_thawed'] is True
    writes_again(worker, guest)


def test_destroyed_in_the_middle_of_the_freeze(worker, new_guest):
    doomed = new_guest('doomed')
    doomed.set_hook(slow=2)
    freeze_id = worker.quiesce(doomed.uuid)
    wait_until(lambda: 'hook freeze' in doomed.printed(), 5, 'the hook')
    doomed.destroy()
    outcome = failed(worker, freeze_id)
    assert outcome['reason'] == 'stopped'
    worker.wait_no_record()
