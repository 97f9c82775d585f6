# SPDX-License-Identifier: Apache-2.0
"""Snapshots and merges of servers in every state, and what is refused."""

import contextlib

import libvirt
import pytest

from tests.integration.volume_snapshots.bench import PROJECT
from tests.integration.volume_snapshots.bench import Bench
from tests.integration.volume_snapshots.bench import qemu_img
from tests.integration.volume_snapshots.daemon import Stillframe
from tests.integration.volume_snapshots.daemon import open_cinder
from tests.lab import cinder_dialects
from tests.lab.cinder_double import CinderDouble
from tests.lab.guests import Guest
from tests.lab.processes import wait_until

STOCK = {'status_form': 'stock'}


@pytest.fixture(scope='module')
def around(host_a):
    """A Stillframe and a stand-in for Cinder, for all tests here."""
    with contextlib.ExitStack() as stack:
        double = stack.enter_context(CinderDouble(cinder_dialects.STOCK))
        yield stack.enter_context(Stillframe(host_a, cinder={
            **STOCK, **open_cinder(double.endpoint, PROJECT)})), double


@pytest.fixture
def new(around, host_a):
    """Make a bench with a guest of its own; call it with its options."""
    with contextlib.ExitStack() as stack:
        def make(name, **options):
            guest = stack.enter_context(Guest(host_a, name, **options))
            return Bench(host_a, guest, *around)
        yield make


def error(bench, snapshot):
    """Wait until a request failed; give the sentence."""
    return bench.stillframe.wait_shown(snapshot, state='error')['message']


def test_paused(new):
    bench = new('paused')
    bench.write('a')
    bench.guest.pause()
    bench.stillframe.wait_status(bench.guest.uuid, 'PAUSED')
    snapshot, name = bench.create()
    shown = bench.stillframe.shown(snapshot)
    assert shown['consistency'] == 'crash'
    assert 'not running' in shown['freeze']['reason']
    assert bench.guest.domain.info()[0] == 3
    bench.check_chain(name, bench.base)
    second, top = bench.create()
    bench.delete(snapshot, name, bench.base)
    bench.check_chain(top, bench.base)
    bench.guest.resume()
    bench.check_data()
    bench.cold_start()


def test_stopped(new):
    """All shapes, by qemu-img, with the definition kept in step."""
    bench = new('stopped')
    bench.write('a')
    bench.guest.destroy()
    bench.stillframe.wait_status(bench.guest.uuid, 'SHUTOFF')
    made = [bench.create_stopped() for _ in range(4)]
    names = [name for _, name in reversed(made)] + [bench.base]
    shown = bench.stillframe.shown(made[0][0])
    assert shown['consistency'] == 'crash'
    # Down into the lowest; up with others below; the active one down.
    bench.delete(made[0][0], names[3], bench.base)
    del names[3]
    bench.check_stopped(*names)
    bench.delete(made[3][0], names[2], None)
    del names[1]
    bench.check_stopped(*names)
    shown = bench.delete(made[1][0], names[0], names[1])
    assert shown['file_format'] == {names[1]: 'qcow2'}
    del names[0]
    bench.check_stopped(*names)
    bench.cold_start()
    bench.check_chain(*names)
    bench.guest.destroy()
    bench.stillframe.wait_status(bench.guest.uuid, 'SHUTOFF')
    bench.delete(made[2][0], None, None)
    bench.check_stopped(names[0])
    bench.cold_start()


def test_without_an_agent(new):
    bench = new('agentless', agent=False)
    snapshot, _ = bench.create()
    shown = bench.stillframe.shown(snapshot)
    assert shown['consistency'] == 'crash'
    assert shown['freeze']['by'] is None
    assert 'No guest agent' in shown['freeze']['reason']


def test_a_freeze_is_required(new):
    bench = new('required', agent=False, metadata=(
        '<snapshot xmlns="urn:stillframe:snapshot:1" '
        'require_quiesce="yes"/>'))
    snapshot, _ = bench.ask_create()
    assert 'os_require_quiesce' in error(bench, snapshot)
    bench.wait_told(snapshot, 'error')
    bench.check_chain(bench.base)


def test_the_hook_fails(new):
    bench = new('hook')
    bench.guest.set_hook(fail=True)
    snapshot, _ = bench.create()
    shown = bench.stillframe.shown(snapshot)
    assert shown['consistency'] == 'crash'
    assert 'failed to freeze' in shown['freeze']['reason']
    assert not bench.guest.frozen()
    # Frozen by a stranger: left alone.
    bench.guest.set_hook()
    bench.guest.freeze()
    snapshot, _ = bench.create()
    assert bench.stillframe.shown(snapshot)['consistency'] == 'crash'
    assert bench.guest.frozen()
    bench.guest.thaw()


def test_a_thaw_that_fails_is_no_failed_snapshot(new):
    bench = new('thaw')
    # The file systems are thawed, but the agent never says so.
    bench.guest.run(
        'mv /bin/freeze-hook /bin/old-hook; printf "#!/bin/sh\\n'
        '[ \\$1 = thaw ] && kill -STOP \\$PPID\\nexit 0\\n" '
        '>/bin/freeze-hook; chmod 755 /bin/freeze-hook')
    snapshot, name = bench.create()
    shown = bench.stillframe.shown(snapshot)
    assert shown['freeze']['by'] == 'snapshot'
    assert shown['freeze']['verified_thawed'] is False, shown
    assert shown['consistency'] == 'crash'
    bench.check_chain(name, bench.base)
    bench.guest.run('mv /bin/old-hook /bin/freeze-hook')
    bench.guest.wake_agent()
    wait_until(lambda: thawed(bench.guest), 60, 'the thaw', 0.5)


def thawed(guest):
    """Tell whether the agent says so, which was away for long."""
    with contextlib.suppress(libvirt.libvirtError):
        return not guest.frozen()


@pytest.fixture(scope='module')
def lasting(around, host_a):
    """A bench for tests that leave it as it was."""
    with Guest(host_a, 'refused', disk_count=2) as guest:
        yield Bench(host_a, guest, *around)


class TestRefused:
    """Nothing is changed, and Cinder is told at once."""

    def refused(self, lasting, name, says):
        snapshot, _ = lasting.ask_create(name)
        assert says in error(lasting, snapshot)
        lasting.wait_told(snapshot, 'error')
        lasting.check_chain(lasting.base)

    def test_a_header_that_calls_raw_qcow2(self, lasting):
        self.refused(lasting, lasting.overlay(claim='qcow2'), 'is qcow2, but')

    def test_an_absolute_name(self, lasting):
        name = lasting.overlay()
        qemu_img('rebase', '-u', '-f', 'qcow2', '-b',
                 lasting.folder / lasting.base, '-F', 'raw',
                 lasting.folder / name)
        self.refused(lasting, name, 'without a folder')

    def test_a_missing_file(self, lasting):
        self.refused(lasting, 'nothing', 'cannot be read')

    def test_another_size(self, lasting):
        name = lasting.overlay()
        qemu_img('resize', '-q', '-f', 'qcow2', lasting.folder / name, '+1M')
        self.refused(lasting, name, 'the disk has')

    def test_data_in_another_file(self, lasting):
        name = f'{lasting.base}.data'
        qemu_img('create', '-f', 'qcow2', '-o',
                 f'data_file={lasting.folder}/secret', lasting.folder / name,
                 '48M')
        self.refused(lasting, name, 'in another file')

    def test_the_active_file_itself(self, lasting):
        """Asked twice, it is there already; the disk is switched once."""
        snapshot, name = lasting.create()
        again, _ = lasting.ask_create(name)
        shown = lasting.stillframe.wait_shown(again, state='done')
        assert 'already' in shown['message']
        lasting.check_chain(name, lasting.base)
        lasting.delete(snapshot, name, lasting.base)
        lasting.check_chain(lasting.base)

    @pytest.mark.parametrize(('file', 'target'), [
        ('nothing', None), ('nothing', 'base'), ('base', 'nothing')])
    def test_files_that_are_not_there(self, lasting, file, target):
        words = {'base': lasting.base}
        snapshot = f'merge-{file}-{target}'
        lasting.ask_delete(snapshot, words.get(file, file),
                         words.get(target, target))
        assert 'not in the chain' in error(lasting, snapshot)
        lasting.wait_told(snapshot, 'error_deleting')
        lasting.check_chain(lasting.base)

    def test_another_disk_stays(self, lasting):
        """libvirt would give each disk that is not named an overlay."""
        snapshot, name = lasting.create()
        other = str(lasting.guest.disks[1].path)
        assert f"file='{other}'" in lasting.guest.domain.XMLDesc()
        lasting.delete(snapshot, name, lasting.base)


class TestWhileAnotherRuns:

    def test_one_at_a_time_and_twice(self, new_bench):
        bench = new_bench(cinder=STOCK,
                          volume_snapshots={'merge_bandwidth': 1})
        bench.write('a', 8)
        first, a = bench.create()
        bench.write('b', 8)
        bench.ask_delete(first, None, None)
        bench.wait_job()
        for answer in (
                bench.stillframe.delete(bench.volume, first, None, None),
                bench.stillframe.create(bench.volume, 'other', 'other')):
            assert answer.status_code == 409
            assert f'deleting snapshot {first} is not finished' in (
                answer.json()['conflictingRequest']['message'])
        shown = bench.stillframe.wait_shown(first, operation='delete',
                                            state='running')
        wait_until(lambda: bench.stillframe.shown(first)['progress']
                   not in ('0%', shown['progress']), 20, 'progress')
        bench.hurry()
        bench.wait_told(first, 'gone')
        bench.check_chain(a)
        # Twice: there is nothing left to merge, and that is a success.
        shown = bench.delete(first, None, None)
        assert 'already' in shown['message']
        bench.check_data()
