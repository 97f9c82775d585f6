# SPDX-License-Identifier: Apache-2.0
"""Nodes in the states that tests of the database begin in."""

from typing import Any

import sqlalchemy as sa

from stillframe.db import base
from stillframe.db import models
from stillframe.db import node_moves
from stillframe.db import node_snapshots
from stillframe.db import nodes

HOST = 'c1'
OTHER = 'c2'
REQUEST = {
    'image_ref': '5a7d5b4c-9f0e-4a55-bd6b-6a3a6a4f0d01',
    'disk_format': 'qcow2', 'options': {'compress': 'zstd'},
    'request_id': 'req-1', 'user_id': 'u', 'project_id': 'p'}


def node(state: str = 'enroll', **values: Any) -> sa.RowMapping:
    """Make a node in a state."""
    return nodes.create({'driver': 'fake-hardware',
                         'provision_state': state, **values})


def write(node: Any, **values: Any) -> sa.RowMapping:
    """Write to a node's row whatever a test wants."""
    with base.writer() as conn:
        conn.execute(sa.update(models.nodes)
                     .where(models.nodes.c.uuid == node['uuid'])
                     .values(**values))
    return nodes.get(node['uuid'])


def snapshotting(**values: Any) -> sa.RowMapping:
    """Make a node whose snapshot was accepted just now."""
    return node_moves.begin(node('active', **values), 'snapshot', HOST,
                            REQUEST)


def waiting(**values: Any) -> sa.RowMapping:
    """Make a node that waits for its ramdisk."""
    return node_moves.move(snapshotting(**values), HOST, 'wait',
                           release=True)


def snapshot(node: Any) -> sa.RowMapping:
    """Give the snapshot of a node."""
    return node_snapshots.get(nodes.get(node['uuid'])['snapshot_id'])
