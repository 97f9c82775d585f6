# SPDX-License-Identifier: Apache-2.0
"""Sites to try snapshots of nodes on."""

import itertools

import pytest

from tests.integration.baremetal.site import Site
from tests.lab.processes import state_dir

_numbers = itertools.count(1)


@pytest.fixture
def mac():
    """An address that no other node has."""
    number = next(_numbers)
    return f'52:54:00:00:{number // 256:02x}:{number % 256:02x}'


@pytest.fixture(scope='module')
def site():
    """A site of one process, running, that the tests of a file share."""
    with state_dir('bm') as folder, Site(folder) as made:
        made.all_in_one()
        yield made


@pytest.fixture(scope='module')
def slow_site():
    """The same, where an image is on its way for half a minute."""
    with state_dir('bm') as folder, Site(folder, bandwidth=0.07) as made:
        made.all_in_one()
        yield made


@pytest.fixture
def own_site():
    """A site of one process of this test alone, to hurt."""
    with state_dir('bm') as folder, Site(folder, bandwidth=0.07) as made:
        made.all_in_one()
        yield made
