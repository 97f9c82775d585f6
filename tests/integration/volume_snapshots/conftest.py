# SPDX-License-Identifier: Apache-2.0
"""Fixtures: a Stillframe beside a hypervisor, for one test."""

from collections.abc import Callable
from collections.abc import Iterator
import contextlib
from typing import Any
import uuid

import pytest

from tests.integration.volume_snapshots.bench import PROJECT
from tests.integration.volume_snapshots.bench import Bench
from tests.integration.volume_snapshots.daemon import Stillframe
from tests.integration.volume_snapshots.daemon import open_cinder
from tests.integration.volume_snapshots.scene import Scene
from tests.lab import cinder_config
from tests.lab import cinder_dialects
from tests.lab.cinder_double import CinderDouble
from tests.lab.guests import Guest
from tests.lab.libvirtd import Libvirtd
from tests.lab.volumes import Volumes


@pytest.fixture
def new_stillframe() -> Iterator[Callable[..., Stillframe]]:
    """Make Stillframes that only this test uses."""
    with contextlib.ExitStack() as stack:
        yield lambda host, **settings: stack.enter_context(
            Stillframe(host, **settings))


@pytest.fixture
def new_scene(volumes: Volumes, new_stillframe: Callable[..., Stillframe]
              ) -> Iterator[Callable[..., Scene]]:
    """Put a guest on a volume of the real Cinder, with a Stillframe."""
    with contextlib.ExitStack() as stack:
        def make(host: Libvirtd, guest: dict[str, Any] | None = None,
                 **settings: Any) -> Scene:
            stillframe = new_stillframe(host, **{
                **settings, 'cinder': {**open_cinder(
                    volumes.cinder.endpoint, cinder_config.PROJECT),
                    **settings.get('cinder', {})}})
            return stack.enter_context(
                Scene(host, volumes, stillframe, **(guest or {})))

        yield make


@pytest.fixture
def new_bench(new_stillframe: Callable[..., Stillframe],
              host_a: Libvirtd) -> Iterator[Callable[..., Bench]]:
    """Put a guest before a Stillframe that tells a stand-in for Cinder.

    Call it with a dialect, guest options, and settings by group.
    """
    with contextlib.ExitStack() as stack:
        def make(dialect: str = cinder_dialects.STOCK,
                 guest: dict[str, Any] | None = None,
                 host: Libvirtd = host_a, **settings: Any) -> Bench:
            double = stack.enter_context(CinderDouble(dialect))
            machine = stack.enter_context(
                Guest(host, f'bench-{uuid.uuid4().hex[:8]}',
                      **(guest or {})))
            return Bench(host, machine, new_stillframe(host, **{
                **settings, 'cinder': {
                    **open_cinder(double.endpoint, PROJECT),
                    **settings.get('cinder', {})}}), double)

        yield make
