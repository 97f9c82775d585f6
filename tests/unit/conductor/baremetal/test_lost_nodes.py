# SPDX-License-Identifier: Apache-2.0
"""A conductor that was taken for dead leaves machines alone when it wakes."""

import pytest

from stillframe.conductor.baremetal import manager
from stillframe.conductor.baremetal import powering
from stillframe.conductor.baremetal import provisioning
from stillframe.conductor.baremetal import restoring
from stillframe.conductor.baremetal import tasks
from stillframe.conductor.receiver import errors
from stillframe.db import node_moves
from stillframe.db import node_snapshots
from stillframe.db import nodes
from stillframe.db import transfers
from stillframe.drivers import fake
from stillframe.states import power
from tests.lab.processes import wait_until
from tests.unit.db import node_scenes as scenes


@pytest.fixture
def switched(monkeypatch):
    """Note what a machine is told, beside doing it."""
    told = []
    switch = fake.FakePower.set_power_state

    def set_power_state(self, node, target, timeout=None):
        told.append(target)
        switch(self, node, target, timeout)

    monkeypatch.setattr(fake.FakePower, 'set_power_state', set_power_state)
    return told


def snapshotting(stage='booting'):
    node = scenes.snapshotting(power_state='power on')
    node_snapshots.write(node['snapshot_id'], {'original': {
        'stage': stage, 'power_state': 'power on', 'boot_device': 'disk',
        'persistent': True}})
    return node


@pytest.mark.parametrize('work', [
    restoring.put_back,
    restoring.end,
    powering.stop_guest,
    lambda task: powering.switch(task, power.POWER_ON),
    lambda task: powering.change(task, power.POWER_OFF, None)])
def test_a_machine_that_another_has_is_not_switched(tools, switched, work):
    node = snapshotting()
    task = tasks.Task(tools, node)
    node_snapshots.settle(node['snapshot_id'], 'failed', 'c1 is dead')
    scenes.write(node, reservation='c2')
    with pytest.raises(node_moves.LostNode):
        work(task)
    assert not switched


def test_who_takes_work_up_keeps_it(tools):
    """Its hand-over seemed to fail; by then it has begun."""
    before = scenes.node('active')
    after = node_moves.begin(before, 'snapshot', scenes.HOST,
                             scenes.REQUEST)
    assert tasks.take(tools, nodes.get(before['uuid']), {}) is not None
    assert not node_moves.revert(before, after, 'no broker')
    # The other way round, the one who comes late does not begin.
    before = scenes.node('active')
    after = node_moves.begin(before, 'snapshot', scenes.HOST,
                             {**scenes.REQUEST, 'request_id': 'req-2'})
    seen = nodes.get(before['uuid'])
    assert node_moves.revert(before, after, 'no broker')
    with pytest.raises(node_moves.LostNode):
        tasks.take(tools, seen, {})


def test_a_machine_that_was_restored_is_not_switched(tools, switched):
    node = snapshotting('stopping')
    task = tasks.Task(tools, node)
    scenes.write(node, provision_state='active', reservation=None)
    with pytest.raises(node_moves.LostNode):
        restoring.fail(task, 'It woke up.')
    assert not switched


def test_a_deployment_that_another_has_switches_nothing(tools, switched):
    node = node_moves.begin(scenes.node('available'), 'active', scenes.HOST)
    task = tasks.Task(tools, node)
    scenes.write(node, reservation='c2')
    with pytest.raises(node_moves.LostNode):
        provisioning.act(task)
    assert not switched


def test_an_upload_ends_when_another_has_decided(tools):
    node = snapshotting()
    task = tasks.Task(tools, node)
    task.note(bytes_done=1)
    node_snapshots.settle(node['snapshot_id'], 'failed', 'c1 is dead')
    with pytest.raises(node_moves.LostNode):
        task.note(bytes_done=2)
    assert scenes.snapshot(node)['bytes_done'] == 1


def test_what_was_opened_behind_the_end_is_removed(tools):
    over, under_way = snapshotting(), snapshotting()
    for node in (over, under_way):
        tools.receiver.open(node['snapshot_id'])
    node_snapshots.finish(over['snapshot_id'], ('failed', 'c1 is dead'))
    tools.receiver.sweep()
    assert [one['snapshot_uuid'] for one in
            transfers.of_conductor(scenes.HOST)] == [
                under_way['snapshot_id']]
    with pytest.raises(errors.UnknownTransfer):
        tools.receiver.progress(over['snapshot_id'])
    assert not tools.receiver.progress(under_way['snapshot_id']).bytes


def test_a_late_request_for_power_does_not_meet_other_work(tools, switched):
    rpc = manager.BaremetalManager(tools)
    node = snapshotting()
    other = node_moves.begin_power(
        scenes.node('active', power_state='power off'), 'power on',
        scenes.HOST)
    for uuid in (node['uuid'], other['uuid']):
        rpc.change_node_power_state(None, uuid, 'power off', None)
        wait_until(lambda uuid=uuid: not tools.has(uuid), 30, 'the end')
    assert not switched
    assert nodes.get(node['uuid'])['reservation'] == scenes.HOST
    rpc.change_node_power_state(None, other['uuid'], 'power on', None)
    wait_until(lambda: nodes.get(other['uuid'])['power_state']
               == 'power on', 30, 'the change')
    assert switched == ['power on']


def test_a_call_that_runs_is_not_taken_up(tools, monkeypatch):
    node = scenes.node('active')
    seen = []
    choose = fake.FakeManagement.set_boot_device

    def set_boot_device(self, *args):
        seen.append(tools.has(node['uuid']))
        choose(self, *args)

    monkeypatch.setattr(fake.FakeManagement, 'set_boot_device',
                        set_boot_device)
    rpc = manager.BaremetalManager(tools)
    assert rpc.set_boot_device(None, node['uuid'], 'pxe', True) == {
        'error': None}
    assert seen == [True]
    assert not tools.has(node['uuid'])
