# SPDX-License-Identifier: Apache-2.0
"""What cannot be quiesced, and is told apart from what went wrong.

Each ends in *cannot* with a sentence, and nothing was done to the guest.
"""

import os
import signal
import time

import pytest


def refused(worker, server_id, **how):
    outcome = worker.outcome(request_id=worker.quiesce(server_id, **how))
    assert outcome['result'] == 'cannot', outcome
    assert outcome['message'].endswith('.')
    assert worker.records == []
    return outcome['reason']


def test_no_channel(worker, new_guest):
    assert refused(worker, new_guest('nochannel', channel=False).uuid) == (
        'no_channel')


def test_a_channel_but_no_agent(worker, new_guest):
    assert refused(worker, new_guest('noagent', agent=False).uuid) == (
        'agent_not_connected')


def test_an_agent_that_hangs_and_wakes_later(worker, guest):
    guest.hang_agent()
    try:
        assert refused(worker, guest.uuid) == 'agent_silent'
    finally:
        guest.wake_agent()
    # Nothing was queued that would freeze it now.
    time.sleep(1)
    assert not guest.frozen()


def test_frozen_by_something_else_which_goes_on(worker, guest):
    guest.freeze()
    assert refused(worker, guest.uuid) == 'already_frozen'
    assert guest.frozen()


def test_no_file_system_to_freeze(worker, guest):
    assert refused(worker, guest.uuid, mountpoints=['/nowhere']) == (
        'nothing_frozen')
    assert not guest.frozen()


def test_a_guest_without_disks(worker, new_guest):
    diskless = new_guest('diskless', disk_count=0)
    assert refused(worker, diskless.uuid) == 'nothing_frozen'


def test_paused(worker, guest):
    guest.pause()
    try:
        assert refused(worker, guest.uuid) == 'not_running'
    finally:
        guest.resume()


def test_shut_off_and_unknown(worker, new_guest):
    off = new_guest('off')
    off.destroy()
    assert refused(worker, off.uuid) == 'gone'
    off.undefine()
    assert refused(worker, off.uuid) == 'gone'


@pytest.mark.parametrize('kind', ['no journal', 'no guard'])
def test_a_host_that_cannot_keep_the_promise(new_worker, guest, kind):
    with new_worker() as worker:
        if kind == 'no journal':
            # A folder where the record is first written.
            (worker.path / 'state/freezes'
             / f'{guest.uuid}.freeze.json.tmp').mkdir()
            assert refused(worker, guest.uuid) == 'no_journal'
        else:
            # With a folder where its socket should be it cannot start.
            place = worker.path / 'state/guard.sock'
            guard_pid = worker.wait_guard()
            place.unlink()
            place.mkdir()
            os.kill(guard_pid, signal.SIGKILL)
            assert refused(worker, guest.uuid) == 'no_guard'
        assert not guest.frozen()


def test_a_hypervisor_that_cannot(new_worker, guest):
    with new_worker(connection_uri='test:///default') as worker:
        assert refused(worker, guest.uuid) == 'unsupported'
        service = worker.wait(lambda: worker.services, 10, 'a report')[0]
        assert 'only QEMU' in service['capabilities']['missing'][0]
