# SPDX-License-Identifier: Apache-2.0
"""The tables.

They are plain Core tables: lists of thousands of rows are read as mappings
without an object for each. Times are wall-clock UTC with microseconds.
"""

import sqlalchemy as sa

from stillframe.db import baremetal_models
from stillframe.db.columns import MYSQL as _MYSQL
from stillframe.db.columns import BigId
from stillframe.db.columns import Time
from stillframe.db.columns import metadata

nodes = baremetal_models.nodes
ports = baremetal_models.ports
node_snapshots = baremetal_models.node_snapshots
transfers = baremetal_models.transfers

services = sa.Table(
    'services', metadata,
    sa.Column('id', BigId, primary_key=True),
    sa.Column('uuid', sa.String(36), nullable=False),
    sa.Column('host', sa.String(255), nullable=False),
    sa.Column('binary', sa.String(64), nullable=False),
    # Which life of the process reports: with report_count it tells a new
    # start from a repeated message.
    sa.Column('started_at', sa.String(32), nullable=False),
    sa.Column('report_count', BigId, nullable=False),
    sa.Column('last_seen', Time, nullable=False),
    sa.Column('capabilities', sa.JSON, nullable=False),
    sa.Column('servers_digest', sa.String(64), nullable=False),
    # The host also has domains that count as another host's.
    sa.Column('contested', sa.Boolean(create_constraint=False),
              nullable=False),
    sa.Column('created_at', Time, nullable=False),
    sa.UniqueConstraint('host', 'binary'),
    sa.UniqueConstraint('uuid'),
    **_MYSQL)

servers = sa.Table(
    'servers', metadata,
    sa.Column('id', BigId, primary_key=True),
    sa.Column('uuid', sa.String(36), nullable=False),
    sa.Column('name', sa.String(255), nullable=False),
    sa.Column('domain_name', sa.String(255), nullable=False),
    sa.Column('project_id', sa.String(255), nullable=False),
    sa.Column('user_id', sa.String(255), nullable=False),
    sa.Column('host', sa.String(255), nullable=False),
    sa.Column('vm_state', sa.String(16), nullable=False),
    sa.Column('task_state', sa.String(32)),
    # Which request holds the transition, what it is and since when: an
    # outcome of any other request is stale.
    sa.Column('task_request_id', sa.String(64)),
    sa.Column('task_action', sa.String(32)),
    sa.Column('task_started_at', Time),
    sa.Column('power_state', sa.Integer, nullable=False),
    sa.Column('agent_state', sa.String(16), nullable=False),
    sa.Column('flavor', sa.JSON, nullable=False),
    sa.Column('image_id', sa.String(36)),
    # The freeze that stands, else the last one: says why there is nothing
    # to unquiesce.
    sa.Column('freeze_id', sa.String(64)),
    sa.Column('launched_at', Time),
    sa.Column('created_at', Time, nullable=False),
    sa.Column('updated_at', Time, nullable=False),
    sa.Column('deleted_at', Time),
    sa.Column('deleted', sa.Boolean(create_constraint=False),
              nullable=False),
    sa.UniqueConstraint('uuid'),
    sa.Index(None, 'project_id', 'deleted', 'created_at', 'id'),
    sa.Index(None, 'deleted', 'created_at', 'id'),
    sa.Index(None, 'host', 'deleted'),
    sa.Index(None, 'vm_state', 'deleted'),
    sa.Index(None, 'task_state'),
    sa.Index(None, 'updated_at'),
    **_MYSQL)

volumes = sa.Table(
    'volumes', metadata,
    sa.Column('id', BigId, primary_key=True),
    sa.Column('server_uuid', sa.String(36),
              sa.ForeignKey('servers.uuid', ondelete='CASCADE'),
              nullable=False),
    sa.Column('volume_id', sa.String(36), nullable=False),
    # Nova's bdm_uuid and Cinder's attachment id have no source here; this
    # one id is stable for the disk of a server and serves for both.
    sa.Column('attachment_id', sa.String(36), nullable=False),
    sa.Column('target', sa.String(32), nullable=False),
    sa.Column('device', sa.String(64), nullable=False),
    sa.Column('source', sa.Text),
    sa.Column('format', sa.String(32)),
    sa.Column('read_only', sa.Boolean(create_constraint=False),
              nullable=False),
    sa.UniqueConstraint('server_uuid', 'target'),
    sa.Index(None, 'volume_id'),
    **_MYSQL)

actions = sa.Table(
    'actions', metadata,
    sa.Column('id', BigId, primary_key=True),
    sa.Column('server_uuid', sa.String(36),
              sa.ForeignKey('servers.uuid', ondelete='CASCADE'),
              nullable=False),
    sa.Column('action', sa.String(64), nullable=False),
    sa.Column('request_id', sa.String(64), nullable=False),
    sa.Column('user_id', sa.String(255)),
    sa.Column('project_id', sa.String(255)),
    sa.Column('start_time', Time, nullable=False),
    sa.Column('finish_time', Time),
    sa.Column('updated_at', Time, nullable=False),
    sa.Column('message', sa.Text),
    sa.UniqueConstraint('server_uuid', 'request_id'),
    sa.Index(None, 'server_uuid', 'start_time', 'id'),
    **_MYSQL)

action_events = sa.Table(
    'action_events', metadata,
    sa.Column('id', BigId, primary_key=True),
    sa.Column('action_id', BigId,
              sa.ForeignKey('actions.id', ondelete='CASCADE'),
              nullable=False),
    sa.Column('event', sa.String(64), nullable=False),
    sa.Column('start_time', Time, nullable=False),
    sa.Column('finish_time', Time),
    sa.Column('result', sa.String(16)),
    sa.Column('host', sa.String(255)),
    sa.Column('details', sa.Text),
    sa.Column('traceback', sa.Text),
    sa.UniqueConstraint('action_id', 'event'),
    **_MYSQL)

faults = sa.Table(
    'faults', metadata,
    sa.Column('id', BigId, primary_key=True),
    sa.Column('server_uuid', sa.String(36),
              sa.ForeignKey('servers.uuid', ondelete='CASCADE'),
              nullable=False),
    # One fault a request: a report that comes twice makes no second one.
    sa.Column('request_id', sa.String(64), nullable=False),
    sa.Column('code', sa.Integer, nullable=False),
    sa.Column('message', sa.String(255), nullable=False),
    sa.Column('details', sa.Text),
    sa.Column('host', sa.String(255)),
    sa.Column('created_at', Time, nullable=False),
    sa.UniqueConstraint('server_uuid', 'request_id'),
    sa.Index(None, 'server_uuid', 'id'),
    **_MYSQL)

freezes = sa.Table(
    'freezes', metadata,
    sa.Column('id', BigId, primary_key=True),
    sa.Column('server_uuid', sa.String(36),
              sa.ForeignKey('servers.uuid', ondelete='CASCADE'),
              nullable=False),
    # The request id of the quiesce that made it.
    sa.Column('freeze_id', sa.String(64), nullable=False),
    sa.Column('host', sa.String(255), nullable=False),
    sa.Column('timeout', sa.Float, nullable=False),
    sa.Column('filesystems', sa.Integer),
    sa.Column('frozen_at', Time),
    sa.Column('ended_at', Time),
    sa.Column('end_reason', sa.String(64)),
    sa.Column('created_at', Time, nullable=False),
    sa.UniqueConstraint('server_uuid', 'freeze_id'),
    **_MYSQL)

# Snapshots of volumes, made and merged on behalf of Cinder: a row for each
# request, from its acceptance until Cinder took the outcome.
volume_snapshots = sa.Table(
    'volume_snapshots', metadata,
    sa.Column('id', BigId, primary_key=True),
    sa.Column('uuid', sa.String(36), nullable=False),
    sa.Column('request_id', sa.String(64), nullable=False),
    sa.Column('snapshot_id', sa.String(255), nullable=False),
    sa.Column('volume_id', sa.String(36), nullable=False),
    # The volume, as long as no other request for it may begin; else NULL.
    sa.Column('active_volume', sa.String(36)),
    sa.Column('server_uuid', sa.String(36),
              sa.ForeignKey('servers.uuid', ondelete='CASCADE'),
              nullable=False),
    sa.Column('host', sa.String(255), nullable=False),
    sa.Column('operation', sa.String(16), nullable=False),
    sa.Column('state', sa.String(16), nullable=False),
    sa.Column('request', sa.JSON, nullable=False),
    sa.Column('progress', sa.Integer, nullable=False),
    sa.Column('message', sa.Text),
    sa.Column('detail', sa.Text),
    sa.Column('consistency', sa.String(16)),
    sa.Column('freeze', sa.JSON),
    sa.Column('chain_before', sa.JSON),
    sa.Column('chain_after', sa.JSON),
    sa.Column('formats', sa.JSON),
    # How far telling Cinder is.
    sa.Column('delivery', sa.String(16), nullable=False),
    sa.Column('delivery_form', sa.String(8)),
    sa.Column('delivery_attempts', sa.Integer, nullable=False),
    sa.Column('delivery_refusals', sa.Integer, nullable=False),
    sa.Column('delivery_error', sa.Text),
    sa.Column('delivery_due', Time),
    # While somebody is telling Cinder: until when that must be over.
    sa.Column('delivering_until', Time),
    sa.Column('created_at', Time, nullable=False),
    sa.Column('started_at', Time),
    sa.Column('finished_at', Time),
    sa.Column('delivered_at', Time),
    sa.UniqueConstraint('uuid'),
    sa.UniqueConstraint('active_volume'),
    sa.Index(None, 'snapshot_id', 'id'),
    sa.Index(None, 'volume_id', 'id'),
    sa.Index(None, 'state'),
    sa.Index(None, 'delivery', 'delivery_due'),
    **_MYSQL)

# What was learned of the files of a volume; never from their bytes.
volume_formats = sa.Table(
    'volume_formats', metadata,
    sa.Column('id', BigId, primary_key=True),
    sa.Column('volume_id', sa.String(36), nullable=False),
    sa.Column('file', sa.String(255), nullable=False),
    sa.Column('format', sa.String(32), nullable=False),
    sa.Column('learned_at', Time, nullable=False),
    sa.UniqueConstraint('volume_id', 'file'),
    **_MYSQL)

# Which form of a status update an endpoint of Cinder takes.
cinder_endpoints = sa.Table(
    'cinder_endpoints', metadata,
    sa.Column('id', BigId, primary_key=True),
    sa.Column('url', sa.String(255), nullable=False),
    sa.Column('form', sa.String(8), nullable=False),
    sa.Column('learned_at', Time, nullable=False),
    sa.UniqueConstraint('url'),
    **_MYSQL)

# Images of servers: a row for each request, from its acceptance until the
# image is complete or nothing of it is left in the store.
server_images = sa.Table(
    'server_images', metadata,
    sa.Column('id', BigId, primary_key=True),
    sa.Column('request_id', sa.String(64), nullable=False),
    sa.Column('server_uuid', sa.String(36),
              sa.ForeignKey('servers.uuid', ondelete='CASCADE'),
              nullable=False),
    # The server, while no other image of it may begin; else NULL.
    sa.Column('active_server', sa.String(36)),
    sa.Column('host', sa.String(255), nullable=False),
    sa.Column('image_id', sa.String(36), nullable=False),
    # Ids of all images that may have to be removed.
    sa.Column('image_ids', sa.JSON, nullable=False),
    sa.Column('stage', sa.String(32), nullable=False),
    sa.Column('percent', sa.Integer, nullable=False),
    # Grows with each sign of life, to tell work from standstill.
    sa.Column('reports', sa.Integer, nullable=False),
    sa.Column('result', sa.String(16)),
    sa.Column('figures', sa.JSON),
    # When to try (again) to remove what is in the store; NULL: nothing is.
    sa.Column('removal_due', Time),
    sa.Column('removal_attempts', sa.Integer, nullable=False),
    sa.Column('removal_error', sa.Text),
    sa.Column('created_at', Time, nullable=False),
    sa.Column('finished_at', Time),
    sa.UniqueConstraint('request_id'),
    sa.UniqueConstraint('active_server'),
    sa.UniqueConstraint('image_id'),
    sa.Index(None, 'server_uuid', 'id'),
    sa.Index(None, 'removal_due'),
    **_MYSQL)
