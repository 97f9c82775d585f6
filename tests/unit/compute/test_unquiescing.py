# SPDX-License-Identifier: Apache-2.0
"""Unquiesce and reset on a simulated hypervisor."""

import threading

import pytest

from stillframe.compute import clock
from stillframe.compute import journal
from stillframe.compute.libvirt.troubles import Trouble
from stillframe.states import servers as states
from tests.unit.compute import hypervisor
from tests.unit.compute import lives

SERVER = lives.SERVER


# --- unquiesce --------------------------------------------------------------


def test_unquiesce_counts_what_it_thaws(life, guest):
    life.quiesce()
    guest.agent.frozen = 1
    outcome = life.unquiesce()
    assert outcome['result'] == 'lost'
    assert outcome['message'].startswith('1 of 2 file systems')


def test_unquiesce_of_a_thawed_guest_says_so(life, guest):
    life.quiesce()
    guest.agent.frozen = 0
    outcome = life.unquiesce()
    assert (outcome['result'], outcome['reason']) == (
        'lost', 'thawed_by_guest')


def test_unquiesce_after_the_guard_says_when(life, guest):
    life.quiesce()
    guest.agent.frozen = 0
    life.journal.write_result(journal.Result(
        SERVER, 'req-freeze', gone=False, was_frozen=True, thawed=2,
        boot_id=clock.boot_id(), moment=clock.now(),
        at='2026-01-01T00:00:00.000000'))
    outcome = life.unquiesce()
    assert (outcome['result'], outcome['reason']) == ('lost', 'deadline')
    assert outcome['thawed'] == 2


def test_unquiesce_of_a_paused_guest_leaves_it(life, guest):
    life.quiesce()
    guest.power_state = states.POWER_PAUSED
    outcome = life.unquiesce()
    assert outcome['result'] == 'cannot'
    assert life.journal.read(SERVER).state == journal.FROZEN


def test_unquiesce_that_fails_at_first(life, guest):
    life.quiesce()
    guest.agent.faults = [None, hypervisor.trouble()]
    outcome = life.unquiesce()
    assert (outcome['result'], outcome['verified_thawed']) == (
        'failed', True)
    assert guest.agent.frozen == 0


@pytest.mark.parametrize(('awake', 'result', 'verified'), [
    (False, 'failed', False), (True, 'success', True)])
def test_unquiesce_of_what_could_not_be_thawed_at_its_deadline(
        life, guest, awake, result, verified):
    life.quiesce()
    guest.agent.hanging = True
    life.alarms.go_off('deadline')
    assert life.outcome(kind='freeze_ended')['result'] == 'failed'
    guest.agent.queue = []
    guest.agent.hanging = not awake
    outcome = life.unquiesce()
    assert (outcome['result'], outcome['verified_thawed']) == (
        result, verified)
    assert bool(guest.agent.frozen) is not verified


def test_unquiesce_without_a_freeze(life):
    outcome = life.unquiesce()
    assert (outcome['result'], outcome['reason']) == ('lost', 'lost')


def test_unquiesce_of_a_guest_that_moved(life, host, guest):
    life.quiesce()
    life.ledger.moved(SERVER)
    del host.guests[SERVER]
    outcome = life.unquiesce()
    assert (outcome['result'], outcome['reason']) == ('cannot', 'moved')
    assert list(life.journal.servers()) == []


# --- reset ------------------------------------------------------------------


def test_reset_of_a_silent_guest_goes_on_behind_it(life, guest):
    guest.agent.hanging = True
    life.unquiescer.reset('req-reset', SERVER, 'active')
    outcome = life.outcome(request_id='req-reset')
    assert (outcome['result'], outcome['verified_thawed']) == (
        'success', False)
    assert life.journal.read(SERVER) is not None
    guest.agent.wake()
    life.alarms.go_off('retry')
    assert list(life.journal.servers()) == []


@pytest.mark.parametrize(('kind', 'verified'), [
    (Trouble.NO_CHANNEL, None), (Trouble.GONE, None),
    (Trouble.NOT_CONNECTED, None)])
def test_reset_of_a_guest_that_cannot_be_asked(life, guest, kind, verified):
    guest.agent.faults = [hypervisor.trouble(kind)]
    life.unquiescer.reset('req-reset', SERVER, 'error')
    outcome = life.outcome(request_id='req-reset')
    assert outcome['result'] == 'success'
    assert outcome['verified_thawed'] is verified
    assert outcome['state'] == 'error'
    assert list(life.journal.servers()) == []


def test_a_thaw_that_broke_off_is_taken_up(life, guest):
    life.quiesce()
    guest.agent.faults = [ZeroDivisionError()]
    guest.agent.faults[0].nothing_done = True
    with pytest.raises(ZeroDivisionError):
        life.unquiescer.unquiesce('req-thaw', SERVER, 'req-freeze')
    life.alarms.go_off('retry')
    assert life.outcome(request_id='req-thaw')['result'] == 'success'


def test_work_that_waits_ends_with_the_worker(tmp_path, host, guest):
    life = lives.Life(tmp_path, host, settle_timeout=60.0)
    life.quiesce()
    guest.agent.hanging = True
    began = clock.now()
    timer = threading.Timer(0.2, life.ledger.stop)
    timer.start()
    life.unquiescer.unquiesce('req-thaw', SERVER, 'req-freeze')
    timer.join()
    assert clock.now() - began < 5
    # Nothing was told, and the next life goes on with it.
    assert len(life.outcomes()) == 1
    guest.agent.wake()
    later = lives.Life(tmp_path, host)
    later.recover()
    assert guest.agent.frozen == 0
    assert later.outcome(request_id='req-thaw')['result'] == 'success'
