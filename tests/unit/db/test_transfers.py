# SPDX-License-Identifier: Apache-2.0
"""Transfers in the database."""

import uuid

from oslo_db import exception as db_exc
import pytest

from stillframe.db import transfers
from stillframe.states.transfers import State

pytestmark = pytest.mark.usefixtures('database')

HASH = 'ab' * 32


def opened(snapshot, conductor='c-1'):
    name = uuid.uuid4().hex
    transfers.open_(name, snapshot, conductor, HASH)
    return name


def row(name, conductor='c-1'):
    return {one['name']: one for one in
            transfers.of_conductor(conductor)}.get(name)


def test_from_open_to_removed():
    snapshot = str(uuid.uuid4())
    name = opened(snapshot)
    found = row(name)
    assert (found['snapshot_uuid'], found['credential_hash'],
            found['received'], found['sha256'], found['state']) == (
                snapshot, HASH, 0, None, 'waiting')
    assert transfers.move(name, State.ARRIVED, 1 << 41, 'cd' * 32)
    found = row(name)
    assert (found['received'], found['sha256'], found['state']) == (
        1 << 41, 'cd' * 32, 'arrived')
    assert transfers.move(name, State.WAITING)
    assert row(name)['sha256'] is None
    transfers.removed(name)
    assert row(name) is None
    transfers.removed(name)


def test_a_conductor_sees_its_own():
    snapshot = str(uuid.uuid4())
    name = opened(snapshot, 'c-2')
    assert row(name, 'c-1') is None
    assert row(name, 'c-2')['snapshot_uuid'] == snapshot


def test_what_is_closed_stays_closed():
    snapshot = str(uuid.uuid4())
    name = opened(snapshot)
    assert transfers.close(snapshot)['conductor'] == 'c-1'
    assert not transfers.move(name, State.ARRIVED, 5, HASH)
    assert row(name)['state'] == State.CLOSED
    assert transfers.close(snapshot)['name'] == name


def test_closing_nothing():
    snapshot = str(uuid.uuid4())
    assert transfers.close(snapshot) is None
    assert not transfers.move('nothing', State.ARRIVED)


def test_one_a_snapshot():
    snapshot = str(uuid.uuid4())
    name = opened(snapshot)
    with pytest.raises(db_exc.DBDuplicateEntry):
        opened(snapshot, 'c-2')
    transfers.close(snapshot)
    # Its conductor may never live again; the snapshot goes on elsewhere.
    other = opened(snapshot, 'c-2')
    assert row(name) is None
    assert row(other, 'c-2')['state'] == State.WAITING
