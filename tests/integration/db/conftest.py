# SPDX-License-Identifier: Apache-2.0
"""A database for each test: on real servers, emptied between two tests."""

import contextlib

import pytest

from stillframe.conf import CONF
from stillframe.db import base
from stillframe.db import migration
from stillframe.db import models
from tests.lab.mariadb import MariaDB
from tests.lab.postgres import Postgres

SERVERS = {'mariadb': MariaDB, 'postgresql': Postgres}


@contextlib.contextmanager
def configured(url):
    """Have the database layer use a URL."""
    base.configure(CONF)
    CONF.set_override('connection', url, 'database')
    try:
        yield
    finally:
        base.dispose()
        CONF.clear_override('connection', 'database')


@pytest.fixture(scope='session', params=sorted(SERVERS))
def db_server(request):
    """A running database server."""
    with SERVERS[request.param]() as server:
        yield server


@pytest.fixture(scope='session')
def db_url(db_server):
    """A database with the tables in it."""
    url = db_server.create('suite')
    with configured(url):
        migration.upgrade()
    return url


@pytest.fixture
def database(db_url):
    """An empty database with the tables; gives its URL."""
    with configured(db_url):
        with base.writer() as conn:
            for table in reversed(models.metadata.sorted_tables):
                conn.execute(table.delete())
        yield db_url
