# SPDX-License-Identifier: Apache-2.0
"""The tables of the bare-metal dialect; see :mod:`stillframe.db.models`."""

import sqlalchemy as sa

from stillframe.db.columns import MYSQL
from stillframe.db.columns import BigId
from stillframe.db.columns import Time
from stillframe.db.columns import metadata

nodes = sa.Table(
    'nodes', metadata,
    sa.Column('id', BigId, primary_key=True),
    sa.Column('uuid', sa.String(36), nullable=False),
    sa.Column('name', sa.String(255)),
    # Grows with each change that a user makes, so that of two that were
    # made from the same sight of the node one is refused.
    sa.Column('version', sa.Integer, nullable=False),
    sa.Column('driver', sa.String(255), nullable=False),
    sa.Column('power_interface', sa.String(255)),
    sa.Column('boot_interface', sa.String(255)),
    sa.Column('management_interface', sa.String(255)),
    sa.Column('snapshot_interface', sa.String(255)),
    sa.Column('driver_info', sa.JSON, nullable=False),
    sa.Column('driver_internal_info', sa.JSON, nullable=False),
    sa.Column('properties', sa.JSON, nullable=False),
    sa.Column('instance_info', sa.JSON, nullable=False),
    sa.Column('extra', sa.JSON, nullable=False),
    sa.Column('instance_uuid', sa.String(36)),
    sa.Column('resource_class', sa.String(80)),
    sa.Column('owner', sa.String(255)),
    sa.Column('lessee', sa.String(255)),
    sa.Column('description', sa.Text),
    sa.Column('conductor_group', sa.String(255), nullable=False),
    sa.Column('boot_mode', sa.String(16)),
    sa.Column('power_state', sa.String(16)),
    sa.Column('target_power_state', sa.String(16)),
    sa.Column('provision_state', sa.String(32), nullable=False),
    sa.Column('target_provision_state', sa.String(32)),
    sa.Column('provision_updated_at', Time),
    sa.Column('last_error', sa.Text),
    sa.Column('maintenance', sa.Boolean(create_constraint=False),
              nullable=False),
    sa.Column('maintenance_reason', sa.Text),
    sa.Column('fault', sa.String(255)),
    # The conductor that works on it; nobody else may move it meanwhile.
    sa.Column('reservation', sa.String(255)),
    # The snapshot under way, else the last one.
    sa.Column('snapshot_id', sa.String(36)),
    # Of the ramdisk agent: where it listens, and a digest of its token.
    sa.Column('agent_url', sa.String(255)),
    sa.Column('agent_token_hash', sa.String(64)),
    sa.Column('agent_verify_ca', sa.Text),
    sa.Column('agent_version', sa.String(64)),
    sa.Column('agent_last_heartbeat', Time),
    sa.Column('created_at', Time, nullable=False),
    sa.Column('updated_at', Time),
    sa.UniqueConstraint('uuid'),
    sa.UniqueConstraint('name'),
    sa.UniqueConstraint('instance_uuid'),
    sa.Index(None, 'provision_state', 'id'),
    sa.Index(None, 'reservation'),
    sa.Index(None, 'owner', 'id'),
    sa.Index(None, 'lessee', 'id'),
    sa.Index(None, 'driver', 'id'),
    sa.Index(None, 'maintenance', 'id'),
    sa.Index(None, 'resource_class', 'id'),
    **MYSQL)

ports = sa.Table(
    'ports', metadata,
    sa.Column('id', BigId, primary_key=True),
    sa.Column('uuid', sa.String(36), nullable=False),
    sa.Column('node_uuid', sa.String(36),
              sa.ForeignKey('nodes.uuid', ondelete='CASCADE'),
              nullable=False),
    # Lower case, with colons.
    sa.Column('address', sa.String(18), nullable=False),
    sa.Column('extra', sa.JSON, nullable=False),
    sa.Column('pxe_enabled', sa.Boolean(create_constraint=False),
              nullable=False),
    sa.Column('local_link_connection', sa.JSON, nullable=False),
    sa.Column('created_at', Time, nullable=False),
    sa.Column('updated_at', Time),
    sa.UniqueConstraint('uuid'),
    sa.UniqueConstraint('address'),
    sa.Index(None, 'node_uuid', 'id'),
    **MYSQL)

# Snapshots of nodes: a row for each request, from its acceptance on. They
# are the node's history.
node_snapshots = sa.Table(
    'node_snapshots', metadata,
    sa.Column('id', BigId, primary_key=True),
    sa.Column('uuid', sa.String(36), nullable=False),
    sa.Column('node_uuid', sa.String(36),
              sa.ForeignKey('nodes.uuid', ondelete='CASCADE'),
              nullable=False),
    sa.Column('request_id', sa.String(64), nullable=False),
    sa.Column('user_id', sa.String(255)),
    sa.Column('project_id', sa.String(255)),
    sa.Column('image_ref', sa.Text, nullable=False),
    sa.Column('disk_format', sa.String(16), nullable=False),
    sa.Column('options', sa.JSON, nullable=False),
    # The host that has, or will have, the file.
    sa.Column('conductor', sa.String(255)),
    sa.Column('phase', sa.String(16), nullable=False),
    # What the node was like before: power state, boot device. NULL until
    # that was written down, before anything was touched.
    sa.Column('original', sa.JSON(none_as_null=True)),
    # How the guest was stopped: "clean" or "crash".
    sa.Column('consistency', sa.String(16)),
    sa.Column('command_id', sa.String(255)),
    sa.Column('disk', sa.JSON(none_as_null=True)),
    sa.Column('bytes_done', sa.BigInteger, nullable=False),
    sa.Column('bytes_total', sa.BigInteger),
    sa.Column('rate', sa.Float),
    sa.Column('size', sa.BigInteger),
    # The name of an algorithm and its digest, 135 characters with SHA-512.
    sa.Column('checksum', sa.String(255)),
    sa.Column('result', sa.JSON(none_as_null=True)),
    # Decided: NULL while it may still succeed.
    sa.Column('outcome', sa.String(16)),
    sa.Column('reason', sa.Text),
    sa.Column('created_at', Time, nullable=False),
    sa.Column('started_at', Time),
    sa.Column('phase_at', Time, nullable=False),
    sa.Column('heard_at', Time),
    # Over, with everything put back: NULL before.
    sa.Column('finished_at', Time),
    sa.UniqueConstraint('uuid'),
    sa.Index(None, 'node_uuid', 'id'),
    sa.Index(None, 'request_id'),
    sa.Index(None, 'finished_at'),
    sa.Index(None, 'conductor', 'finished_at'),
    **MYSQL)

# Names under which one snapshot's image may be received, once.
transfers = sa.Table(
    'transfers', metadata,
    sa.Column('id', BigId, primary_key=True),
    sa.Column('name', sa.String(64), nullable=False),
    sa.Column('snapshot_uuid', sa.String(36), nullable=False),
    sa.Column('conductor', sa.String(255), nullable=False),
    sa.Column('credential_hash', sa.String(64), nullable=False),
    # Nobody reads it. A conductor of the version before writes it still.
    sa.Column('announced_size', sa.BigInteger),
    sa.Column('received', sa.BigInteger, nullable=False),
    sa.Column('sha256', sa.String(64)),
    sa.Column('state', sa.String(16), nullable=False),
    sa.Column('created_at', Time, nullable=False),
    sa.Column('updated_at', Time),
    sa.UniqueConstraint('name'),
    sa.UniqueConstraint('snapshot_uuid'),
    sa.Index(None, 'conductor'),
    **MYSQL)
