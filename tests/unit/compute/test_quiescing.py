# SPDX-License-Identifier: Apache-2.0
"""Quiesce on a simulated hypervisor."""

import time

import pytest

from stillframe.compute import clock
from stillframe.compute import guardian
from stillframe.compute import journal
from stillframe.compute.libvirt.troubles import Trouble
from stillframe.states import servers as states
from tests.unit.compute import hypervisor
from tests.unit.compute import lives

SERVER = lives.SERVER


# --- cannot -----------------------------------------------------------------


@pytest.mark.parametrize('kind', [
    Trouble.NO_CHANNEL, Trouble.NOT_CONNECTED, Trouble.UNSUPPORTED,
    Trouble.NOT_RUNNING, Trouble.GONE, Trouble.BUSY, Trouble.SILENT,
    Trouble.REFUSED, Trouble.CONNECTION])
def test_trouble_with_the_first_question_is_a_cannot(life, guest, kind):
    guest.agent.faults = [hypervisor.trouble(kind)]
    outcome = life.quiesce()
    assert (outcome['result'], outcome['reason']) == ('cannot', kind)
    assert guest.agent.calls == ['status']
    assert list(life.journal.servers()) == []


@pytest.mark.parametrize('kind', [
    Trouble.NO_CHANNEL, Trouble.NOT_CONNECTED, Trouble.UNSUPPORTED,
    Trouble.NOT_RUNNING, Trouble.BUSY, Trouble.FROZEN])
def test_a_freeze_that_was_never_sent_is_a_cannot(life, guest, kind):
    guest.agent.faults = [None, hypervisor.trouble(kind)]
    outcome = life.quiesce()
    assert (outcome['result'], outcome['reason']) == ('cannot', kind)
    assert list(life.journal.servers()) == []
    assert guest.carried is None


def test_frozen_by_somebody_else_is_left_alone(life, guest):
    guest.agent.frozen = 1
    assert life.quiesce()['reason'] == 'already_frozen'
    assert guest.agent.calls == ['status']
    assert guest.agent.frozen == 1


def test_nothing_to_freeze(life, guest):
    guest.agent.filesystems = 0
    assert life.quiesce()['reason'] == 'nothing_frozen'
    assert list(life.journal.servers()) == []


@pytest.mark.parametrize(('change', 'reason'), [
    ({'power_state': states.POWER_PAUSED}, 'not_running'),
    ({'power_state': states.POWER_SHUTDOWN}, 'gone'),
    ({'is_leaving': True}, 'migrating'),
])
def test_a_domain_that_is_in_no_shape_for_it(life, guest, change, reason):
    for name, value in change.items():
        setattr(guest, name, value)
    assert life.quiesce()['reason'] == reason
    assert guest.agent.calls == []


def test_no_freeze_without_its_guard(life, guest):
    life.guard.missing = guardian.GuardMissing('told so')
    assert life.quiesce()['reason'] == 'no_guard'
    assert guest.agent.calls == []


def test_the_ceiling_holds_against_a_trusted_caller(life):
    assert life.quiesce(timeout=1e9)['result'] == 'success'
    record = life.journal.read(SERVER)
    assert record.remaining() <= life.conf.quiesce.max_timeout


# --- went wrong -------------------------------------------------------------


@pytest.mark.parametrize('kind', [Trouble.SILENT, Trouble.REFUSED])
def test_a_freeze_that_failed_is_undone(life, guest, kind):
    guest.agent.faults = [None, hypervisor.trouble(kind)]
    outcome = life.quiesce()
    assert (outcome['result'], outcome['reason']) == ('failed', kind)
    assert outcome['verified_thawed'] is True
    assert guest.agent.frozen == 0
    assert list(life.journal.servers()) == []


def test_an_agent_that_freezes_after_it_was_given_up(life, guest):
    guest.agent.faults = [None]
    status = guest.agent.status

    def hang_after_the_first_question():
        answer = status()
        guest.agent.hanging = True
        return answer

    guest.agent.status = hang_after_the_first_question
    outcome = life.quiesce()
    guest.agent.status = status
    assert (outcome['result'], outcome['verified_thawed']) == (
        'failed', False)
    assert life.journal.read(SERVER).state == journal.THAWING

    # It still hangs: no end, and nothing more to tell.
    life.alarms.go_off('retry')
    assert len(life.outcomes()) == 1
    guest.agent.wake()
    assert guest.agent.frozen == 2
    life.alarms.go_off('retry')
    assert guest.agent.frozen == 0
    thawed = life.outcome(kind='thawed')
    assert thawed['freeze_id'] == 'req-freeze'
    assert thawed['verified_thawed'] is True
    assert list(life.journal.servers()) == []


def test_a_freeze_cut_off_with_the_connection_may_come_late(life, guest):
    """libvirt may hold the call back and send it half a minute later."""
    guest.agent.faults = [None, hypervisor.trouble(Trouble.CONNECTION)]
    outcome = life.quiesce()
    assert (outcome['result'], outcome['verified_thawed']) == (
        'failed', True)
    record = life.journal.read(SERVER)
    assert record.may_freeze_until > clock.now() + 30
    guest.agent.frozen = 2
    life.alarms.go_off('retry')
    assert guest.agent.frozen == 0
    # Seen thawed once the time is over: that is the end, and no news.
    life.ledger.write(life.journal.read(SERVER).having(
        may_freeze_until=clock.now()))
    life.alarms.go_off('retry')
    assert list(life.journal.servers()) == []
    assert len(life.outcomes()) == 1


def test_a_freeze_that_took_until_its_deadline(life, guest):
    freeze = guest.agent.freeze

    def slow(mountpoints, timeout):
        assert timeout <= 0.2
        time.sleep(0.25)
        return freeze(mountpoints, timeout)

    guest.agent.freeze = slow
    outcome = life.quiesce(timeout=0.2)
    assert (outcome['result'], outcome['reason']) == ('failed', 'deadline')
    assert guest.agent.frozen == 0


def test_what_nobody_foresaw_is_undone_too(life, guest, monkeypatch):
    def broken(record):
        raise ZeroDivisionError

    life.quiescer._frozen = broken
    outcome = life.quiesce()
    assert (outcome['result'], outcome['reason']) == ('failed', 'internal')
    assert outcome['verified_thawed'] is True
    assert guest.agent.frozen == 0
