# SPDX-License-Identifier: Apache-2.0
"""Fixtures: a hypervisor, a guest and a worker for the tests of a module.

Tests that hurt the worker or the hypervisor make their own.
"""

from collections.abc import Callable
from collections.abc import Iterator
import contextlib

import libvirt
import pytest

from tests.integration.compute.workers import Worker
from tests.lab.guests import Guest
from tests.lab.libvirtd import Libvirtd
from tests.lab.processes import wait_until


@pytest.fixture(scope='module')
def host() -> Iterator[Libvirtd]:
    """A hypervisor that the tests of a module share."""
    with Libvirtd('h') as daemon:
        yield daemon


@pytest.fixture(scope='module')
def shared_guest(host: Libvirtd) -> Iterator[Guest]:
    """A guest that each test of a module leaves as it found it."""
    with Guest(host, 'web') as guest:
        yield guest


@pytest.fixture
def guest(shared_guest: Guest) -> Iterator[Guest]:
    """A running, thawed guest with a well-behaved hook."""
    shared_guest.set_hook()
    yield shared_guest
    with contextlib.suppress(libvirt.libvirtError):
        shared_guest.resume()
    with contextlib.suppress(libvirt.libvirtError):
        shared_guest.thaw()


@pytest.fixture
def new_guest(host: Libvirtd) -> Iterator[Callable[..., Guest]]:
    """Make guests that only this test uses."""
    with contextlib.ExitStack() as stack:
        yield lambda name, **how: stack.enter_context(
            Guest(host, name, **how))


@pytest.fixture(scope='module')
def shared_worker(host: Libvirtd) -> Iterator[Worker]:
    """A worker with short times that the tests of a module share."""
    with Worker(host) as running:
        yield running


@pytest.fixture
def worker(shared_worker: Worker) -> Iterator[Worker]:
    """A worker that runs, and has no freeze at the end of a test."""
    shared_worker.outcomes.clear()
    yield shared_worker
    wait_until(lambda: not shared_worker.records, 20, 'an empty journal')


@pytest.fixture
def new_worker(host: Libvirtd) -> Iterator[Callable[..., Worker]]:
    """Make workers that only this test uses."""
    with contextlib.ExitStack() as stack:
        yield lambda **settings: stack.enter_context(
            Worker(host, **settings))
