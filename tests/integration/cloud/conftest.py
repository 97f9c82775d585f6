# SPDX-License-Identifier: Apache-2.0
"""Fixtures: a cloud that the tests of a module share and may hurt."""

from collections.abc import Iterator
import contextlib

import libvirt
import pytest

from tests.integration.cloud.cloud import Cloud
from tests.lab.guests import Guest
from tests.lab.libvirtd import Libvirtd
from tests.lab.mariadb import MariaDB
from tests.lab.rabbit import Rabbit


@pytest.fixture(scope='module')
def own_rabbit() -> Iterator[Rabbit]:
    """A broker to stop."""
    with Rabbit() as broker:
        yield broker


@pytest.fixture(scope='module')
def own_mariadb() -> Iterator[MariaDB]:
    """A database to stop."""
    with MariaDB() as server:
        yield server


@pytest.fixture(scope='module')
def alpha() -> Iterator[Libvirtd]:
    """The hypervisor of the worker alpha."""
    with Libvirtd('al') as host:
        yield host


@pytest.fixture(scope='module')
def shared_cloud(own_rabbit: Rabbit, own_mariadb: MariaDB,
                 alpha: Libvirtd) -> Iterator[Cloud]:
    """One cloud a module."""
    with Cloud(own_rabbit, own_mariadb, 'cloud',
               {'alpha': alpha}) as cloud:
        yield cloud


@pytest.fixture(scope='module')
def shared_web(alpha: Libvirtd) -> Iterator[Guest]:
    """One guest a module."""
    with Guest(alpha, 'web') as guest:
        yield guest


@pytest.fixture
def cloud(shared_cloud: Cloud) -> Cloud:
    """A cloud that is well."""
    shared_cloud.heal()
    return shared_cloud


@pytest.fixture
def web(cloud: Cloud, shared_web: Guest) -> Iterator[Guest]:
    """A running server, shown as ACTIVE."""
    shared_web.set_hook()
    cloud.wait_state(shared_web.uuid, 'ACTIVE')
    yield shared_web
    with contextlib.suppress(libvirt.libvirtError):
        shared_web.resume()
    with contextlib.suppress(libvirt.libvirtError):
        shared_web.thaw()
    cloud.heal()
    if cloud.state(shared_web.uuid) != ('ACTIVE', None):
        cloud.act(shared_web.uuid, **{'os-resetState': {'state': 'active'}})
    cloud.wait_state(shared_web.uuid, 'ACTIVE')


@pytest.fixture
def own_guest(alpha: Libvirtd) -> Iterator[Guest]:
    """A guest to destroy."""
    with Guest(alpha, 'gone') as guest:
        yield guest
