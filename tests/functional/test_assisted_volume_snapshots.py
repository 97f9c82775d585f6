# SPDX-License-Identifier: Apache-2.0
"""Assisted volume snapshots: what is refused, and what is handed on."""

import json
import threading
from urllib.parse import quote

import pytest
import sqlalchemy as sa

from stillframe.api.controllers.compute import (
    assisted_volume_snapshots as controller,
)
from stillframe.db import base
from stillframe.db import models
from stillframe.db import volume_snapshot_delivery as delivery
from stillframe.db import volume_snapshots as db
from stillframe.states import volume_snapshots as states
from tests.functional import environment
from tests.functional import population
from tests.functional import wsgi
from tests.lab.processes import wait_until

VOLUME = population.VOLUMES[population.WEB][0]
ADMIN = {'x-auth-token': f'admin:{population.PROJECT}'}
PATH = '/v2.1/os-assisted-volume-snapshots'
INFO = {'volume_id': VOLUME, 'type': 'qcow2', 'file_to_merge': 'a',
        'merge_target_file': 'b'}


@pytest.fixture
def api():
    with environment.environment() as one:
        yield one


def post(api, wish):
    return wsgi.call(api.app, 'POST', PATH, json.dumps(wish).encode(), ADMIN)


def delete(api, text):
    return wsgi.call(
        api.app, 'DELETE', f'{PATH}/snap?delete_info={quote(text)}',
        headers=ADMIN)


def wish(**info):
    return {'snapshot': {'volume_id': VOLUME, 'create_info': {
        'snapshot_id': 's', 'type': 'qcow2', 'new_file': 'f', **info}}}


@pytest.mark.parametrize('body', [
    {}, [], None, {'snapshot': None}, {'snapshot': {}},
    {'snapshot': {'volume_id': VOLUME}},
    {'snapshot': {'volume_id': '', 'create_info': {}}},
    {'snapshot': {**wish()['snapshot'], 'more': 1}},
    {**wish(), 'more': 1},
    wish(type='raw'), wish(type=None), wish(snapshot_id=''),
    wish(snapshot_id=7), wish(snapshot_id='../../x'), wish(snapshot_id='..'),
    wish(snapshot_id='a?b'), wish(snapshot_id='a%2fb'),
    wish(snapshot_id='a\n'),
    wish(more=1), wish(id=''), wish(id=None),
    *(wish(new_file=name) for name in (
        '', '.', '..', '/etc/shadow', '../x', 'a/b', 'nbd:host:1',
        'a\nb', 'a\n', 'a\0b', 'x' * 256, None, 7, ['f']))])
def test_create_refused(api, body):
    answer = post(api, body)
    assert answer.status == 400, answer.body
    assert db.of_snapshot('s', 1) == []


@pytest.mark.parametrize('text', [
    '', '{', 'null', '[]', '7', '{}', '{"volume_id": null}',
    '{"volume_id": ""}', '{"volume_id": 7}',
    '{"volume_id": "x", "volume_id": "y"}',
    json.dumps({**INFO, 'type': 'raw'}),
    json.dumps({**INFO, 'file_to_merge': '../a'}),
    json.dumps({**INFO, 'file_to_merge': 7}),
    json.dumps({**INFO, 'merge_target_file': '/b'}),
    json.dumps({**INFO, 'merge_target_file': ''}),
    json.dumps({**INFO, 'more': 'x' * 9000})])
def test_delete_refused(api, text):
    assert delete(api, text).status == 400
    assert db.of_snapshot('snap', 1) == []


@pytest.mark.parametrize('snapshot', [
    'a%3Fb', 'a%23b', 'a%25b', 'a%0A', 'x' * 256])
def test_delete_of_what_is_no_id(api, snapshot):
    answer = wsgi.call(
        api.app, 'DELETE', f'{PATH}/{snapshot}?delete_info='
        + quote(json.dumps(INFO)), headers=ADMIN)
    assert answer.status == 400, answer.body


def test_delete_info_is_missing(api):
    answer = wsgi.call(api.app, 'DELETE', f'{PATH}/snap', headers=ADMIN)
    assert answer.status == 400
    assert b'delete_info is missing' in answer.body


def test_what_is_handed_to_the_worker(api):
    assert post(api, wish()).status == 200
    row, = db.of_snapshot('s', 5)
    wait_until(lambda: api.recorder.casts, 5, 'the cast')
    assert api.recorder.casts == [('snapshot_volume', population.WEB, {
        'operation_id': row['uuid'], 'operation': 'create',
        'server_id': population.WEB, 'volume_id': VOLUME,
        'snapshot_id': 's', 'new_file': 'f',
        'require_quiesce': False})]


def test_an_incomplete_merge_is_accepted_and_fails(api):
    """As in Nova, whose own tests ask for no more."""
    assert delete(api, json.dumps({'volume_id': VOLUME})).status == 204
    row, = db.of_snapshot('snap', 5)
    assert row['state'] == 'error'
    assert 'lacks file_to_merge, merge_target_file, type' in row['message']
    assert api.recorder.casts == []


def test_without_a_conductor():
    with environment.environment(
            conductor=False,
            volume_snapshots__handover_timeout=1) as api:
        answer = post(api, wish())
        assert answer.status == 503
        row, = db.of_snapshot('s', 5)
        assert row['state'] == 'error'
        # It is over: the next one is not held up by it.
        assert post(api, wish(snapshot_id='t')).status == 503


def done_and_being_told(api):
    """Have a snapshot made, of which Cinder has not acknowledged it yet."""
    assert post(api, wish()).status == 200
    row, = db.of_snapshot('s', 5)
    with base.writer() as conn:
        conn.execute(sa.update(models.volume_snapshots).values(
            state=states.State.DONE, active_volume=None,
            finished_at=base.utcnow(), delivery=states.Delivery.DUE,
            delivery_due=base.utcnow()))
    taken, = delivery.take_due(30, 60, 10)
    assert taken['uuid'] == row['uuid']
    return row['uuid']


@pytest.mark.parametrize('snapshot', ['s', 'another'])
def test_cinder_is_faster_than_its_acknowledgement(api, snapshot):
    """An outcome takes effect before who told it has written that down."""
    told = done_and_being_told(api)
    late = threading.Timer(0.5, delivery.end, (
        told, states.Delivery.DELIVERED, 'stock', None))
    late.start()
    try:
        answer = wsgi.call(
            api.app, 'DELETE', f'{PATH}/{snapshot}?delete_info='
            + quote(json.dumps({**INFO, 'merge_target_file': None})),
            headers=ADMIN)
    finally:
        late.join()
    assert answer.status == 204, answer.body


def test_an_acknowledgement_that_does_not_come(api, monkeypatch):
    monkeypatch.setattr(controller, '_TOLD_WITHIN', 0.3)
    done_and_being_told(api)
    answer = delete(api, json.dumps({**INFO, 'merge_target_file': None}))
    assert answer.status == 409
    assert b'Cinder has not been told yet' in answer.body
