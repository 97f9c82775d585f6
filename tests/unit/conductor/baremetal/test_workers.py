# SPDX-License-Identifier: Apache-2.0
"""Threads that work on nodes: in order, once, and none refused."""

import threading

import pytest

from stillframe.conductor.baremetal import workers

PATIENCE = 30


@pytest.fixture
def pool():
    made = workers.Workers('test', 2)
    yield made
    made.stop(PATIENCE)


class Gate:
    """A piece of work that waits to be let through."""

    def __init__(self):
        self.began = threading.Event()
        self.go = threading.Event()

    def __call__(self):
        self.began.set()
        assert self.go.wait(PATIENCE)


def done(pool, key, what='last'):
    """Wait until all work of a key that was asked for is done."""
    ended = threading.Event()
    pool.submit(key, what, ended.set)
    assert ended.wait(PATIENCE)


def test_work_of_a_node_comes_one_after_the_other(pool):
    gate, order = Gate(), []
    pool.submit('a', 'first', gate)
    assert gate.began.wait(PATIENCE)
    pool.submit('a', 'second', lambda: order.append('second'))
    pool.submit('a', 'third', lambda: order.append('third'))
    # Another node's goes on meanwhile.
    done(pool, 'b')
    assert not order
    assert pool.has('a')
    gate.go.set()
    done(pool, 'a')
    assert order == ['second', 'third']


def test_the_same_work_is_done_once(pool):
    gate, count = Gate(), []
    pool.submit('a', 'first', gate)
    assert gate.began.wait(PATIENCE)
    for _ in range(100):
        pool.submit('a', 'heartbeat', lambda: count.append(1))
    gate.go.set()
    done(pool, 'a')
    assert count == [1]


def test_more_than_there_are_threads_waits(pool):
    gates = [Gate() for _ in range(5)]
    for at, gate in enumerate(gates):
        pool.submit(str(at), 'work', gate)
    assert gates[0].began.wait(PATIENCE)
    assert gates[1].began.wait(PATIENCE)
    assert not gates[2].began.is_set()
    for gate in gates:
        gate.go.set()
    for gate in gates:
        assert gate.began.wait(PATIENCE)


def test_what_fails_stops_nothing(pool):
    def fail():
        raise RuntimeError('on purpose')

    pool.submit('a', 'fails', fail)
    done(pool, 'a')
    done(pool, 'b')


def test_nothing_begins_after_the_end():
    pool = workers.Workers('test', 2)
    gate, late = Gate(), []
    pool.submit('a', 'first', gate)
    assert gate.began.wait(PATIENCE)
    pool.submit('a', 'second', lambda: late.append(1))
    gate.go.set()
    pool.stop(PATIENCE)
    pool.submit('b', 'third', lambda: late.append(1))
    assert late in ([], [1])
    assert not pool.has('b')


def test_what_does_not_end_is_left():
    pool = workers.Workers('test', 2)
    gate = Gate()
    pool.submit('a', 'first', gate)
    assert gate.began.wait(PATIENCE)
    pool.stop(0.1)
    assert pool.has('a')
    gate.go.set()


def test_many_at_once():
    pool = workers.Workers('test', 8)
    lock, counts = threading.Lock(), {}

    def count(key):
        with lock:
            counts[key] = counts.get(key, 0) + 1

    for turn in range(20):
        for key in range(50):
            pool.submit(str(key), str(turn), lambda key=key: count(key))
    for key in range(50):
        done(pool, str(key))
    pool.stop(PATIENCE)
    assert set(counts.values()) == {20}
