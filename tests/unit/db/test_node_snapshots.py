# SPDX-License-Identifier: Apache-2.0
"""The history of a node."""

import datetime

import pytest

from stillframe import exceptions
from stillframe.db import base
from stillframe.db import node_moves
from stillframe.db import node_snapshots
from stillframe.db import nodes
from stillframe.db import purging
from tests.unit.db import node_scenes as scenes

pytestmark = pytest.mark.usefixtures('database')


def test_progress_moves_the_time_of_the_last_sign():
    node = scenes.waiting()
    before = scenes.snapshot(node)
    assert node_snapshots.write(before['uuid'], {
        'bytes_done': 2 ** 40, 'bytes_total': 2 ** 41, 'rate': 1.5})
    after = scenes.snapshot(node)
    assert after['bytes_done'] == 2 ** 40
    assert after['heard_at'] > before['heard_at']
    assert after['phase_at'] == before['phase_at']
    node_snapshots.write(before['uuid'], {'phase': 'streaming'})
    assert scenes.snapshot(node)['phase_at'] > before['phase_at']


def test_what_was_not_written_yet_is_null():
    row = scenes.snapshot(scenes.snapshotting())
    assert row['original'] is None
    with base.reader() as conn:
        assert conn.exec_driver_sql(
            'SELECT count(*) FROM node_snapshots WHERE original IS NULL'
        ).scalar() == 1
    node_snapshots.write(row['uuid'], {'original': {'power': 'power on'}})
    assert node_snapshots.get(row['uuid'])['original'] == {
        'power': 'power on'}


def test_the_current_snapshot_comes_with_the_state_of_its_node():
    node = scenes.waiting()
    current = node_snapshots.current(node['uuid'])
    assert current['uuid'] == node['snapshot_id']
    assert current['provision_state'] == 'snapshot wait'
    assert current['reservation'] is None
    assert node_snapshots.current(scenes.node('active')['uuid']) is None
    assert node_snapshots.current('no such node') is None


def test_history_comes_in_pages_newest_first():
    node = scenes.node('active')
    made = []
    for at in range(5):
        node = node_moves.begin(node, 'snapshot', 'c1', {
            **scenes.REQUEST, 'request_id': f'req-{at}'})
        made.insert(0, node['snapshot_id'])
        node = node_moves.move(node, 'c1', 'done', release=True,
                               end=('done', None))

    def page(*args):
        return [row['uuid'] for row in
                node_snapshots.history(node['uuid'], *args)]

    assert page(10) == made
    assert page(2) == made[:2]
    assert page(2, made[1]) == made[2:4]
    with pytest.raises(exceptions.NotFound):
        page(2, 'nothing')
    assert set(node_snapshots.get_many(made[:2])) == set(made[:2])
    assert node_snapshots.get_many([]) == {}
    nodes.destroy(scenes.write(node, provision_state='enroll'))
    assert page(10) == []


def test_a_purge_leaves_the_last_and_what_is_not_over():
    def ended():
        node = node_moves.begin(scenes.node('active'), 'snapshot', 'c1',
                                scenes.REQUEST)
        return node_moves.move(node, 'c1', 'done', release=True,
                               end=('done', None))

    one = ended()
    node_moves.begin(one, 'snapshot', 'c1', scenes.REQUEST)
    other = ended()
    counts = purging.purge(base.utcnow() + datetime.timedelta(days=1))
    assert counts['node_snapshots'] == 1
    assert len(node_snapshots.history(one['uuid'], 10)) == 1
    assert len(node_snapshots.history(other['uuid'], 10)) == 1
