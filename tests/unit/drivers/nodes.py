# SPDX-License-Identifier: Apache-2.0
"""Nodes for tests, as drivers see them."""

from typing import Any

from oslo_config import cfg

from stillframe.conf import agent
from stillframe.conf import baremetal
from stillframe.conf import drivers
from stillframe.conf import redfish

UUID = '6f1c4b1e-1d7f-4c59-9d0b-0c4ed2f2c1a5'


def make_node(**columns: Any) -> dict[str, Any]:
    """Make a node's row, as far as drivers read it."""
    return {'uuid': UUID, 'driver': 'fake-hardware', 'driver_info': {},
            'power_state': None, 'power_interface': None,
            'management_interface': None, 'boot_interface': None,
            'snapshot_interface': None, 'agent_url': None,
            'agent_verify_ca': None, **columns}


def configuration(**options: Any) -> cfg.ConfigOpts:
    """Make a configuration with options of the group [drivers] set."""
    conf = cfg.ConfigOpts()
    for module in (agent, baremetal, drivers, redfish):
        module.register(conf)
    for name, value in options.items():
        conf.set_override(name, value, group='drivers')
    conf([])
    return conf
