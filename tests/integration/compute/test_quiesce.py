# SPDX-License-Identifier: Apache-2.0
"""The main job of the worker on a real guest."""

import time

from tests.lab.processes import wait_until


def test_quiesce_and_unquiesce(worker, guest):
    guest.wait_counter(guest.counter())
    freeze_id = worker.quiesce(guest.uuid)
    frozen = worker.outcome(request_id=freeze_id)
    assert (frozen['kind'], frozen['result']) == ('quiesce', 'success')
    assert frozen['filesystems'] == 1
    assert frozen['freeze_call'] > 0
    assert guest.frozen()
    writes = guest.block_writes()
    time.sleep(1)
    assert guest.block_writes() == writes
    assert len(worker.records) == 1
    assert worker.ping() == {
        'host': 'w', 'libvirt_connected': True, 'frozen': 1}

    request_id = worker.unquiesce(guest.uuid, freeze_id)
    thawed = worker.outcome(request_id=request_id)
    assert (thawed['kind'], thawed['result']) == ('unquiesce', 'success')
    assert thawed['thawed'] == 1
    assert thawed['verified_thawed'] is True
    assert 1 < thawed['frozen_for'] < 10
    assert not guest.frozen()
    assert worker.records == []
    wait_until(lambda: 'lease' not in guest.domain.XMLDesc(), 5,
               'the lease to be taken away')
    guest.wait_counter(guest.counter())
    assert len(worker.outcomes) == 2


def test_only_the_named_mountpoints(worker, new_guest):
    two = new_guest('two', disk_count=2)
    freeze_id = worker.quiesce(two.uuid, mountpoints=['/data/vdb'])
    assert worker.outcome(request_id=freeze_id)['filesystems'] == 1
    two.wait_counter(two.counter('vda'), 'vda')
    request_id = worker.unquiesce(two.uuid, freeze_id)
    assert worker.outcome(request_id=request_id)['result'] == 'success'

    freeze_id = worker.quiesce(two.uuid)
    assert worker.outcome(request_id=freeze_id)['filesystems'] == 2
    request_id = worker.unquiesce(two.uuid, freeze_id)
    assert worker.outcome(request_id=request_id)['thawed'] == 2


def test_the_deadline(worker, guest):
    freeze_id = worker.frozen(guest.uuid, timeout=2)
    began = time.monotonic()
    ended = worker.outcome(kind='freeze_ended', freeze_id=freeze_id)
    assert ended['result'] == 'success'
    assert ended['reason'] == 'deadline'
    assert 1 < time.monotonic() - began < 3
    assert 1.9 < ended['frozen_for'] < 2.5
    assert not guest.frozen()
    worker.wait_no_record()

    late = worker.unquiesce(guest.uuid, freeze_id)
    outcome = worker.outcome(request_id=late)
    assert outcome['result'] == 'lost'
    assert outcome['reason'] == 'deadline'
    assert outcome['ended_at'] == ended['ended_at']


def test_a_second_quiesce_is_refused_and_the_first_stands(worker, guest):
    freeze_id = worker.frozen(guest.uuid)
    again = worker.quiesce(guest.uuid)
    assert worker.outcome(request_id=again)['result'] == 'cannot'
    assert guest.frozen()
    # The log can be searched for what a client has in its hands.
    assert again in next(
        line for line in worker.log.splitlines()
        if f'Server {guest.uuid} is not quiesced' in line)
    request_id = worker.unquiesce(guest.uuid, freeze_id)
    assert worker.outcome(request_id=request_id)['result'] == 'success'


def test_a_cast_that_arrives_twice_changes_nothing(worker, guest):
    freeze_id = worker.frozen(guest.uuid)
    worker.cast('quiesce_server', request_id=freeze_id,
                server_id=guest.uuid, timeout=30, mountpoints=None)
    request_id = worker.unquiesce(guest.uuid, freeze_id)
    worker.outcome(request_id=request_id)
    worker.cast('unquiesce_server', request_id=request_id,
                server_id=guest.uuid, freeze_id=freeze_id)
    worker.cast('quiesce_server', request_id=freeze_id,
                server_id=guest.uuid, timeout=30, mountpoints=None)
    worker.ping()
    last = worker.unquiesce(guest.uuid, freeze_id)
    assert worker.outcome(request_id=last)['result'] == 'lost'
    assert [one['request_id'] for one in worker.outcomes] == [
        freeze_id, request_id, last]
    assert not guest.frozen()


def test_unquiesce_of_another_freeze_leaves_this_one(worker, guest):
    freeze_id = worker.frozen(guest.uuid)
    wrong = worker.unquiesce(guest.uuid, 'req-something-else')
    assert worker.outcome(request_id=wrong)['result'] == 'lost'
    assert guest.frozen()
    request_id = worker.unquiesce(guest.uuid, freeze_id)
    assert worker.outcome(request_id=request_id)['result'] == 'success'


def test_reset_of_a_quiesced_server_thaws_it(worker, guest):
    worker.frozen(guest.uuid)
    request_id = worker.reset(guest.uuid, 'error')
    outcome = worker.outcome(request_id=request_id)
    assert (outcome['kind'], outcome['result'], outcome['state']) == (
        'reset', 'success', 'error')
    assert outcome['verified_thawed'] is True
    assert not guest.frozen()


def test_reset_thaws_what_somebody_else_froze(worker, guest):
    guest.freeze()
    request_id = worker.reset(guest.uuid)
    outcome = worker.outcome(request_id=request_id)
    assert outcome['verified_thawed'] is True
    assert outcome['thawed'] == 1
    assert not guest.frozen()


def test_a_freeze_nobody_waits_for_any_more_is_thawed(worker, guest):
    worker.answer(verdict='stale')
    try:
        freeze_id = worker.frozen(guest.uuid)
        ended = worker.outcome(kind='freeze_ended', freeze_id=freeze_id)
    finally:
        worker.answer(verdict='applied')
    assert (ended['result'], ended['reason']) == ('success', 'stale')
    assert not guest.frozen()


def test_the_overhead_of_a_freeze(worker, guest):
    """REST and RPC come on top, and 25 ms is all there is for all."""
    overheads = []
    for _ in range(10):
        began = time.monotonic()
        freeze_id = worker.quiesce(guest.uuid)
        outcome = worker.outcome(request_id=freeze_id)
        overheads.append(time.monotonic() - began - outcome['freeze_call'])
        request_id = worker.unquiesce(guest.uuid, freeze_id)
        worker.outcome(request_id=request_id)
    assert sorted(overheads)[5] < 0.1, overheads
