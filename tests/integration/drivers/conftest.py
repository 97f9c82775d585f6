# SPDX-License-Identifier: Apache-2.0
"""Fixtures: drivers for Redfish, in a hurry."""

from collections.abc import Iterator

from oslo_config import cfg
import pytest

from stillframe.drivers import factory
from tests.unit.drivers.nodes import configuration


@pytest.fixture
def conf() -> cfg.ConfigOpts:
    """A configuration with short waits."""
    made = configuration(enabled_hardware_types=['redfish'])
    for name, value in (('retry_wait', 0.05), ('power_poll_interval', 0.05),
                        ('power_timeout', 30.0), ('connect_timeout', 10.0),
                        ('request_timeout', 30.0)):
        made.set_override(name, value, group='redfish')
    made.set_override('agent_api_url', 'https://api.test', group='baremetal')
    return made


@pytest.fixture
def drivers(conf: cfg.ConfigOpts) -> Iterator[factory.Factory]:
    """The factory; closed in the end."""
    with factory.Factory(conf) as made:
        yield made
