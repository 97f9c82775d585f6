# SPDX-License-Identifier: Apache-2.0
"""Everything that is tested on SQLite, here with this folder's fixture."""

import inspect
import types

import pytest

from tests.unit.db import test_images
from tests.unit.db import test_inventory
from tests.unit.db import test_migrations
from tests.unit.db import test_node_agents
from tests.unit.db import test_node_moves
from tests.unit.db import test_node_snapshots
from tests.unit.db import test_nodes
from tests.unit.db import test_outcomes
from tests.unit.db import test_purging
from tests.unit.db import test_reaping
from tests.unit.db import test_services
from tests.unit.db import test_transfers
from tests.unit.db import test_transitions
from tests.unit.db import test_volume_snapshots


def again(module: types.ModuleType) -> type:
    """Make a test class of the tests of a module."""
    found = {}
    for name, value in vars(module).items():
        if name.startswith('test_') and inspect.isfunction(value):
            found[name] = staticmethod(value)
        elif name.startswith('Test') and inspect.isclass(value):
            found[name] = value
    assert found, f'{module.__name__} has no tests'
    return pytest.mark.usefixtures('database')(
        type('Tests', (), found))


TestImages = again(test_images)
TestInventory = again(test_inventory)
TestMigrations = again(test_migrations)
TestNodeAgents = again(test_node_agents)
TestNodeMoves = again(test_node_moves)
TestNodeSnapshots = again(test_node_snapshots)
TestNodes = again(test_nodes)
TestOutcomes = again(test_outcomes)
TestPurging = again(test_purging)
TestReaping = again(test_reaping)
TestServices = again(test_services)
TestTransfers = again(test_transfers)
TestTransitions = again(test_transitions)
TestVolumeSnapshots = again(test_volume_snapshots)
