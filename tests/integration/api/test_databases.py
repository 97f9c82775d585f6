# SPDX-License-Identifier: Apache-2.0
"""The API's scripts and races again, on MariaDB and PostgreSQL."""

import itertools
import random
import re

import pytest

from stillframe.api.schemas import servers as schema
from stillframe.db import servers
from tests.functional import environment
from tests.functional import fixtures
from tests.functional import test_actions
from tests.functional import test_gabbits
from tests.lab.mariadb import MariaDB
from tests.lab.postgres import Postgres

SERVERS = {'mariadb': MariaDB, 'postgresql': Postgres}

SCRIPTS = ('servers', 'server-list', 'server-actions', 'instance-actions',
           'volume-attachments', 'services', 'healthcheck',
           'baremetal_nodes', 'baremetal_ports', 'baremetal_projects',
           'baremetal_ramdisk', 'baremetal_snapshots', 'baremetal_states')

_numbers = itertools.count(1)


@pytest.fixture(scope='module', params=sorted(SERVERS))
def db_server(request):
    """A running database server."""
    with SERVERS[request.param]() as server:
        yield server


@pytest.fixture
def new_database(db_server):
    """The URL of a database without tables."""
    return db_server.create(f'api{next(_numbers)}')


@pytest.mark.parametrize('name', SCRIPTS)
def test_script(new_database, name, subtests, monkeypatch):
    for fixture in (fixtures.Api, fixtures.Nodes):
        monkeypatch.setattr(fixture, 'options', {
            **fixture.options, 'database__connection': new_database})
    test_gabbits.test_script(test_gabbits.FOLDER / f'{name}.yaml', subtests)


PIECES = ('a', 'e', '-', 'f', '.', '[a-f]', '[^e]', '[]a]', r'\w', r'\d',
          r'\S', r'\.', r'\-', r'\_', r'\ ', 'a*', 'e+', 'r?', '.*', '.+?',
          'p{2}', 'a{0,3}', '(', ')', '|', '^', '$', 'ü', '{', '\'', '%',
          '\\', ':', '(a|b)', '()', '&')


def test_name_patterns(api, db_server):
    """What is taken for a pattern, the database understands alike."""
    names = [row['name'] for row in servers.list_page(
        servers.Filters(), 100).servers]
    flags = re.IGNORECASE if isinstance(db_server, MariaDB) else 0
    chance = random.Random(20260131)
    taken = 0
    while taken < 400:
        pattern = ''.join(chance.choices(PIECES, k=chance.randint(1, 7)))
        try:
            schema.name_pattern(pattern)
        except ValueError:
            continue
        taken += 1
        found = servers.list_page(
            servers.Filters(name_pattern=pattern), 100).servers
        assert {row['name'] for row in found} == {
            name for name in names if re.search(pattern, name, flags)
        }, pattern


@pytest.fixture
def api(new_database):
    """An API on the database."""
    with environment.environment(
            database__connection=new_database) as made:
        yield made


def test_of_racing_requests_one_wins(api):
    test_actions.test_of_racing_requests_one_wins(api)


def test_racing_resets_all_win(api):
    test_actions.test_racing_resets_all_win(api)
