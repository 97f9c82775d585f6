# SPDX-License-Identifier: Apache-2.0
"""Watching frozen guests of this life, earlier ones and other hosts."""

import dataclasses
import time

import pytest

from stillframe.compute import clock
from stillframe.compute import journal
from stillframe.compute.libvirt import lease
from stillframe.compute.libvirt.troubles import Trouble
from stillframe.states import servers as states
from tests.unit.compute import hypervisor
from tests.unit.compute import lives

SERVER = lives.SERVER


# --- watch ------------------------------------------------------------------


def test_a_check_finds_it_frozen(life, guest):
    life.quiesce()
    life.alarms.go_off('check')
    assert ('check', SERVER) in life.alarms.pending
    assert len(life.outcomes()) == 1


@pytest.mark.parametrize('kind', [
    Trouble.SILENT, Trouble.NOT_CONNECTED, Trouble.CONNECTION,
    Trouble.NOT_RUNNING])
def test_a_check_without_an_answer_changes_nothing(life, guest, kind):
    life.quiesce()
    guest.agent.faults = [hypervisor.trouble(kind)]
    life.alarms.go_off('check')
    assert life.journal.read(SERVER).state == journal.FROZEN
    assert len(life.outcomes()) == 1


def test_a_check_finds_it_thawed(life, guest):
    life.quiesce()
    guest.agent.frozen = 0
    life.alarms.go_off('check')
    ended = life.outcome(kind='freeze_ended')
    assert (ended['result'], ended['reason']) == ('lost', 'thawed_by_guest')
    assert life.alarms.pending == {}


def test_a_check_finds_another_run(life, guest):
    life.quiesce()
    guest.restart()
    life.alarms.go_off('check')
    assert life.outcome(kind='freeze_ended')['reason'] == 'rebooted'


@pytest.mark.parametrize('end', ['deadline', 'unquiesce', 'check'])
def test_another_run_has_nothing_to_thaw(life, guest, end):
    """Not even an agent that is not up yet makes it an error."""
    life.quiesce(timeout=0.05 if end == 'check' else 60.0)
    guest.restart()
    guest.agent.hanging = True
    if end == 'unquiesce':
        ended = life.unquiesce()
    else:
        time.sleep(0.06)
        life.alarms.go_off(end)
        ended = life.outcome(kind='freeze_ended')
    assert (ended['result'], ended['reason']) == ('lost', 'rebooted')
    assert list(life.journal.servers()) == []


def test_a_check_finds_it_restored(life, guest):
    life.quiesce()
    guest.domain_id += 1
    life.alarms.go_off('check')
    assert life.journal.read(SERVER).domain_id == guest.domain_id
    assert len(life.outcomes()) == 1


def test_a_check_finds_it_off_or_moved(life, host, guest):
    life.quiesce()
    guest.power_state = states.POWER_SHUTDOWN
    guest.migrated = True
    life.alarms.go_off('check')
    assert len(life.outcomes()) == 1
    assert list(life.journal.servers()) == []


def test_a_guest_that_comes_with_a_lease_is_taken_over(life, guest):
    guest.agent.frozen = 2
    guest.carried = lease.Lease(
        'req-elsewhere', clock.wall_at(clock.now() + 20), 60.0)
    life.watch.check(SERVER)
    record = life.journal.read(SERVER)
    assert record.request_id == 'req-elsewhere'
    assert 18 < record.remaining() <= 20
    assert life.outcomes() == []
    life.alarms.go_off('deadline')
    ended = life.outcome(kind='freeze_ended')
    assert ended['freeze_id'] == 'req-elsewhere'
    assert guest.agent.frozen == 0
    assert guest.carried is None


def test_a_lease_from_a_host_with_a_wrong_clock_is_capped(life, guest):
    guest.agent.frozen = 2
    guest.carried = lease.Lease(
        'req-elsewhere', clock.wall_at(clock.now() + 1e6), 60.0)
    life.watch.check(SERVER)
    assert (life.journal.read(SERVER).remaining()
            <= life.conf.quiesce.max_timeout)


def test_a_lease_that_was_left_behind_is_taken_away(life, guest):
    life.quiesce()
    carried = guest.carried
    life.unquiesce()
    guest.carried = carried
    life.watch.check(SERVER)
    assert guest.carried is None
    assert len(life.outcomes()) == 2


def test_what_the_conductor_shows_is_answered_for(life, guest):
    life.quiesce()
    asked = clock.now()
    life.watch.account_for(SERVER, 'req-freeze', asked)
    assert len(life.outcomes()) == 1
    life.unquiesce()
    # Its end is on its way.
    life.watch.account_for(SERVER, 'req-freeze', asked)
    assert len(life.outcomes()) == 2
    guest.agent.frozen = 2
    life.watch.account_for(SERVER, 'req-older', asked)
    ended = life.outcome(kind='freeze_ended')
    assert (ended['reason'], ended['freeze_id']) == ('lost', 'req-older')
    assert guest.agent.frozen == 0


def test_a_reset_button_before_the_freeze_is_none_of_its_business(
        life, guest):
    before = clock.now()
    life.quiesce()
    life.watch.rebooted(SERVER, before)
    assert life.journal.read(SERVER).state == journal.FROZEN
    life.watch.rebooted(SERVER, clock.now())
    assert life.outcome(kind='freeze_ended')['reason'] == 'rebooted'
    # Had it been wrong about that, the lease would tell.
    assert guest.carried is not None
    life.watch.check(SERVER)
    assert guest.agent.frozen == 2
    assert life.journal.read(SERVER).state == journal.FROZEN


def test_a_deadline_that_was_missed_is_made_good(life, guest):
    life.quiesce(timeout=0.05)
    del life.alarms.pending['deadline', SERVER]
    time.sleep(0.1)
    life.alarms.go_off('check')
    assert life.outcome(kind='freeze_ended')['reason'] == 'deadline'
    assert guest.agent.frozen == 0


# --- earlier lives ----------------------------------------------------------


def test_a_record_of_an_earlier_boot_of_the_host(tmp_path, host, guest):
    life = lives.Life(tmp_path, host)
    life.quiesce()
    life.journal.write(dataclasses.replace(
        life.journal.read(SERVER), boot_id='another'))
    guest.restart()
    later = lives.Life(tmp_path, host)
    later.recover()
    ended = later.outcome(kind='freeze_ended')
    assert (ended['result'], ended['reason']) == ('lost', 'restarted')
    assert ended['frozen_for'] is None
    assert list(later.journal.servers()) == []


def test_an_unreadable_record_thaws_its_guest(tmp_path, host, guest):
    life = lives.Life(tmp_path, host)
    life.quiesce()
    path, = life.journal.folder.iterdir()
    path.write_text('{')
    later = lives.Life(tmp_path, host)
    later.recover()
    assert guest.agent.frozen == 0
    assert list(later.journal.servers()) == []


def test_an_overdue_record_is_thawed_at_once(tmp_path, host, guest):
    life = lives.Life(tmp_path, host)
    life.quiesce(timeout=0.05)
    later = lives.Life(tmp_path, host)
    time.sleep(0.1)
    later.recover()
    assert later.outcome(kind='freeze_ended')['reason'] == 'deadline'
    assert guest.agent.frozen == 0
