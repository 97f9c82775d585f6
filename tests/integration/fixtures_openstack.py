# SPDX-License-Identifier: Apache-2.0
"""Fixtures: real OpenStack services, shared by all tests of a run.

Each is started when the first test asks for it.
"""

from collections.abc import Iterator

import pytest

from tests.lab.cinder import Cinder
from tests.lab.cinder_double import CinderDouble
from tests.lab.compute_standin import ComputeStandIn
from tests.lab.glance import Glance
from tests.lab.keystone import Keystone
from tests.lab.rabbit import USER
from tests.lab.rabbit import Rabbit
from tests.lab.volumes import Volumes


def _own_corner(rabbit: Rabbit, name: str) -> str:
    """Make a virtual host of its own in a broker; return its address.

    All Cinders call their queues the same.
    """
    rabbit.ctl("add_vhost", name)
    rabbit.ctl("set_permissions", "-p", name, USER, ".*", ".*", ".*")
    return f"{rabbit.url}{name}"


@pytest.fixture(scope="session")
def glance() -> Iterator[Glance]:
    """A Glance that lets everybody do everything."""
    with Glance() as service:
        yield service


@pytest.fixture(scope="session")
def shared_cinder(rabbit: Rabbit, glance: Glance) -> Iterator[Cinder]:
    """A Cinder that lets everybody do everything; use `cinder`."""
    with Cinder(_own_corner(rabbit, "cinder"), glance.url) as service:
        yield service


@pytest.fixture
def cinder(shared_cinder: Cinder) -> Iterator[Cinder]:
    """A Cinder that runs, and whose compute endpoint is nobody yet."""
    shared_cinder.ensure_running()
    shared_cinder.compute.point_at(None)
    yield shared_cinder
    shared_cinder.compute.point_at(None)
    shared_cinder.ensure_running()


@pytest.fixture
def volumes(cinder: Cinder) -> Iterator[Volumes]:
    """Volumes that go when the test ends."""
    with Volumes(cinder) as made:
        yield made


@pytest.fixture
def compute_standin(volumes: Volumes) -> Iterator[ComputeStandIn]:
    """A stand-in for Stillframe, to which Cinder's requests go."""
    with ComputeStandIn(volumes) as standin:
        volumes.cinder.compute.point_at(standin.port)
        yield standin


@pytest.fixture
def cinder_double() -> Iterator[CinderDouble]:
    """A Cinder that speaks the spec's dialect, strictly."""
    with CinderDouble() as double:
        yield double


@pytest.fixture(scope="module")
def cloud_keystone() -> Iterator[Keystone]:
    """A Keystone whose catalogue the services of a module fill."""
    with Keystone() as service:
        yield service


@pytest.fixture(scope="module")
def cloud_cinder(cloud_keystone: Keystone, rabbit: Rabbit
                 ) -> Iterator[Cinder]:
    """A Cinder that asks Keystone who is who."""
    with Cinder(_own_corner(rabbit, f"cinder{cloud_keystone.port}"),
                keystone=cloud_keystone) as service:
        yield service


@pytest.fixture(scope="module")
def cloud_glance(cloud_keystone: Keystone) -> Iterator[Glance]:
    """A Glance that asks Keystone who is who."""
    with Glance(cloud_keystone) as service:
        yield service
