# SPDX-License-Identifier: Apache-2.0
"""A worker that is killed at any moment.

Every change of something durable is a moment: the worker dies right before
or right after it. Whatever the moment, the next life ends in the same
place: the guest thawed, or frozen with a record whose deadline stands; each
request answered once; no record without a reason.
"""

import pytest

from stillframe.compute import clock
from stillframe.compute import endings
from stillframe.compute import files
from stillframe.compute import journal
from tests.unit.compute import hypervisor
from tests.unit.compute import lives


class Killed(BaseException):
    """The end of a life."""


class Executioner:
    """Kills at the n-th change of something durable."""

    def __init__(self, monkeypatch, guest):
        self.moment = None
        self.count = 0
        for name in ('write', 'remove'):
            monkeypatch.setattr(files, name,
                                self._around(getattr(files, name)))
        for name in ('freeze', 'thaw'):
            monkeypatch.setattr(guest.agent, name,
                                self._around(getattr(guest.agent, name)))

    def _around(self, call):
        def around(*args, **how):
            self._maybe()
            result = call(*args, **how)
            self._maybe()
            return result
        return around

    def _maybe(self):
        self.count += 1
        if self.count == self.moment:
            raise Killed


# A life has fewer moments than this; the tests check it.
MOMENTS = range(1, 40)


def live(life, *calls):
    """Do things until killed; tell whether it was."""
    try:
        for call in calls:
            call(life)
    except Killed:
        return True
    return False


def settled(life, guest):
    """Check what has to be true after every story."""
    for record in life.ledger.records():
        if record.ending and record.ending.kind == endings.WATCHED:
            # It was cut off before the answer, so the freeze may still be
            # on its way; time passes, and it is not any more.
            assert record.may_freeze_until < clock.now() + 40
            life.ledger.write(record.having(may_freeze_until=clock.now()))
            life.alarms.go_off('retry')
    records = [life.journal.read(one) for one in life.journal.servers()]
    if guest.agent.frozen:
        assert [record.state for record in records] == [journal.FROZEN]
        assert 0 < records[0].remaining() <= 60
        assert ('deadline', lives.SERVER) in life.alarms.pending
    else:
        assert records == []
        assert guest.carried is None
    ids = [one['id'] for one in life.outcomes()]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize('moment', MOMENTS)
def test_killed_while_quiescing(tmp_path, monkeypatch, moment):
    host = lives.new_host()
    guest = host.guests[lives.SERVER]
    executioner = Executioner(monkeypatch, guest)
    executioner.moment = moment
    first = lives.Life(tmp_path, host)
    killed = live(first, lambda life: life.quiesce())
    assert killed == (executioner.count >= moment)
    executioner.moment = None

    second = lives.Life(tmp_path, host)
    second.recover()
    settled(second, guest)
    told = [one for one in second.outcomes()
            if one['request_id'] == 'req-freeze']
    if guest.agent.frozen:
        assert [one['result'] for one in told] == ['success']
    elif killed and not told:
        # It died before it had written anything down.
        assert guest.agent.calls == ['status'] or not guest.agent.calls
    else:
        assert [one['result'] for one in told] == ['failed']
        assert told[0]['verified_thawed'] is True


@pytest.mark.parametrize('moment', MOMENTS)
def test_killed_while_unquiescing(tmp_path, monkeypatch, moment):
    host = lives.new_host()
    guest = host.guests[lives.SERVER]
    executioner = Executioner(monkeypatch, guest)
    first = lives.Life(tmp_path, host)
    first.quiesce()
    executioner.count = 0
    executioner.moment = moment
    killed = live(first, lambda life: life.unquiesce())
    executioner.moment = None

    second = lives.Life(tmp_path, host)
    second.recover()
    settled(second, guest)
    if guest.agent.frozen:
        # Nothing of the request had been written down; the conductor asks
        # again or gives it up, and the deadline stands.
        assert killed
        assert second.unquiesce()['result'] == 'success'
        settled(second, guest)
    told = second.outcome(request_id='req-thaw')
    assert told['result'] in ('success', 'lost')
    if not killed:
        assert told['result'] == 'success'


@pytest.mark.parametrize('moment', MOMENTS)
def test_killed_at_the_deadline(tmp_path, monkeypatch, moment):
    host = lives.new_host()
    guest = host.guests[lives.SERVER]
    executioner = Executioner(monkeypatch, guest)
    first = lives.Life(tmp_path, host)
    first.quiesce()
    executioner.count = 0
    executioner.moment = moment
    live(first, lambda life: life.alarms.go_off('deadline'))
    executioner.moment = None

    second = lives.Life(tmp_path, host)
    second.recover()
    settled(second, guest)
    if not guest.agent.frozen:
        ended = second.outcome(kind='freeze_ended')
        assert ended['freeze_id'] == 'req-freeze'
        assert ended['result'] in ('success', 'lost')


@pytest.mark.parametrize('moment', MOMENTS)
def test_killed_while_undoing_a_failed_freeze(tmp_path, monkeypatch, moment):
    host = lives.new_host()
    guest = host.guests[lives.SERVER]
    guest.agent.faults = [None, hypervisor.trouble()]
    executioner = Executioner(monkeypatch, guest)
    executioner.moment = moment
    first = lives.Life(tmp_path, host)
    live(first, lambda life: life.quiesce())
    executioner.moment = None
    guest.agent.faults = []

    second = lives.Life(tmp_path, host)
    second.recover()
    settled(second, guest)
    assert not guest.agent.frozen
    for one in second.outcomes():
        assert one['request_id'] == 'req-freeze'
        assert one['result'] == 'failed'


def test_no_story_has_more_moments(tmp_path, monkeypatch):
    host = lives.new_host()
    executioner = Executioner(monkeypatch, host.guests[lives.SERVER])
    life = lives.Life(tmp_path, host)
    life.quiesce()
    life.unquiesce()
    assert 10 < executioner.count < MOMENTS.stop
