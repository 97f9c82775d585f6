# SPDX-License-Identifier: Apache-2.0
"""The commands themselves."""

import os
import threading

import pytest

from stillframe.agent import command_errors
from stillframe.agent import commands
from stillframe.agent import disks
from stillframe.agent import extensions
from stillframe.agent import failures
from stillframe.agent import power
from stillframe.agent import snapshot
from tests.lab import taker

MIB = 1 << 20


@pytest.fixture
def orders():
    table = commands.Commands(extensions.build(may_power_off=False),
                              ended=lambda: None)
    yield table
    assert table.stop(60)


@pytest.fixture
def disk(tmp_path, monkeypatch):
    """The machine's only disk, of 5 GiB."""
    path = tmp_path / 'disk.raw'
    with path.open('wb') as file:
        file.truncate(5 << 30)
        file.write(os.urandom(8 * MIB))
    one = disks.Disk(str(path), path.stat().st_size, serials=('S1',))
    monkeypatch.setattr(disks, 'found', lambda: [one])
    return one


def order(server, **more):
    return {'version': 1, 'url': server.url, 'username': 'one',
            'password': 'secret', 'timeout': 20.0, **more}


def test_a_disk_is_sent(orders, disk, tmp_path):
    with taker.Taker(tmp_path / 'received') as server:
        running = orders.execute('snapshot.stream_image', order(server))
        assert running.wait(120)
    told = running.serialize()
    assert told['command_name'] == 'stream_image'
    assert told['command_error'] is None
    assert told['command_result']['sha256'] == server.digest
    assert told['command_result']['disk']['serial'] == 'S1'
    assert told['command_result']['transport'] == 'webdav'


def test_a_stream_that_hangs_is_stopped(orders, disk, tmp_path):
    manners = taker.Manners(stall_after=MIB)
    with taker.Taker(tmp_path / 'received', manners) as server:
        running = orders.execute('snapshot.stream_image',
                                 order(server, timeout=3600.0))
        assert server.stalled.wait(60)
        with pytest.raises(command_errors.AgentIsBusy):
            orders.execute('standby.sync', {})
        assert orders.execute('snapshot.ping', {}).serialize()[
            'command_status'] == 'SUCCEEDED'
        assert orders.execute('snapshot.stop', {}).serialize()[
            'command_result'] == {'stopping': True}
        assert running.wait(60)
    told = running.serialize()
    assert told['command_status'] == 'FAILED'
    assert told['command_error']['type'] == 'Stopped'
    assert orders.execute('snapshot.stop', {}).serialize()[
        'command_result'] == {'stopping': False}


@pytest.mark.parametrize('wrong, says', [
    ({'version': 2}, 'orders of version 1'),
    ({'transport': 'pigeon'}, 'transport'),
    ({'url': 'ftp://x/y'}, 'scheme'),
    ({'disk_format': 'vmdk'}, 'disk_format'),
])
def test_an_order_that_cannot_be_carried_out(orders, wrong, says):
    with pytest.raises(command_errors.InvalidCommandParamsError,
                       match=says):
        orders.execute('snapshot.stream_image', {
            'version': 1, 'url': 'https://x/y', **wrong})


def test_a_failure_says_its_kind(orders, tmp_path, monkeypatch):
    monkeypatch.setattr(disks, 'found', list)
    with taker.Taker(tmp_path / 'received') as server:
        running = orders.execute('snapshot.stream_image', order(server))
        assert running.wait(60)
    error = running.serialize()['command_error']
    assert error['type'] == 'NoDisk'
    assert 'secret' not in str(error)


def test_one_stream_at_a_time(tmp_path, monkeypatch):
    """Also where the agent's own lock is not ours."""
    inside, go = threading.Event(), threading.Event()

    class Slow:
        def __init__(self, order):
            pass

        def run(self):
            inside.set()
            assert go.wait(60)
            raise failures.Stopped('The stream was stopped.')

        def stop(self):
            go.set()

    monkeypatch.setitem(snapshot.TRANSPORTS, 'webdav', Slow)
    snapshots = snapshot.Snapshots()
    document = {'version': 1, 'url': 'https://x/y'}
    caught = []

    def first():
        try:
            snapshots.stream_image(document)
        except failures.Stopped as exc:
            caught.append(exc)

    thread = threading.Thread(target=first)
    thread.start()
    assert inside.wait(60)
    with pytest.raises(failures.BadOrder, match='Another disk'):
        snapshots.stream_image(document)
    assert snapshots.stop() == {'stopping': True}
    thread.join(60)
    assert len(caught) == 1


def test_ping_says_what_can_be_ordered(orders):
    told = orders.execute('snapshot.ping', {}).serialize()['command_result']
    assert told['order_version'] == 1
    assert 'webdav' in told['transports']


def test_hardware(orders, disk):
    told = orders.execute('poll.get_hardware_info', {}).serialize()[
        'command_result']
    assert told['disks'] == [disk.description()]
    assert told['memory']['physical_mb'] > 0
    assert told['cpu']['count'] == os.cpu_count()
    assert {'name', 'mac_address', 'has_carrier'} <= set(
        told['interfaces'][0])


@pytest.mark.parametrize('name', ['standby.power_off', 'standby.run_image'])
def test_a_machine_that_does_other_work_is_not_ended(orders, name):
    running = orders.execute(name, {})
    assert running.wait(60)
    assert 'it may do other work' in running.serialize()[
        'command_error']['details']


@pytest.fixture
def programs(tmp_path, monkeypatch):
    """A PATH with nothing but programs of the test's."""
    folder = tmp_path / 'bin'
    folder.mkdir()
    monkeypatch.setenv('PATH', str(folder))

    def add(name, *lines):
        path = folder / name
        path.write_text('\n'.join(('#!/bin/sh', *lines, '')))
        path.chmod(0o700)
    return add


@pytest.mark.parametrize('method, command, key', [
    ('off', 'poweroff', 'o'), ('reboot', 'reboot', 'b')])
@pytest.mark.parametrize('behaviour', ['missing', 'failing', 'ignored'])
def test_the_kernel_is_asked_when_the_program_does_nothing(
        programs, tmp_path, method, command, key, behaviour):
    if behaviour != 'missing':
        programs(command, f'echo called >>{tmp_path}/log',
                 f'exit {int(behaviour == "failing")}')
    sysrq = tmp_path / 'sysrq'
    getattr(power.Power(True, sysrq, going_down=0.01), method)()
    assert sysrq.read_text() == key
    assert (tmp_path / 'log').exists() is (behaviour != 'missing')


def test_a_kernel_that_cannot_either(programs, tmp_path):
    with pytest.raises(command_errors.CommandExecutionError,
                       match='cannot poweroff'):
        power.Power(True, tmp_path / 'no' / 'sysrq', going_down=0.01).off()
