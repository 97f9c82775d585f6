# SPDX-License-Identifier: Apache-2.0
"""What the API sees of a snapshot before it is accepted."""

import types

import pytest

from stillframe.api.controllers.baremetal import snapshot_requests
from stillframe.drivers import errors
from stillframe.drivers import factory
from tests.unit.drivers.nodes import configuration
from tests.unit.drivers.nodes import make_node


@pytest.fixture
def services():
    """An API that is not told where ramdisks report to."""
    with factory.Factory(configuration(
            enabled_hardware_types=['fake-hardware'])) as drivers:
        yield types.SimpleNamespace(drivers=drivers)


def test_where_to_report_to_is_for_the_conductor_to_say(services):
    node = make_node(snapshot_interface='agent')
    with pytest.raises(errors.NowhereToReport):
        services.drivers.build(node).snapshot.validate(node)
    snapshot_requests._check_node(services, node)


def test_no_snapshots_of_this_node(services):
    with pytest.raises(errors.UnsupportedInterface):
        snapshot_requests._check_node(
            services, make_node(snapshot_interface='no-snapshot'))
