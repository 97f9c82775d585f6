# SPDX-License-Identifier: Apache-2.0
"""Images of servers in the database."""

import datetime
import uuid

import pytest
import sqlalchemy as sa

from stillframe import exceptions
from stillframe.db import base
from stillframe.db import images
from stillframe.db import models
from stillframe.states import images as states
from stillframe.states import servers as server_states
from tests.unit.db import scenes
from tests.unit.db.scenes import WEB

pytestmark = pytest.mark.usefixtures('database')

FIGURES = {'image_id': 'x', 'images': {'vda': 'x'}, 'size': 7,
           'method': 'backup', 'consistency': 'filesystem',
           'freeze': 'image', 'window': 0.25, 'why_not': None}


def begun(**values) -> tuple[str, str]:
    """Report a server and begin an image; gives request and image id."""
    scenes.report(scenes.server(volumes=[
        scenes.volume('vda'), scenes.volume('vdb')], **values))
    return begin()


def begin() -> tuple[str, str]:
    who, image_id = scenes.ctxt(), str(uuid.uuid4())
    images.begin(who, WEB, image_id)
    return who.request_id, image_id


def ended(request_id: str, result: str = 'success', **values) -> str:
    values.setdefault('image', FIGURES if result == 'success' else None)
    return images.apply(scenes.HOST, scenes.outcome(
        'image', request_id, result, **values))


def test_an_image_from_begin_to_end():
    request_id, image_id = begun()
    assert scenes.state() == ('active', 'image_snapshot_pending')
    assert images.progressed(request_id, states.SNAPSHOT, 0)
    assert scenes.state() == ('active', 'image_snapshot')
    assert images.progressed(request_id, states.UPLOADING, 10)
    assert scenes.state() == ('active', 'image_uploading')
    # Overtaken by a newer one.
    assert images.progressed(request_id, states.SNAPSHOT, 0)
    assert scenes.state() == ('active', 'image_uploading')
    assert ended(request_id) == 'applied'
    assert scenes.state() == ('active', None)
    assert ended(request_id) == 'duplicate'
    assert not images.progressed(request_id, states.UPLOADING, 50)
    action, events = scenes.action(request_id)
    assert action['action'] == 'createImage'
    assert events[0]['result'] == 'Success'
    assert 'window 0.25' in events[0]['details']
    row, = scenes.rows(models.server_images)
    assert (row['result'], row['percent'], row['figures']) == (
        'success', 100, FIGURES)
    assert images.to_remove() == []


@pytest.mark.parametrize('result, faults', (('failed', 1), ('cannot', 0)))
def test_what_failed_is_to_be_removed(result, faults):
    request_id, image_id = begun()
    images.progressed(request_id, states.UPLOADING, 10)
    assert ended(request_id, result, detail='why') == 'applied'
    assert scenes.state() == ('active', None)
    assert len(scenes.fault_messages()) == faults
    assert scenes.action(request_id)[1][0]['result'] == 'Error'
    row, = images.to_remove()
    assert row['image_ids'] == [image_id, *(
        states.disk_image_id(image_id, target, False)
        for target in ('vda', 'vdb'))]
    assert ended(request_id, result) == 'duplicate'
    images.removed(row['id'])
    assert images.to_remove() == []


def test_what_cannot_be_removed_is_tried_again_and_not_for_ever():
    request_id, _ = begun()
    ended(request_id, 'failed')
    row, = images.to_remove()
    tries = 0
    while images.not_removed(row['id'], 'the store is away'):
        tries += 1
        assert images.to_remove() == []
        with base.writer() as conn:
            conn.execute(sa.update(models.server_images).values(
                removal_due=base.utcnow() - datetime.timedelta(seconds=1)))
        assert len(images.to_remove()) == 1
    assert tries > 10
    assert images.to_remove() == []


def test_one_of_many_wins():
    begun()
    with pytest.raises(exceptions.WrongState, match='pending'):
        begin()


@pytest.mark.parametrize('power, vm_state', (
    (server_states.POWER_RUNNING, 'active'),
    (server_states.POWER_PAUSED, 'paused'),
    (server_states.POWER_SHUTDOWN, 'stopped')))
def test_states_that_an_image_begins_and_ends_in(power, vm_state):
    request_id, _ = begun(power_state=power)
    assert scenes.state() == (vm_state, 'image_snapshot_pending')
    ended(request_id)
    assert scenes.state() == (vm_state, None)


def test_a_suspended_server_cannot():
    with pytest.raises(exceptions.WrongState, match='suspended'):
        begun(power_state=server_states.POWER_SUSPENDED)
    assert scenes.rows(models.server_images) == []


def test_a_server_that_stops_meanwhile_is_shown_so_afterwards():
    request_id, _ = begun()
    scenes.report(scenes.server(power_state=server_states.POWER_SHUTDOWN))
    ended(request_id, 'failed')
    assert scenes.state() == ('stopped', None)


def test_a_quiesced_server_is_let_go_once_the_point_is_taken():
    freeze_id = scenes.quiesced()
    request_id, _ = begin()
    assert scenes.state() == ('quiesced', 'image_snapshot_pending')
    images.progressed(request_id, states.UPLOADING, 0)
    assert scenes.state() == ('quiesced', None)
    # The image goes on while the server is thawed and used.
    thaw = scenes.begin('unquiesce')
    with pytest.raises(exceptions.WrongState):
        begin()
    scenes.apply('unquiesce', thaw, freeze_id=freeze_id,
                 verified_thawed=True)
    assert scenes.state() == ('active', None)
    with pytest.raises(exceptions.WrongState, match='image_uploading'):
        begin()
    assert ended(request_id) == 'applied'
    assert scenes.state() == ('active', None)
    begin()


def test_a_freeze_that_ends_under_an_image_leaves_no_quiesced_server():
    freeze_id = scenes.quiesced()
    request_id, _ = begin()
    scenes.apply('freeze_ended', 'req-system', 'lost', freeze_id=freeze_id,
                 reason='deadline', verified_thawed=True)
    ended(request_id)
    assert scenes.state() == ('active', None)


def test_given_up_without_a_word_from_the_worker():
    request_id, _ = begun()
    assert [row['reports'] for row in images.open_requests()] == [0]
    images.progressed(request_id, states.PENDING, 0)
    assert [row['reports'] for row in images.open_requests()] == [1]
    assert images.give_up(request_id, 'given up')
    assert not images.give_up(request_id, 'given up')
    assert images.open_requests() == []
    assert scenes.state() == ('active', None)
    assert scenes.fault_messages() == ['given up']
    row, = images.to_remove()
    images.removed(row['id'])
    # Should it become complete after all: it is removed all the same, and
    # the worker is told so.
    assert ended(request_id) == 'stale'
    assert len(images.to_remove()) == 1


def test_what_was_made_after_it_was_given_up_is_removed():
    request_id, _ = begun()
    images.give_up(request_id, 'given up')
    row, = images.to_remove()
    images.removed(row['id'])
    assert ended(request_id, 'failed') == 'duplicate'
    assert images.to_remove() == [row]


def test_nothing_is_known_of_a_request():
    assert ended('req-unknown') == 'unknown'
    assert not images.progressed('req-unknown', states.SNAPSHOT, 0)
    assert not images.give_up('req-unknown', 'x')


def test_a_malformed_outcome_is_refused():
    request_id, _ = begun()
    with pytest.raises(ValueError, match='figures'):
        ended(request_id, image=None)
    with pytest.raises(ValueError, match='nonsense'):
        ended(request_id, 'nonsense')
