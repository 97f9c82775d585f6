# SPDX-License-Identifier: Apache-2.0
"""An agent is asked how far it is only when it may have something to say."""

from stillframe.agent import orders
from stillframe.agent import upload
from stillframe.conductor.baremetal import finishing
from stillframe.conductor.baremetal import following
from stillframe.conductor.receiver import share as shares
from stillframe.db import node_moves
from stillframe.db import node_snapshots
from stillframe.db import nodes
from stillframe.drivers import base
from stillframe.drivers import fake_snapshot
from tests.lab.processes import wait_until
from tests.unit.db import node_scenes as scenes

_SIZE = 1 << 20


def _state(node):
    return nodes.get(node['uuid'])['provision_state']


def test_whose_image_arrives_is_not_asked(tools):
    # Asked, this machine would say that it knows of no such order.
    node = scenes.waiting(power_state='power on')
    snapshot = node['snapshot_id']
    node_snapshots.write(snapshot, {
        'phase': 'streaming', 'command_id': 'x', 'original': {
            'stage': 'noted', 'power_state': 'power on',
            'boot_device': 'disk', 'persistent': True}})
    ticket = tools.receiver.open(snapshot)
    order = orders.Order(
        url=ticket.url, username=ticket.username, password=ticket.password,
        ca=ticket.ca, disk_format='raw')
    with upload.Put(order) as put:
        put.begin(_SIZE, _SIZE)
        put.write(b'a' * 4096)
        wait_until(lambda: tools.receiver.progress(snapshot).receiving, 30,
                   'the first bytes')
        following.follow(tools, node['uuid'])
        assert _state(node) == 'snapshot wait'
    wait_until(lambda: not tools.receiver.progress(snapshot).receiving, 30,
               'the end of the upload')
    following.follow(tools, node['uuid'])
    wait_until(lambda: _state(node) == 'snapshot failed', 30, 'the end')


def test_who_cannot_be_looked_at_is_asked(tools, tmp_path):
    node = scenes.waiting(power_state='power on')
    node_snapshots.write(node['snapshot_id'], {
        'phase': 'streaming', 'command_id': 'x'})
    tools.receiver.open(node['snapshot_id'])
    (tmp_path / 'share').write_text('no folder any more')
    tools.receiver._share = shares.Share('nfs://host/images',
                                         tmp_path / 'share')
    following.follow(tools, node['uuid'])
    wait_until(lambda: _state(node) == 'snapshot failed', 30, 'the end')


def test_what_an_agent_says_of_its_image_outlives_us(tools, monkeypatch):
    # Killed behind the move, somebody goes on with the image.
    seen = []
    monkeypatch.setattr(
        fake_snapshot.FakeSnapshot, 'poll',
        lambda *_: base.Done({'version': 1, 'disk': {'size': 1}}))
    monkeypatch.setattr(finishing, 'finish', lambda _task: None)
    move = node_moves.move

    def moved(node, *args, **more):
        seen.append(node_snapshots.get(node['snapshot_id'])['result'])
        return move(node, *args, **more)

    monkeypatch.setattr(node_moves, 'move', moved)
    node = scenes.waiting()
    node_snapshots.write(node['snapshot_id'], {
        'phase': 'streaming', 'command_id': 'x'})
    seen.clear()
    following.follow(tools, node['uuid'])
    assert seen == [{'version': 1, 'disk': {'size': 1}}]
    assert _state(node) == 'snapshotting'


def test_only_the_snapshot_that_was_silent_is_given_up(tools):
    node = scenes.waiting()
    following.give_up(tools, node['uuid'], 'another', 'It was silent.')
    assert _state(node) == 'snapshot wait'
    following.give_up(tools, node['uuid'], node['snapshot_id'],
                      'It was silent.')
    assert _state(node) == 'snapshot failed'
