# SPDX-License-Identifier: Apache-2.0
"""What the benchmark reads from the database and from the kernel."""

import datetime
import os

import pytest
import sqlalchemy as sa

from stillframe.db import models
from tools.bench import freeze
from tools.bench import stack
from tools.bench import window

_NOW = datetime.datetime(2026, 1, 31, 12, 0, 0, 250_000)
_SERVER = '018ecc9f-e514-56d1-b8b3-5d30030f5f96'


@pytest.fixture
def database(tmp_path):
    """A database with the server that everything is about."""
    url = f'sqlite:///{tmp_path}/db'
    engine = sa.create_engine(url)
    models.metadata.create_all(engine)
    engine.dispose()
    return url


def _record(database, request_id, details, frozen_at=None):
    engine = sa.create_engine(database)
    with engine.begin() as conn:
        key = conn.execute(sa.insert(models.actions).values(
            server_uuid=_SERVER, action='any', request_id=request_id,
            start_time=_NOW, updated_at=_NOW)).inserted_primary_key
        conn.execute(sa.insert(models.action_events).values(
            action_id=key[0], event='any', start_time=_NOW,
            details=details))
        if frozen_at is not None:
            conn.execute(sa.insert(models.freezes).values(
                server_uuid=_SERVER, freeze_id=request_id, host='here',
                timeout=60, frozen_at=frozen_at, created_at=_NOW))
    engine.dispose()


def test_freezes_are_read_by_their_request(database):
    _record(database, 'req-1', 'freeze call 0.100 s', _NOW)
    _record(database, 'req-2', 'freeze call 0.200 s', _NOW)
    assert freeze.read(database, ['req-2']) == {
        'req-2': (_NOW, 'freeze call 0.200 s')}


def test_windows_are_read_in_the_order_asked_for(database):
    _record(database, 'req-1', '1 file systems thawed; frozen for 0.500 s')
    _record(database, 'req-2', 'frozen for 0.250 s; reason x')
    assert window.windows_of(database, ['req-2', 'req-1']) == [0.25, 0.5]


def test_a_window_that_was_not_reported_is_an_error(database):
    _record(database, 'req-1', 'thawed by somebody')
    with pytest.raises(ValueError):
        window.windows_of(database, ['req-1'])
    with pytest.raises(ValueError):
        window.windows_of(database, ['req-2'])


def test_memory_and_cpu_of_a_process():
    before = stack.cpu(os.getpid())
    while stack.cpu(os.getpid()) - before < 0.02:
        sum(range(100_000))
    # An interpreter with SQLAlchemy; not kB, not pages.
    assert 20 < stack.rss(os.getpid()) < 2000
