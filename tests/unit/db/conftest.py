# SPDX-License-Identifier: Apache-2.0
"""A database for each test: a file of SQLite, as the embedded default."""

import shutil

import pytest

from stillframe.conf import CONF
from stillframe.db import base
from stillframe.db import migration


@pytest.fixture(scope='session')
def migrated(tmp_path_factory):
    """A file with the tables in it, to be copied."""
    path = tmp_path_factory.mktemp('db') / 'migrated.sqlite'
    base.configure(CONF)
    CONF.set_override('connection', f'sqlite:///{path}', 'database')
    migration.upgrade()
    base.dispose()
    CONF.clear_override('connection', 'database')
    return path


@pytest.fixture
def database(migrated, tmp_path):
    """A database with the tables; gives its URL."""
    path = tmp_path / 'test.sqlite'
    shutil.copy(migrated, path)
    url = f'sqlite:///{path}'
    base.configure(CONF)
    CONF.set_override('connection', url, 'database')
    yield url
    base.dispose()
    CONF.clear_override('connection', 'database')
