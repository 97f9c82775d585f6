# SPDX-License-Identifier: Apache-2.0
"""Real stores for images, and workers that use them."""

from collections.abc import Callable
from collections.abc import Iterator
import contextlib

from oslo_config import cfg
import pytest

from stillframe.conf import glance as glance_conf
from stillframe.conf import images as images_conf
from tests.integration.images.studio import Studio
from tests.integration.images.studio import studio_beside
from tests.lab import glance as glance_lab
from tests.lab.guests import Guest
from tests.lab.libvirtd import Libvirtd


@pytest.fixture(scope='session')
def glance():
    """One Glance for all tests that do it no harm."""
    with glance_lab.Glance() as lab:
        yield lab


def glance_settings(url: str, **own: object) -> cfg.ConfigOpts:
    """Make a configuration whose image store is a Glance."""
    conf = cfg.ConfigOpts()
    for module in (images_conf, glance_conf):
        module.register(conf)
    conf([], default_config_files=[])
    conf.set_override('store', 'glance', group='images')
    conf.set_override('auth_type', 'none', group='glance')
    conf.set_override('endpoint_override', url, group='glance')
    for key, value in own.items():
        conf.set_override(key, value, group='glance')
    return conf


@pytest.fixture(scope='module')
def host() -> Iterator[Libvirtd]:
    """A hypervisor that the tests of a module share."""
    with Libvirtd('i') as daemon:
        yield daemon


@pytest.fixture(scope='module')
def studio(host: Libvirtd) -> Iterator[Studio]:
    """A worker that the tests of a module share."""
    with studio_beside(host) as made:
        yield made


@pytest.fixture
def new_studio(host: Libvirtd) -> Iterator[Callable[..., Studio]]:
    """Make workers that only this test uses."""
    with contextlib.ExitStack() as stack:
        yield lambda **settings: stack.enter_context(
            studio_beside(host, **settings))


@pytest.fixture(scope='module')
def guest(host: Libvirtd) -> Iterator[Guest]:
    """A guest that each test leaves running and thawed."""
    with Guest(host, 'web', disk_count=2) as made:
        # More than what lies in sockets and buffers on its way.
        made.run('dd if=/dev/urandom of=/data/vda/blob bs=1M count=16; sync',
                 timeout=60)
        yield made
