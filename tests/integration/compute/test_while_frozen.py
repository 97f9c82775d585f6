# SPDX-License-Identifier: Apache-2.0
"""What can happen to a guest while it is frozen."""

import time

from tests.lab.processes import wait_until


def test_agent_killed_and_back(worker, guest):
    freeze_id = worker.frozen(guest.uuid)
    guest.kill_agent()
    assert guest.frozen()
    request_id = worker.unquiesce(guest.uuid, freeze_id)
    outcome = worker.outcome(request_id=request_id)
    assert outcome['result'] == 'success'
    assert not guest.frozen()


def test_agent_killed_and_back_while_it_is_to_be_thawed(worker, guest):
    freeze_id = worker.frozen(guest.uuid)
    guest.kill_agent(restart=False)
    request_id = worker.unquiesce(guest.uuid, freeze_id)
    time.sleep(1)
    guest.start_agent()
    outcome = worker.outcome(request_id=request_id)
    assert outcome['result'] == 'success'
    assert not guest.frozen()


def test_agent_killed_for_longer(worker, guest):
    freeze_id = worker.frozen(guest.uuid)
    guest.kill_agent(restart=False)
    request_id = worker.unquiesce(guest.uuid, freeze_id)
    outcome = worker.outcome(request_id=request_id)
    assert outcome['result'] == 'failed'
    assert outcome['verified_thawed'] is False
    guest.start_agent()
    thawed = worker.outcome(kind='thawed', freeze_id=freeze_id)
    assert thawed['verified_thawed'] is True
    assert not guest.frozen()


def test_agent_gone_at_the_deadline(worker, guest):
    freeze_id = worker.frozen(guest.uuid, timeout=2)
    guest.kill_agent(restart=False)
    ended = worker.outcome(kind='freeze_ended', freeze_id=freeze_id)
    assert (ended['result'], ended['reason']) == ('failed', 'deadline')
    assert ended['verified_thawed'] is False
    guest.start_agent()
    thawed = worker.outcome(kind='thawed', freeze_id=freeze_id)
    assert thawed['verified_thawed'] is True
    assert not guest.frozen()


def test_agent_hangs_at_the_deadline(worker, guest):
    freeze_id = worker.frozen(guest.uuid, timeout=2)
    guest.hang_agent()
    ended = worker.outcome(kind='freeze_ended', freeze_id=freeze_id)
    assert (ended['result'], ended['verified_thawed']) == ('failed', False)
    guest.wake_agent()
    worker.outcome(30, kind='thawed', freeze_id=freeze_id)
    assert not guest.frozen()


def test_paused(worker, guest):
    freeze_id = worker.frozen(guest.uuid)
    guest.pause()
    request_id = worker.unquiesce(guest.uuid, freeze_id)
    outcome = worker.outcome(request_id=request_id)
    assert outcome['result'] == 'cannot'
    assert 'resume' in outcome['message']
    guest.resume()
    assert guest.frozen()
    request_id = worker.unquiesce(guest.uuid, freeze_id)
    assert worker.outcome(request_id=request_id)['result'] == 'success'


def test_paused_at_the_deadline(worker, guest):
    freeze_id = worker.frozen(guest.uuid, timeout=2)
    guest.pause()
    ended = worker.outcome(kind='freeze_ended', freeze_id=freeze_id)
    assert (ended['result'], ended['verified_thawed']) == ('failed', False)
    assert 'resume' in ended['message']
    guest.resume()
    began = time.monotonic()
    worker.outcome(kind='thawed', freeze_id=freeze_id)
    assert time.monotonic() - began < 2
    assert not guest.frozen()


def lost(worker, freeze_id, reason):
    ended = worker.outcome(kind='freeze_ended', freeze_id=freeze_id)
    assert (ended['result'], ended['reason']) == ('lost', reason)
    worker.wait_no_record()
    return ended


def test_rebooted_from_inside(worker, guest):
    boots = guest.boots()
    freeze_id = worker.frozen(guest.uuid)
    guest.reboot_from_inside()
    lost(worker, freeze_id, 'rebooted')
    guest.wait_boots(boots + 1)
    guest.wait_agent()
    assert not guest.frozen()
    late = worker.unquiesce(guest.uuid, freeze_id)
    outcome = worker.outcome(request_id=late)
    assert (outcome['result'], outcome['reason']) == ('lost', 'rebooted')


def test_reset_button(worker, guest):
    boots = guest.boots()
    freeze_id = worker.frozen(guest.uuid)
    guest.reset()
    lost(worker, freeze_id, 'rebooted')
    guest.wait_boots(boots + 1)
    guest.wait_agent()
    assert not guest.frozen()


def test_destroyed(worker, new_guest):
    doomed = new_guest('doomed')
    freeze_id = worker.frozen(doomed.uuid)
    doomed.destroy()
    lost(worker, freeze_id, 'stopped')
    doomed.start()
    doomed.wait_agent()
    assert not doomed.frozen()


def test_destroyed_transient(worker, new_guest):
    doomed = new_guest('doomed', persistent=False)
    freeze_id = worker.frozen(doomed.uuid)
    doomed.destroy()
    lost(worker, freeze_id, 'stopped')
    wait_until(lambda: doomed.uuid in worker.gone, 10, 'it to be gone')


def test_undefined_and_still_frozen(worker, new_guest):
    nameless = new_guest('nameless')
    freeze_id = worker.frozen(nameless.uuid)
    nameless.undefine()
    time.sleep(1.5)
    assert nameless.frozen()
    assert not [one for one in worker.outcomes
                if one['kind'] == 'freeze_ended']
    request_id = worker.unquiesce(nameless.uuid, freeze_id)
    assert worker.outcome(request_id=request_id)['result'] == 'success'


def test_thawed_by_a_stranger(worker, guest):
    freeze_id = worker.frozen(guest.uuid)
    guest.thaw()
    lost(worker, freeze_id, 'thawed_by_guest')


def test_thawed_by_a_stranger_and_unquiesced_at_once(new_worker, guest):
    with new_worker(verify_interval=60) as worker:
        freeze_id = worker.frozen(guest.uuid)
        guest.thaw()
        request_id = worker.unquiesce(guest.uuid, freeze_id)
        outcome = worker.outcome(request_id=request_id)
        assert (outcome['result'], outcome['reason']) == (
            'lost', 'thawed_by_guest')
        worker.wait_no_record()


def test_saved_and_restored(worker, new_guest, host):
    """A guest saved to a file is as frozen as ever when it comes back."""
    sleeper = new_guest('sleeper')
    freeze_id = worker.frozen(sleeper.uuid, timeout=8)
    began = time.monotonic()
    sleeper.domain.managedSave(0)
    lost(worker, freeze_id, 'stopped')
    sleeper.start()
    wait_until(lambda: worker.records, 5, 'the freeze to be taken up')
    assert sleeper.frozen()
    wait_until(lambda: not sleeper.frozen(), 10, 'the deadline')
    assert time.monotonic() - began < 10
    worker.wait_no_record()


def test_the_conductor_thinks_it_is_quiesced(worker, guest):
    """What the journal does not know is answered for, and thawed."""
    guest.freeze()
    worker.answer(quiesced={guest.uuid: 'req-forgotten'}, resync=True)
    try:
        ended = worker.outcome(freeze_id='req-forgotten')
    finally:
        worker.answer(quiesced={}, resync=False)
    assert (ended['kind'], ended['result'], ended['reason']) == (
        'freeze_ended', 'lost', 'lost')
    assert ended['verified_thawed'] is True
    assert not guest.frozen()
