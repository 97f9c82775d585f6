# SPDX-License-Identifier: Apache-2.0
"""Fill a database with bare-metal nodes that have no machine behind them.

``python -m tools.bench.node_seed --config-file FILE`` (the program is a
process of its own since a process has one database). The rows are as a
POST of /v1/nodes leaves them, and those of the agents' nodes as after
``adopt``.
"""

import sys
from typing import Any
import uuid

import sqlalchemy as sa

from stillframe import service
from stillframe.db import base
from stillframe.db import models
from stillframe.states import nodes as states
from stillframe.states import power
from tools.bench import stack

NODES = 10_000
#: The last so many are active: their snapshots wait for agents.
AGENTS = 500

_SPACE = uuid.UUID('7c2f0d4e-6a7e-4a51-8d0f-0f5a3c1be6d2')
_BATCH = 1000
# Longer than any measurement: the machines' data are under way.
_TRANSFER = 3600.0


def node_id(number: int) -> str:
    """Give the UUID of a node."""
    return str(uuid.uuid5(_SPACE, str(number)))


def _row(number: int) -> dict[str, Any]:
    one = node_id(number)
    waits = number >= NODES - AGENTS
    now = base.utcnow()
    return {
        'uuid': one, 'name': f'node-{number:05d}', 'version': 1,
        'driver': 'fake-hardware',
        'driver_info': {
            'redfish_address': f'https://192.0.2.{number % 250}',
            'redfish_system_id': f'/redfish/v1/Systems/{number}',
            'redfish_username': 'root', 'redfish_password': one,
            'deploy_kernel': 'https://192.0.2.1/ramdisk/kernel',
            'deploy_ramdisk': 'https://192.0.2.1/ramdisk/initramfs',
            'fake_delays': {'snapshot.transfer': _TRANSFER}},
        'driver_internal_info': {},
        'properties': {
            'cpus': 64, 'memory_mb': 262144, 'local_gb': 893,
            'cpu_arch': 'x86_64', 'vendor': 'a vendor',
            'capabilities': 'boot_mode:uefi,iscsi_boot:True',
            'root_device': {'serial': f'S{number:08d}'}},
        'instance_info': {}, 'extra': {'rack': number // 40,
                                       'unit': number % 40},
        'conductor_group': '', 'maintenance': False,
        'resource_class': 'baremetal.large', 'owner': stack.PROJECT,
        'description': f'unit {number % 40} of rack {number // 40}',
        'provision_state': states.ACTIVE if waits else states.ENROLL,
        'power_state': power.POWER_ON if waits else None,
        'provision_updated_at': now if waits else None,
        'created_at': now, 'updated_at': now if waits else None}


def main() -> int:
    """Make the nodes."""
    conf = service.prepare(prog='node_seed')
    base.configure(conf)
    for first in range(0, NODES, _BATCH):
        with base.writer() as conn:
            conn.execute(sa.insert(models.nodes), [
                _row(number) for number in range(first, first + _BATCH)])
    base.dispose()
    return 0


if __name__ == '__main__':
    sys.exit(main())
