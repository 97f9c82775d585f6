# SPDX-License-Identifier: Apache-2.0
"""Silence is measured by signs of life, not by the time since the start."""

import pytest

from stillframe.conductor.baremetal import watching
from stillframe.conductor.receiver import share as shares
from stillframe.conf import CONF
from stillframe.db import node_agents
from stillframe.db import node_snapshots
from stillframe.db import nodes
from tests.lab.processes import wait_until
from tests.unit.db import node_scenes as scenes

URL = 'https://192.0.2.1:9999'


@pytest.fixture
def watcher(tools, clock):
    return watching.Watcher(tools, clock)


def run(watcher, clock, seconds):
    """Let time pass, with a look at each interval."""
    step = CONF.baremetal.watch_interval
    for _ in range(int(seconds / step) + 1):
        clock.now += step
        watcher.look()


def booting():
    node = scenes.waiting(snapshot_interface='agent', power_state='power on')
    node_snapshots.write(node['snapshot_id'], {
        'phase': 'booting', 'original': {
            'stage': 'booting', 'power_state': 'power on',
            'boot_device': 'disk', 'persistent': True}})
    return node


def streaming():
    node = booting()
    node_snapshots.write(node['snapshot_id'], {
        'phase': 'streaming', 'command_id': 'x'})
    token = node_agents.give_token(node['uuid'])
    assert node_agents.heard(node['uuid'], token, URL, '1', None)
    return node, token


def state(node):
    return nodes.get(node['uuid'])['provision_state']


def ended(node):
    """Wait until a snapshot has failed; give the reason."""
    def over():
        row = nodes.get(node['uuid'])
        return (row['provision_state'] == 'snapshot failed'
                and row['reservation'] is None and row['last_error'])

    return wait_until(over, 30, 'the end')


def test_a_ramdisk_gets_its_time_to_boot(watcher, clock):
    node = booting()
    run(watcher, clock, CONF.baremetal.boot_timeout - 200)
    assert state(node) == 'snapshot wait'
    run(watcher, clock, 400)
    assert 'no sign of life' in ended(node)
    assert nodes.get(node['uuid'])['power_state'] == 'power on'


def test_an_agent_may_be_silent_for_a_while(watcher, clock):
    node, _ = streaming()
    run(watcher, clock, CONF.baremetal.silence_timeout - 200)
    assert state(node) == 'snapshot wait'
    run(watcher, clock, 400)
    assert 'silent' in ended(node)


def test_each_heartbeat_begins_a_new_silence(watcher, clock):
    node, token = streaming()
    for _ in range(4):
        run(watcher, clock, CONF.baremetal.silence_timeout * 0.7)
        assert node_agents.heard(node['uuid'], token, URL, '1', None)
    assert state(node) == 'snapshot wait'


def test_each_byte_begins_a_new_silence(watcher, clock):
    node, _ = streaming()
    for at in range(1, 5):
        run(watcher, clock, CONF.baremetal.silence_timeout * 0.7)
        node_snapshots.write(node['snapshot_id'], {'bytes_done': at})
    assert state(node) == 'snapshot wait'


def test_an_agent_that_only_reports_is_given_up(watcher, clock):
    node, token = streaming()
    for _ in range(20):
        run(watcher, clock, CONF.baremetal.stall_timeout / 20)
        assert node_agents.heard(node['uuid'], token, URL, '1', None) or (
            state(node) != 'snapshot wait')
    run(watcher, clock, 400)
    assert 'no byte' in ended(node)


def test_a_share_that_fails_stops_no_look(tools, watcher, clock, tmp_path):
    """One image cannot be looked at: its silence, and others, are."""
    (node, _), other = streaming(), booting()
    tools.receiver.open(node['snapshot_id'])
    share = tmp_path / 'share'
    share.mkdir()
    tools.receiver._share = shares.Share('nfs://host/images', share)
    watcher.look()
    share.rmdir()
    share.write_text('no folder any more')
    run(watcher, clock, CONF.baremetal.boot_timeout + 200)
    assert 'no sign of life' in ended(other)
    assert 'silent' in ended(node)


def test_maintenance_stops_the_clock(watcher, clock):
    node = scenes.write(booting(), maintenance=True)
    run(watcher, clock, CONF.baremetal.boot_timeout * 2)
    assert state(node) == 'snapshot wait'
    scenes.write(node, maintenance=False)
    run(watcher, clock, CONF.baremetal.boot_timeout - 200)
    assert state(node) == 'snapshot wait'


def test_time_in_which_nobody_looked_does_not_count(watcher, clock):
    node = booting()
    watcher.look()
    clock.now += CONF.baremetal.boot_timeout * 10
    watcher.look()
    assert state(node) == 'snapshot wait'


def test_the_snapshots_of_others_are_theirs(watcher, clock):
    node = booting()
    assert node_snapshots.take_over(node['snapshot_id'], 'c2', 'c1')
    run(watcher, clock, CONF.baremetal.boot_timeout * 2)
    assert state(node) == 'snapshot wait'
