# SPDX-License-Identifier: Apache-2.0
"""Receivers, each with a database and a folder of its own."""

import contextlib
import os
import subprocess

import pytest

from stillframe.conf import CONF
from tests.integration.receiver.depot import Depot
from tests.unit.db.conftest import database  # noqa: F401
from tests.unit.db.conftest import migrated  # noqa: F401


@pytest.fixture(autouse=True)
def host():
    """The name of the conductor."""
    CONF.set_override('host', 'conductor-1', 'conductor')
    yield
    CONF.clear_override('host', 'conductor')


@pytest.fixture(scope='module')
def data():
    """An image of a few MiB, and not of whole blocks."""
    return os.urandom((5 << 20) + 4321)


@pytest.fixture
def new_depot(database, tmp_path):  # noqa: F811
    """Make a receiver with settings of [receiver]."""
    with contextlib.ExitStack() as stack:
        yield lambda path=tmp_path, **settings: stack.enter_context(
            Depot(path, **settings))


@pytest.fixture
def depot(new_depot):
    """A receiver as it is by default."""
    return new_depot()


@pytest.fixture
def small_store(tmp_path):
    """A file system of 64 MiB, for what fills up."""
    path = tmp_path / 'small'
    path.mkdir()
    subprocess.run(['mount', '-t', 'tmpfs', '-o', 'size=64m', 'tmpfs',
                    path], check=True)
    yield path
    subprocess.run(['umount', path], check=True)
