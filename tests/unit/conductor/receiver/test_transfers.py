# SPDX-License-Identifier: Apache-2.0
"""One transfer and its uploads."""

import threading

import pytest

from stillframe.conductor.receiver import body as bodies
from stillframe.conductor.receiver import errors
from stillframe.conductor.receiver import transfers
from stillframe.states.transfers import State


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def transfer(clock):
    return transfers.Transfer('n', 's', transfers.hash_of('secret'),
                              clock=clock)


class Line:
    """An upload whose bytes the test sends."""

    def __init__(self, clock, length=100):
        self.body = bodies.Body(self.receive, b'', length)
        self.cuts = threading.Event()
        self.upload = transfers.Upload(self.body, length, self.cuts.set,
                                       clock)

    def receive(self, into):
        return len(into)

    def take(self, count):
        self.body.fill(memoryview(bytearray(count)))


def test_the_password(transfer):
    assert transfer.knows('secret')
    assert not transfer.knows('secret ')
    assert not transfer.knows('')
    assert not transfer.knows(transfers.hash_of('secret'))
    transfer.close()
    assert not transfer.knows('secret')


def test_from_nothing_to_finished(transfer, clock):
    line = Line(clock)
    transfer.begin(line.upload)
    line.take(40)
    clock.now += 2
    found = transfer.progress()
    assert (found.bytes, found.total, found.receiving) == (40, 100, True)
    assert found.rate == 20.0
    with pytest.raises(errors.NotArrived, match='still runs'):
        transfer.finish()
    line.take(60)
    transfer.keep(100, 'abc')
    transfer.end(None)
    found = transfer.progress()
    assert (found.bytes, found.total, found.state, found.receiving) == (
        100, 100, State.ARRIVED, False)
    transfer.finish()
    transfer.finish()
    assert transfer.state is State.FINISHED
    for call in (lambda: transfer.begin(Line(clock).upload), transfer.drop):
        with pytest.raises(errors.Finished):
            call()


def test_one_at_a_time(transfer, clock):
    transfer.begin(Line(clock).upload)
    clock.now += 4
    with pytest.raises(errors.Busy, match=r'4 s ago'):
        transfer.begin(Line(clock).upload)


def test_one_that_grows_is_not_silent(transfer, clock):
    line = Line(clock)
    transfer.begin(line.upload)
    for _ in range(3):
        clock.now += 4
        line.take(10)
        with pytest.raises(errors.Busy):
            transfer.begin(Line(clock).upload)


def test_a_silent_one_gives_way(transfer, clock):
    old, new = Line(clock), Line(clock)
    transfer.begin(old.upload)
    clock.now += 6

    def ends():
        assert old.cuts.wait(10)
        transfer.end('it was cut off')

    thread = threading.Thread(target=ends)
    thread.start()
    transfer.begin(new.upload)
    thread.join()
    assert not new.cuts.is_set()
    assert transfer.progress().receiving


def test_why_it_failed_is_told(transfer, clock):
    transfer.begin(Line(clock).upload)
    transfer.end('the disk is full')
    assert transfer.progress().reason == 'the disk is full'
    with pytest.raises(errors.NotArrived, match='the disk is full'):
        transfer.finish()


def test_nothing_was_sent(transfer):
    with pytest.raises(errors.NotArrived, match='nothing was sent'):
        transfer.finish()


def test_closing_cuts_and_waits(transfer, clock):
    line = Line(clock)
    transfer.begin(line.upload)

    def ends():
        assert line.cuts.wait(10)
        with pytest.raises(errors.Revoked):
            transfer.keep(100, 'abc')
        transfer.end('it was cut off')

    thread = threading.Thread(target=ends)
    thread.start()
    assert transfer.close()
    thread.join()
    with pytest.raises(errors.Revoked):
        transfer.begin(Line(clock).upload)


def test_one_that_does_not_end(transfer, clock, monkeypatch):
    monkeypatch.setattr(transfers, '_CUT_TIMEOUT', 0.01)
    transfer.begin(Line(clock).upload)
    assert not transfer.close()


def test_room_that_was_promised(transfer, clock):
    assert transfer.outstanding() == 0
    line = Line(clock)
    line.upload.reserved = 100
    transfer.begin(line.upload)
    line.take(30)
    assert transfer.outstanding() == 70
