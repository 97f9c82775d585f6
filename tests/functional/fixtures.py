# SPDX-License-Identifier: Apache-2.0
"""Fixtures that the scripts in gabbits/ name."""

import os
from typing import Any

from gabbi import fixture

from tests.functional import environment
from tests.functional import node_population

_current: list[Any] = []


def app() -> Any:
    """Give a WSGI application that is the one of the fixture in place."""
    return lambda environ, start: _current[-1].app(environ, start)


class Api(fixture.GabbiFixture):
    """The API with the strategy noauth."""

    options: dict[str, Any] = {}

    def start_fixture(self):
        """Build it."""
        self._context = environment.environment(**self.options)
        _current.append(self._context.__enter__())

    def stop_fixture(self):
        """Take it down."""
        _current.pop()
        self._context.__exit__(None, None, None)


class Nodes(Api):
    """The API with the strategy noauth, and bare-metal nodes."""

    options = {'nodes': True, 'images__url_prefixes': 'file:///srv/images',
               'baremetal__agent_api_url': 'https://api.test'}

    def start_fixture(self):
        """Build it; what scripts cannot know is put where they find it."""
        super().start_fixture()
        os.environ.update(
            AGENT_TOKEN=node_population.tokens[node_population.WAITING],
            **node_population.images())


class NodesNoBroker(Api):
    """Bare-metal nodes, and nobody where the broker should be."""

    options = {'nodes': True,
               'transport_url': 'rabbit://guest:guest@127.0.0.1:1/',
               'api__cast_retries': 0}


class SmallPages(Api):
    """Three entries a page at most."""

    options = {'api__max_limit': 3}


class BehindProxy(Api):
    """Links begin with another address."""

    options = {'api__link_prefix': 'https://compute.example.org/sf/'}


class NoBroker(Api):
    """Nobody listens where the message broker should be."""

    options = {'transport_url': 'rabbit://guest:guest@127.0.0.1:1/',
               'api__cast_retries': 0}


class NoImageStore(Api):
    """Images can be put nowhere."""

    options = {'images__folder': '/dev/null/images'}


class NoDatabase(Api):
    """Nobody listens where the database should be."""

    options = {'database__connection':
               'mysql+pymysql://root@127.0.0.1:1/stillframe',
               'database__max_retries': 0,
               'populate': False}
