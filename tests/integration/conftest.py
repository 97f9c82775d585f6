# SPDX-License-Identifier: Apache-2.0
"""Fixtures: the laboratory's things, each started when first asked for."""

from collections.abc import Callable
from collections.abc import Iterator
from typing import Any

import pytest

from tests.integration.fixtures_openstack import cinder
from tests.integration.fixtures_openstack import cinder_double
from tests.integration.fixtures_openstack import cloud_cinder
from tests.integration.fixtures_openstack import cloud_glance
from tests.integration.fixtures_openstack import cloud_keystone
from tests.integration.fixtures_openstack import compute_standin
from tests.integration.fixtures_openstack import glance
from tests.integration.fixtures_openstack import shared_cinder
from tests.integration.fixtures_openstack import volumes
from tests.lab.guests import Guest
from tests.lab.keystone import Keystone
from tests.lab.libvirtd import Libvirtd
from tests.lab.mariadb import MariaDB
from tests.lab.pool import GuestPool
from tests.lab.postgres import Postgres
from tests.lab.rabbit import Rabbit

#: Fixtures that are defined elsewhere.
__all__ = ["cinder", "cinder_double", "cloud_cinder", "cloud_glance",
           "cloud_keystone", "compute_standin", "glance", "shared_cinder",
           "volumes"]


@pytest.fixture(scope="session")
def host_a() -> Iterator[Libvirtd]:
    """A hypervisor that tests share: leave it running."""
    with Libvirtd("a") as host:
        yield host


@pytest.fixture(scope="session")
def host_b() -> Iterator[Libvirtd]:
    """Another one, for what moves between two."""
    with Libvirtd("b") as host:
        yield host


@pytest.fixture
def own_host() -> Iterator[Libvirtd]:
    """A hypervisor of this test alone, to hurt."""
    with Libvirtd("own") as host:
        yield host


@pytest.fixture(scope="session")
def pool(host_a: Libvirtd) -> Iterator[GuestPool]:
    """The running guests of host_a that nobody uses."""
    guests = GuestPool(host_a)
    yield guests
    guests.close()


@pytest.fixture
def lend_guest(pool: GuestPool) -> Iterator[Callable[..., Guest]]:
    """Call it with Guest's options for a running guest on host_a.

    Do to it what you like: it's used again only when it came back whole.
    """
    lent: list[tuple[Guest, dict[str, Any]]] = []

    def lend(**options: Any) -> Guest:
        guest = pool.take(**options)
        lent.append((guest, options))
        return guest

    yield lend
    for guest, options in lent:
        pool.give_back(guest, **options)


@pytest.fixture
def guest(lend_guest: Callable[..., Guest]) -> Guest:
    """A running guest on host_a, with one disk and an agent."""
    return lend_guest()


@pytest.fixture(scope="session")
def rabbit() -> Iterator[Rabbit]:
    """A broker that tests share."""
    with Rabbit() as broker:
        yield broker


@pytest.fixture(scope="session")
def mariadb() -> Iterator[MariaDB]:
    """A MariaDB that tests share; make a database of your own in it."""
    with MariaDB() as server:
        yield server


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A PostgreSQL that tests share; make a database of your own in it."""
    with Postgres() as server:
        yield server


@pytest.fixture(scope="session")
def keystone() -> Iterator[Keystone]:
    """A Keystone that tests share."""
    with Keystone() as service:
        yield service
