# SPDX-License-Identifier: Apache-2.0
"""Trouble in the middle of snapshots and merges.

After each: Cinder was told the truth, the next request works, and what the
guest wrote is there after a cold start.
"""

from collections.abc import Iterator
import contextlib
import os
import subprocess
import time

import pytest

from tests.integration.volume_snapshots.bench import Bench
from tests.lab.libvirtd import Libvirtd
from tests.lab.processes import LabError
from tests.lab.processes import wait_until

STOCK = {'status_form': 'stock'}
SLOW = {'merge_bandwidth': 1}


def slow_merge(bench: Bench) -> tuple[str, str, str]:
    """Begin a merge that takes seconds; give snapshot, file and active."""
    bench.write('a', 8)
    snapshot, name = bench.create()
    bench.write('b', 20)
    _, top = bench.create()
    bench.write('c', 2)
    bench.ask_delete(snapshot, name, bench.base)
    bench.wait_job()
    return snapshot, name, top


def merge_again(bench: Bench, snapshot: str, name: str, top: str) -> None:
    """Have a merge that failed done after all, and check all data."""
    bench.ask_delete(snapshot, name, bench.base)
    bench.wait_job()
    bench.hurry()
    bench.wait_told(snapshot, 'gone')
    bench.check_chain(top, bench.base)
    bench.cold_start()


def failed(bench: Bench, snapshot: str, says: str) -> dict:
    """Wait until a merge failed, and Cinder knows; give what is shown."""
    shown = bench.stillframe.wait_shown(snapshot, operation='delete',
                                        state='error')
    assert says in shown['message']
    bench.wait_told(snapshot, 'error_deleting')
    assert bench.told(snapshot)[-1] == {'status': 'error_deleting'}
    assert bench.double.violations == []
    return shown


class TestMerge:

    @pytest.fixture
    def bench(self, new_bench):
        return new_bench(cinder=STOCK, volume_snapshots=SLOW)

    def test_cancelled_from_outside(self, bench):
        snapshot, name, top = slow_merge(bench)
        bench.guest.domain.blockJobAbort('vda', 0)
        failed(bench, snapshot, 'cancelled by somebody')
        bench.check_chain(top, name, bench.base)
        merge_again(bench, snapshot, name, top)

    def test_the_worker_is_killed(self, bench):
        """It finds the job, and finishes it."""
        snapshot, _, top = slow_merge(bench)
        bench.stillframe.kill()
        bench.stillframe.start()
        assert bench.wait_job()
        bench.hurry()
        bench.stillframe.wait_shown(snapshot, operation='delete',
                                    state='done')
        bench.wait_told(snapshot, 'gone')
        bench.check_chain(top, bench.base)
        bench.cold_start()

    def test_the_job_ends_while_nobody_looks(self, bench):
        """It finds the result, and reports it."""
        snapshot, _, top = slow_merge(bench)
        bench.stillframe.kill()
        bench.hurry()
        wait_until(lambda: not bench.guest.domain.blockJobInfo('vda', 0),
                   30, 'the merge')
        bench.stillframe.start()
        bench.stillframe.wait_shown(snapshot, operation='delete',
                                    state='done')
        bench.wait_told(snapshot, 'gone')
        bench.check_chain(top, bench.base)
        bench.cold_start()

    def test_the_job_fails_while_nobody_looks(self, bench):
        snapshot, name, top = slow_merge(bench)
        bench.stillframe.kill()
        bench.guest.domain.blockJobAbort('vda', 0)
        bench.stillframe.start()
        failed(bench, snapshot, 'without having been done')
        merge_again(bench, snapshot, name, top)

    def test_the_guest_is_stopped(self, bench):
        snapshot, name, top = slow_merge(bench)
        bench.guest.destroy()
        failed(bench, snapshot, 'stopped while')
        bench.guest.start()
        bench.guest.wait_booted()
        bench.check_chain(top, name, bench.base)
        merge_again(bench, snapshot, name, top)

    def test_the_worker_stops_and_starts(self, bench):
        snapshot, _, top = slow_merge(bench)
        bench.stillframe.restart()
        bench.hurry()
        bench.wait_told(snapshot, 'gone')
        bench.check_chain(top, bench.base)
        bench.cold_start()

    def test_quiesce_goes_well_with_a_merge(self, bench):
        snapshot, _, top = slow_merge(bench)
        bench.stillframe.act(bench.guest.uuid, quiesce=None)
        bench.stillframe.wait_status(bench.guest.uuid, 'QUIESCED')
        bench.hurry()
        bench.wait_told(snapshot, 'gone')
        assert bench.guest.frozen()
        bench.stillframe.act(bench.guest.uuid, unquiesce=None)
        bench.stillframe.wait_status(bench.guest.uuid, 'ACTIVE')
        bench.check_chain(top, bench.base)

    def test_cinder_is_down_when_it_ends(self, bench):
        snapshot, _, top = slow_merge(bench)
        bench.double.down()
        bench.hurry()
        shown = bench.stillframe.wait_shown(snapshot, operation='delete',
                                            state='done')
        assert shown['cinder']['delivery'] == 'due'
        bench.check_chain(top, bench.base)
        bench.double.up()
        bench.wait_told(snapshot, 'gone')


def test_it_takes_too_long(new_bench):
    bench = new_bench(cinder=STOCK, volume_snapshots={
        'merge_bandwidth': 1, 'merge_timeout': 2})
    snapshot, name, top = slow_merge(bench)
    failed(bench, snapshot, 'took longer than 2 s')
    bench.check_chain(top, name, bench.base)
    bench.cold_start()


@pytest.mark.parametrize('how', ['restart', 'kill'])
def test_libvirtd_is_restarted(new_bench, own_host, how):
    bench = new_bench(cinder=STOCK, volume_snapshots=SLOW, host=own_host)
    snapshot, _, top = slow_merge(bench)
    if how == 'kill':
        own_host.kill()
        own_host.start()
    else:
        own_host.restart()
    assert bench.wait_job()
    bench.hurry()
    bench.wait_told(snapshot, 'gone')
    bench.check_chain(top, bench.base)
    # And one that is made while it is away.
    own_host.disconnect()
    own_host.daemon.terminate()
    name = bench.overlay(top)
    snapshot, _ = bench.ask_create(name)
    own_host.start()
    shown = wait_until(
        lambda: (found := bench.stillframe.shown(snapshot))['state']
        in ('done', 'error') and found, 60, 'an end')
    if shown['state'] == 'done':
        bench.wait_told(snapshot, 'available')
        bench.check_chain(name, top, bench.base)
    else:
        bench.wait_told(snapshot, 'error')
        bench.check_chain(top, bench.base)
    bench.cold_start()


def test_killed_when_it_was_taken_up_and_not_begun(new_bench, own_host):
    """A new file comes too late then; a merge does not."""
    bench = new_bench(cinder=STOCK, host=own_host)
    bench.write('a', 2)
    snapshot, name = bench.create()

    def killed(ask):
        own_host.suspend()
        try:
            asked = ask()
            wait_until(lambda: bench.stillframe.shown(
                asked)['state'] == 'running', 20, 'the claim', 0.05)
            bench.stillframe.kill()
        finally:
            own_host.resume()
        bench.stillframe.start()
        return asked

    other = bench.overlay()
    late = killed(lambda: bench.ask_create(other)[0])
    shown = bench.stillframe.wait_shown(late, state='error')
    assert 'interrupted before the disk was switched' in shown['message']
    bench.wait_told(late, 'error')
    bench.check_chain(name, bench.base)

    def merge():
        bench.ask_delete(snapshot, name, bench.base)
        return snapshot

    killed(merge)
    bench.stillframe.wait_shown(snapshot, state='done')
    bench.wait_told(snapshot, 'gone')
    bench.check_chain(bench.base)
    bench.check_data()


@contextlib.contextmanager
def small_disk(host: Libvirtd, mib: int) -> Iterator[None]:
    """Give the hypervisor a folder for disks that is soon full."""
    if os.geteuid():
        pytest.skip('only root can mount a small file system')
    subprocess.run(['mount', '-t', 'tmpfs', '-o', f'size={mib}m,mode=777',
                    'small', host.disks], check=True, timeout=10)
    try:
        yield
    finally:
        subprocess.run(['umount', '-l', host.disks], check=True, timeout=10)


def test_the_disk_of_the_host_is_full(new_bench, own_host):
    """A pull finds no room; nothing is lost, and it can be done later."""
    with small_disk(own_host, 60):
        bench = new_bench(cinder=STOCK, host=own_host)
        bench.write('a', 20)
        snapshot, name = bench.create()
        bench.write('b', 4)
        ballast = own_host.disks / 'ballast'
        with ballast.open('wb', buffering=0) as file, contextlib.suppress(
                OSError):
            # Unbuffered: closing it must not find that the disk is full.
            while True:
                file.write(b'x' * 65536)
        bench.ask_delete(snapshot, None, None)
        failed(bench, snapshot, 'failed in the hypervisor')
        bench.check_chain(name, bench.base)
        ballast.unlink()
        if bench.guest.domain.info()[0] == 3:
            # The guest's own writes found no room either.
            bench.guest.resume()
        bench.check_data()
        bench.cold_start()
        bench.delete(snapshot, None, None)
        bench.check_chain(name)
        bench.cold_start()
        bench.guest.remove()


class TestKilledAtAnyMoment:
    """kill -9 of the worker: Cinder is told what the chain shows."""

    def settle(self, bench: Bench, snapshot: str, operation: str) -> str:
        """Wait until it is over on both sides; give the state."""
        try:
            return wait_until(
                lambda: (found := bench.stillframe.shown(snapshot))[
                    'operation'] == operation
                and found['state'] in ('done', 'error')
                and found['cinder']['delivery'] != 'due' and found,
                120, f'the end of {operation}', 0.1)['state']
        except LabError as exc:
            raise AssertionError(f'{bench.stillframe.shown(snapshot)}\n'
                                 f'{bench.stillframe.log[-4000:]}') from exc

    @pytest.mark.timeout(600)
    def test_create_and_delete(self, new_bench):
        bench = new_bench(cinder=STOCK, volume_snapshots={
            'start_timeout': 3})
        bench.write('a', 4)
        states = set()
        for delay in (0, 0.03, 0.08, 0.15, 0.3, 0.6, 1.2, 2.4, 4.8, 9.6):
            if delay > 0.3 and 'done' in {state for _, state in states}:
                # Both ways out were seen; a slow machine needs longer.
                break
            below = bench.chain()
            snapshot, name = bench.ask_create()
            time.sleep(delay)
            bench.stillframe.kill()
            bench.stillframe.start()
            state = self.settle(bench, snapshot, 'create')
            states.add(('create', state))
            if state == 'error':
                assert bench.double.snapshots[snapshot] == 'error'
                assert bench.chain() == below
                continue
            assert bench.double.snapshots[snapshot] == 'available'
            assert bench.chain() == [name, *below]
            bench.write(f'w{delay}', 2)
            bench.ask_delete(snapshot, name, below[0])
            time.sleep(delay)
            bench.stillframe.kill()
            bench.stillframe.start()
            state = self.settle(bench, snapshot, 'delete')
            states.add(('delete', state))
            if state == 'done':
                assert bench.double.snapshots[snapshot] == 'gone'
                assert bench.chain() == below
            else:
                assert bench.double.snapshots[snapshot] == 'error_deleting'
                assert bench.chain() == [name, *below]
            assert not bench.guest.frozen()
        assert {state for _, state in states} & {'done'}
        assert bench.double.violations == []
        bench.cold_start()
