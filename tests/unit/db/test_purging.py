# SPDX-License-Identifier: Apache-2.0
"""A purge deletes what was over, and keeps what still explains a state."""

import datetime

import pytest
import sqlalchemy as sa

from stillframe.db import base
from stillframe.db import models
from stillframe.db import purging
from stillframe.db import services
from stillframe.db import transfers
from stillframe.db import volume_formats
from tests.unit.db import node_scenes
from tests.unit.db import scenes

pytestmark = pytest.mark.usefixtures('database')

APP = '22222222-2222-4222-8222-222222222222'


def later():
    return base.utcnow() + datetime.timedelta(days=1)


def test_nothing_is_old_enough():
    freeze_id = scenes.quiesced()
    scenes.apply('unquiesce', scenes.begin('unquiesce'),
                 freeze_id=freeze_id)
    assert set(purging.purge(datetime.datetime(2020, 1, 1)).values()) == {0}


def test_a_deleted_server_goes_with_all_it_had():
    scenes.report(scenes.server(), scenes.server(APP))
    scenes.apply('quiesce', scenes.begin('quiesce'), 'failed')
    scenes.report(scenes.server(APP))
    assert purging.purge(later())['servers'] == 1
    assert [row['uuid'] for row in scenes.rows(models.servers)] == [APP]
    for table in (models.actions, models.action_events, models.faults,
                  models.freezes):
        assert scenes.rows(table) == []
    assert len(scenes.rows(models.volumes)) == 1


def test_what_runs_or_explains_is_kept():
    scenes.report(scenes.server())
    for _ in range(3):
        scenes.apply('quiesce', scenes.begin('quiesce'), 'cannot')
    first = scenes.begin('quiesce')
    scenes.apply('quiesce', first)
    scenes.apply('freeze_ended', 'req-system', freeze_id=first,
                 reason='deadline')
    running = scenes.begin('quiesce')
    counts = purging.purge(later())
    assert counts['actions'] == 5
    assert counts['freezes'] == 3
    assert counts['servers'] == counts['faults'] == 0
    assert [row['request_id'] for row in scenes.rows(models.actions)] == [
        running]
    assert [row['freeze_id'] for row in scenes.rows(models.freezes)] == [
        first, running]
    assert len(scenes.rows(models.action_events)) == 1


def test_the_newest_fault_is_kept():
    scenes.report(scenes.server())
    for number in range(3):
        scenes.apply('quiesce', scenes.begin('quiesce'), 'failed',
                     message=f'fault {number}')
        with base.writer() as conn:
            conn.execute(sa.update(models.servers).values(
                vm_state='active'))
    assert purging.purge(later())['faults'] == 2
    assert scenes.fault_messages() == ['fault 2']


def test_more_than_one_batch(monkeypatch):
    monkeypatch.setattr(purging, '_BATCH', 2)
    scenes.report(scenes.server())
    for _ in range(5):
        scenes.apply('quiesce', scenes.begin('quiesce'), 'cannot')
    assert purging.purge(later())['actions'] == 5


def an_image(**values):
    with base.writer() as conn:
        conn.execute(sa.insert(models.server_images).values(**{
            'request_id': 'req-1', 'server_uuid': scenes.WEB,
            'host': scenes.HOST, 'image_id': 'i', 'image_ids': [],
            'stage': 's', 'percent': 0, 'reports': 0,
            'removal_attempts': 0, 'created_at': base.utcnow(),
            'finished_at': base.utcnow(), **values}))


def a_volume_snapshot(**values):
    with base.writer() as conn:
        conn.execute(sa.insert(models.volume_snapshots).values(**{
            'uuid': 'u', 'request_id': 'req-1', 'snapshot_id': 's',
            'volume_id': 'v', 'server_uuid': scenes.WEB,
            'host': scenes.HOST, 'operation': 'create', 'state': 'done',
            'request': {}, 'progress': 100, 'delivery': 'delivered',
            'delivery_attempts': 1, 'delivery_refusals': 0,
            'created_at': base.utcnow(), 'finished_at': base.utcnow(),
            **values}))


@pytest.mark.parametrize('begin', [
    lambda: an_image(removal_due=base.utcnow()),
    lambda: an_image(active_server=scenes.WEB, finished_at=None),
    lambda: a_volume_snapshot(delivery='due'),
    lambda: a_volume_snapshot(active_volume='v', finished_at=None)])
def test_work_that_goes_on_keeps_even_a_deleted_server(begin):
    scenes.report(scenes.server())
    begin()
    scenes.report()
    assert set(purging.purge(later()).values()) == {0}


def test_work_that_is_over_goes():
    scenes.report(scenes.server())
    an_image()
    a_volume_snapshot()
    counts = purging.purge(later())
    assert counts['server_images'] == counts['volume_snapshots'] == 1
    assert counts['servers'] == 0


def learn(volume_id, days_ago=0, **formats):
    with base.writer() as conn:
        volume_formats.learn(
            conn, volume_id, formats,
            base.utcnow() - datetime.timedelta(days=days_ago))


def formats():
    return [(row['volume_id'], row['file'])
            for row in scenes.rows(models.volume_formats)]


def month():
    return base.utcnow() - datetime.timedelta(days=30)


def test_what_is_known_of_a_volume_goes_when_nobody_has_it_for_long():
    scenes.report(scenes.server())
    attached = scenes.volume()['volume_id']
    learn(attached, 40, a='raw')
    learn('detached', 40, b='raw', c='qcow2')
    learn('recent', 20, d='raw')
    assert purging.purge(month())['volume_formats'] == 2
    assert formats() == [(attached, 'a'), ('recent', 'd')]
    # The server that had it is gone.
    scenes.report()
    assert purging.purge(month())['volume_formats'] == 1
    assert formats() == [('recent', 'd')]


def test_one_file_that_changed_keeps_the_others_of_its_volume():
    learn('one', 40, a='raw', b='qcow2')
    learn('one', 5, a='raw', b='qcow2', c='qcow2')
    assert purging.purge(month())['volume_formats'] == 0
    assert len(formats()) == 3


@pytest.mark.parametrize('request_', [
    {'created_at': datetime.datetime(2020, 1, 1), 'active_volume': 'v',
     'finished_at': None},
    {}])
def test_a_volume_with_a_request_keeps_what_is_known(request_):
    scenes.report(scenes.server())
    learn('v', 40, a='raw')
    a_volume_snapshot(**request_)
    assert purging.purge(month())['volume_formats'] == 0
    assert formats() == [('v', 'a')]


@pytest.mark.parametrize('seen, left', [
    (datetime.timedelta(days=3), 0),
    # It may only be restarting.
    (datetime.timedelta(hours=3), 1)])
def test_a_host_that_is_gone(seen, left):
    scenes.report(scenes.server())
    report(scenes.HOST)
    report('gone')
    with base.writer() as conn:
        conn.execute(sa.update(models.services).values(
            last_seen=base.utcnow() - seen))
    assert purging.purge(later())['services'] == 1 - left
    # One that has servers is the one that they are waited for from.
    assert {row['host'] for row in scenes.rows(models.services)} == {
        scenes.HOST, *['gone'][:left]}


@pytest.mark.parametrize('owes', ['reservation', 'snapshot', 'transfer'])
def test_a_conductor_that_has_something_left_to_do(owes):
    report('c9', services.CONDUCTOR)
    node = node_scenes.snapshotting()
    with base.writer() as conn:
        conn.execute(sa.update(models.services).values(
            last_seen=base.utcnow() - datetime.timedelta(days=3)))
        conn.execute(sa.update(models.nodes).values(
            reservation='c9' if owes == 'reservation' else None))
        conn.execute(sa.update(models.node_snapshots).values(
            conductor='c9' if owes == 'snapshot' else 'other'))
    if owes == 'transfer':
        transfers.open_('name', node['snapshot_id'], 'c9', 'hash')
    assert purging.purge(later())['services'] == 0
    with base.writer() as conn:
        conn.execute(sa.update(models.nodes).values(reservation=None))
        conn.execute(sa.update(models.node_snapshots).values(
            finished_at=base.utcnow()))
        conn.execute(sa.delete(models.transfers))
    assert purging.purge(later())['services'] == 1


def report(host, binary='stillframe-compute'):
    """Have a process report once."""
    services.report(host, binary, 'life', 1, {})
