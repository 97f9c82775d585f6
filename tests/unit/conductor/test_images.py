# SPDX-License-Identifier: Apache-2.0
"""Looking after images: dead ones are given up, what is left is removed."""

import datetime
import uuid

import pytest
import sqlalchemy as sa

from stillframe.clients import images as clients
from stillframe.conductor import images as conductor
from stillframe.conf import CONF
from stillframe.db import base
from stillframe.db import images
from stillframe.db import models
from stillframe.states import images as states
from tests.unit.conductor.test_reaper import Clock
from tests.unit.conductor.test_reaper import look
from tests.unit.db import scenes

pytestmark = pytest.mark.usefixtures('database')


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / 'images'
    CONF.set_override('folder', str(path), group='images')
    yield path
    CONF.clear_override('folder', group='images')


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def keeper(folder, clock):
    return conductor.ImageKeeper(CONF, clock)


@pytest.fixture
def order(folder):
    """A request, whose images are in the store; gives its id."""
    scenes.report(scenes.server())
    who, image_id = scenes.ctxt(), str(uuid.uuid4())
    images.begin(who, scenes.WEB, image_id)
    store = clients.connect(CONF)
    for one in (image_id, states.disk_image_id(image_id, 'vda', False)):
        store.create(clients.Record(one, 'picture', scenes.PROJECT))
    return who.request_id


def test_what_failed_is_removed(keeper, order, folder):
    keeper.look()
    assert len(list(folder.glob('*.json'))) == 2
    images.apply(scenes.HOST, scenes.outcome(
        'image', order, 'failed', image=None))
    keeper.look()
    assert list(folder.glob('*.json')) == []
    assert images.to_remove() == []


def test_a_store_that_is_away_is_waited_for(keeper, order, folder):
    images.give_up(order, 'given up')
    parked = folder.rename(folder.with_name('parked'))
    folder.write_text('no folder')
    keeper.look()
    assert images.to_remove() == []
    folder.unlink()
    parked.rename(folder)
    with base.writer() as conn:
        conn.execute(sa.update(models.server_images).values(
            removal_due=base.utcnow()))
    keeper.look()
    assert list(folder.glob('*.json')) == []


def test_a_new_conductor_goes_on_counting(keeper, clock, order):
    with base.writer() as conn:
        conn.execute(sa.update(models.server_images).values(
            created_at=base.utcnow() - datetime.timedelta(seconds=100)))
    keeper.look()
    look(keeper, clock, 75)
    assert scenes.state() == ('active', 'image_snapshot_pending')
    look(keeper, clock, 10)
    assert scenes.state() == ('active', None)


def test_an_image_without_a_sign_of_life_is_given_up(keeper, clock, order):
    limit = CONF.conductor.transition_timeout
    keeper.look()
    look(keeper, clock, limit - 5)
    images.progressed(order, states.UPLOADING, 7)
    look(keeper, clock, limit - 5)
    assert scenes.state() == ('active', 'image_uploading')
    look(keeper, clock, 10)
    assert scenes.state() == ('active', None)
    action, _ = scenes.action(order)
    assert 'gave no sign of the image for 180 s' in action['message']
