# SPDX-License-Identifier: Apache-2.0
"""Volume snapshot requests that nobody reports on."""

import datetime

import pytest
import sqlalchemy as sa

from stillframe.conductor import volume_reaper
from stillframe.conf import CONF
from stillframe.db import base
from stillframe.db import models
from stillframe.db import volume_snapshot_claims as claims
from stillframe.db import volume_snapshots as db
from tests.unit.db import scenes

pytestmark = pytest.mark.usefixtures('database')


class Teller:
    """Whoever tells Cinder: it is woken when there is something."""

    def __init__(self, tells=True):
        self.tells = tells
        self.woken = 0

    def wake(self):
        self.woken += 1


@pytest.fixture
def reaper():
    scenes.report(scenes.server(volumes=[scenes.volume(),
                                         scenes.volume('vdb')]))
    teller = Teller()
    made = volume_reaper.VolumeReaper(CONF, teller)
    made.teller = teller
    return made


def begin(target='vda'):
    return db.begin(scenes.ctxt(), scenes.volume(target)['volume_id'], 's',
                    'create', {'new_file': 'f'})['uuid']


def test_never_taken_up(reaper):
    one = begin()
    reaper.look(0)
    reaper.look(CONF.volume_snapshots.start_timeout - 1)
    assert db.get(one)['state'] == 'pending'
    reaper.look(2)
    row = db.get(one)
    assert (row['state'], row['delivery']) == ('error', 'due')
    assert 'did not take up' in row['message']
    assert reaper.teller.woken == 1
    assert not claims.claim(one, scenes.HOST)['go']
    assert begin()


def test_a_new_conductor_goes_on_counting(reaper):
    one = begin()
    claims.claim(begin('vdb'), scenes.HOST)
    with base.writer() as conn:
        conn.execute(sa.update(models.volume_snapshots).values(
            created_at=base.utcnow() - datetime.timedelta(days=1)))
    reaper.look(0)
    reaper.look(59)
    assert db.get(one)['state'] == 'pending'
    reaper.look(2)
    assert db.get(one)['state'] == 'error'
    assert [row['state'] for row in db.open_requests()] == ['running']
    reaper.look(CONF.volume_snapshots.give_up_after - 62)
    assert [row['state'] for row in db.open_requests()] == ['running']


def test_taken_up_and_never_reported(reaper):
    one = begin()
    reaper.look(0)
    reaper.look(CONF.volume_snapshots.start_timeout - 1)
    claims.claim(one, scenes.HOST)
    # It counts anew from here.
    reaper.look(CONF.volume_snapshots.give_up_after)
    reaper.look(CONF.volume_snapshots.give_up_after - 1)
    assert db.get(one)['state'] == 'running'
    reaper.look(2)
    row = db.get(one)
    assert (row['state'], row['delivery']) == ('error', 'due')
    assert 'did not report' in row['message']


def test_nobody_to_tell(reaper):
    reaper.teller.tells = False
    one = begin()
    reaper.look(0)
    reaper.look(CONF.volume_snapshots.start_timeout)
    row = db.get(one)
    assert (row['state'], row['delivery']) == ('error', 'none')
