# SPDX-License-Identifier: Apache-2.0
"""Reports that are kept until they were taken."""

import queue
import threading

import pytest

from stillframe import exceptions
from stillframe.compute import outbox
from stillframe.compute import outcomes
from stillframe.rpc import payloads
from stillframe.states.servers import Result


def an_outcome(number, freeze_id=None):
    return outcomes.outcome(
        'quiesce', 'server', f'req-{number}', Result.SUCCESS, 'Done.',
        started_at='now', freeze_id=freeze_id)


class Conductor:
    """Takes outcomes; is away at times."""

    def __init__(self):
        self.away = threading.Event()
        self.taken = queue.SimpleQueue()
        self.sizes = []

    def send(self, batch):
        self.sizes.append(len(batch))
        if self.away.is_set():
            raise exceptions.ServiceUnavailable(service='x', what='y')
        for one in batch:
            self.taken.put(one['request_id'])
        return [{'id': one['id'], 'verdict': payloads.APPLIED}
                for one in batch]

    def next(self):
        return self.taken.get(timeout=5)


@pytest.fixture
def conductor():
    return Conductor()


def files(tmp_path):
    return sorted((tmp_path / 'outbox').iterdir())


def test_delivered_in_order_and_forgotten(tmp_path, conductor):
    answered = queue.SimpleQueue()
    box = outbox.Outbox(tmp_path, conductor.send,
                        lambda *args: answered.put(args))
    for number in range(60):
        box.put(an_outcome(number, freeze_id=f'freeze-{number}'))
    assert len(files(tmp_path)) == 60
    box.start()
    assert [conductor.next() for _ in range(60)] == [
        f'req-{number}' for number in range(60)]
    for number in range(60):
        outcome, verdict = answered.get(timeout=5)
        assert outcome['request_id'] == f'req-{number}'
        assert verdict == payloads.APPLIED
    box.stop()
    assert files(tmp_path) == []
    assert box.delivered('freeze-59', since=0.0)
    assert not box.delivered('freeze-59', since=1e12)
    assert not box.delivered('freeze-60', since=0.0)


def test_kept_through_an_absence_and_a_life(tmp_path, conductor):
    conductor.away.set()
    box = outbox.Outbox(tmp_path, conductor.send, lambda *args: None)
    box.start()
    for number in range(3):
        box.put(an_outcome(number, freeze_id='freeze'))
    assert box.about('freeze')
    box.stop()
    assert conductor.taken.empty()

    conductor.away.clear()
    later = outbox.Outbox(tmp_path, conductor.send, lambda *args: None)
    assert len(later) == 3
    assert later.about('freeze')
    later.put(an_outcome(3))
    later.start()
    assert [conductor.next() for _ in range(4)] == [
        'req-0', 'req-1', 'req-2', 'req-3']
    later.stop()
    assert files(tmp_path) == []


def test_one_outcome_is_not_kept_twice(tmp_path, conductor):
    box = outbox.Outbox(tmp_path, conductor.send, lambda *args: None)
    box.put(an_outcome(1))
    box.put(an_outcome(1))
    assert len(box) == len(files(tmp_path)) == 1


def test_a_damaged_report_is_set_aside(tmp_path, conductor):
    box = outbox.Outbox(tmp_path, conductor.send, lambda *args: None)
    box.put(an_outcome(1))
    box.put(an_outcome(2))
    files(tmp_path)[0].write_text('{')
    (tmp_path / 'outbox/x.outcome.json.tmp').write_text('{')
    later = outbox.Outbox(tmp_path, conductor.send, lambda *args: None)
    later.start()
    assert conductor.next() == 'req-2'
    later.stop()
    assert [path.suffix for path in files(tmp_path)] == ['.damaged']


def test_what_the_conductor_does_not_mention_is_sent_again(tmp_path):
    sent = queue.SimpleQueue()
    forgetful = iter([[], None])

    def send(batch):
        sent.put([one['request_id'] for one in batch])
        answer = next(forgetful)
        if answer is None:
            answer = [{'id': one['id'], 'verdict': payloads.APPLIED}
                      for one in batch]
        return answer

    box = outbox.Outbox(tmp_path, send, lambda *args: None)
    box.put(an_outcome(1))
    box.start()
    assert sent.get(timeout=5) == ['req-1']
    assert sent.get(timeout=5) == ['req-1']
    box.stop()
    assert files(tmp_path) == []


@pytest.mark.parametrize('text', [
    'null', '[]', '{}', '"x"', '{"id": 7}', '[' * 100_000, '\0', None])
def test_what_is_no_outcome_holds_up_nobody(tmp_path, conductor, text):
    """Such a file held up all reports behind it, also of later lives."""
    folder = tmp_path / 'outbox'
    folder.mkdir()
    damaged = folder / f'{1:020d}.outcome.json'
    if text is None:
        damaged.mkdir()
    else:
        damaged.write_text(text)
    box = outbox.Outbox(tmp_path, conductor.send, lambda *args: None)
    box.put(an_outcome(1))
    box.start()
    assert conductor.next() == 'req-1'
    box.stop()
    assert [one.name for one in files(tmp_path)] == [
        damaged.name + '.damaged']
