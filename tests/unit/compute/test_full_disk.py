# SPDX-License-Identifier: Apache-2.0
"""A state path without room, on a simulated hypervisor."""

import pytest

from stillframe.compute import clock
from stillframe.compute import files
from stillframe.compute.libvirt import lease
from tests.unit.compute import lives

SERVER = lives.SERVER


def fill_the_disk(monkeypatch, after=0):
    """Let writes fail, the first ones of them excepted."""
    write, left = files.write, [after]

    def full(path, text, durably=True):
        if not left[0]:
            raise OSError(28, 'No space left on device')
        left[0] -= 1
        write(path, text, durably)

    monkeypatch.setattr(files, 'write', full)


@pytest.mark.parametrize('end', ['unquiesce', 'deadline'])
def test_a_full_disk_keeps_nobody_frozen(life, guest, monkeypatch, end):
    life.quiesce()
    fill_the_disk(monkeypatch)
    if end == 'deadline':
        life.alarms.go_off('deadline')
    else:
        life.unquiescer.unquiesce('req-thaw', SERVER, 'req-freeze')
    assert guest.agent.frozen == 0
    assert list(life.journal.servers()) == []
    # Kept in memory, for there is no room elsewhere.
    assert len(life.ledger.outbox) == 2


def test_a_disk_that_fills_up_while_the_guest_freezes(
        life, guest, monkeypatch):
    # The record is written; there is no room for anything after it.
    fill_the_disk(monkeypatch, after=1)
    life.quiescer.quiesce('req-freeze', SERVER, 60.0, None)
    assert guest.agent.frozen == 2
    assert len(life.ledger.outbox) == 1
    life.alarms.go_off('deadline')
    assert guest.agent.frozen == 0
    assert list(life.journal.servers()) == []


def test_a_lease_arrives_on_a_host_with_a_full_disk(
        life, guest, monkeypatch):
    guest.agent.frozen = 2
    guest.carried = lease.Lease('req-freeze', clock.wall_at(
        clock.now() + 30), 60.0)
    fill_the_disk(monkeypatch)
    life.watch.check(SERVER)
    life.alarms.go_off('deadline')
    assert guest.agent.frozen == 0
