# SPDX-License-Identifier: Apache-2.0
"""The first tables: services, servers, their volumes and their history.

Written out rather than made from the models: those move on, a revision
that has been run somewhere does not.
"""

from typing import Any

from alembic import op
import sqlalchemy as sa
from sqlalchemy.dialects import mysql

revision = '0001'
down_revision = None
branch_labels = None
depends_on = None

_TABLE: dict[str, Any] = {
    'mysql_engine': 'InnoDB', 'mysql_charset': 'utf8mb4',
    'mysql_collate': 'utf8mb4_bin', 'mariadb_engine': 'InnoDB',
    'mariadb_charset': 'utf8mb4', 'mariadb_collate': 'utf8mb4_bin'}


def _id() -> sa.Column:
    return sa.Column(
        'id', sa.BigInteger().with_variant(sa.Integer(), 'sqlite'),
        nullable=False)


def _time(name: str, nullable: bool = True) -> sa.Column:
    return sa.Column(
        name, sa.DateTime().with_variant(
            mysql.DATETIME(fsp=6), 'mysql', 'mariadb'),
        nullable=nullable)


def _flag(name: str) -> sa.Column:
    return sa.Column(name, sa.Boolean(create_constraint=False),
                     nullable=False)


def _server_uuid() -> sa.Column:
    return sa.Column('server_uuid', sa.String(36), nullable=False)


def _of_server(table: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(
        ['server_uuid'], ['servers.uuid'], ondelete='CASCADE',
        name=f'fk_{table}_server_uuid')


def upgrade() -> None:
    """Make the tables."""
    _services()
    _servers()
    _volumes()
    _actions()
    _faults()
    _freezes()


def _services() -> None:
    op.create_table(
        'services',
        _id(),
        sa.Column('uuid', sa.String(36), nullable=False),
        sa.Column('host', sa.String(255), nullable=False),
        sa.Column('binary', sa.String(64), nullable=False),
        sa.Column('started_at', sa.String(32), nullable=False),
        sa.Column('report_count', sa.BigInteger().with_variant(
            sa.Integer(), 'sqlite'), nullable=False),
        _time('last_seen', nullable=False),
        sa.Column('capabilities', sa.JSON(), nullable=False),
        sa.Column('servers_digest', sa.String(64), nullable=False),
        _flag('contested'),
        _time('created_at', nullable=False),
        sa.PrimaryKeyConstraint('id', name='pk_services'),
        sa.UniqueConstraint('host', 'binary',
                            name='uq_services_host_binary'),
        sa.UniqueConstraint('uuid', name='uq_services_uuid'),
        **_TABLE)


def _servers() -> None:
    op.create_table(
        'servers',
        _id(),
        sa.Column('uuid', sa.String(36), nullable=False),
        sa.Column('name', sa.String(255), nullable=False),
        sa.Column('domain_name', sa.String(255), nullable=False),
        sa.Column('project_id', sa.String(255), nullable=False),
        sa.Column('user_id', sa.String(255), nullable=False),
        sa.Column('host', sa.String(255), nullable=False),
        sa.Column('vm_state', sa.String(16), nullable=False),
        sa.Column('task_state', sa.String(32), nullable=True),
        sa.Column('task_request_id', sa.String(64), nullable=True),
        sa.Column('task_action', sa.String(32), nullable=True),
        _time('task_started_at'),
        sa.Column('power_state', sa.Integer(), nullable=False),
        sa.Column('agent_state', sa.String(16), nullable=False),
        sa.Column('flavor', sa.JSON(), nullable=False),
        sa.Column('image_id', sa.String(36), nullable=True),
        sa.Column('freeze_id', sa.String(64), nullable=True),
        _time('launched_at'),
        _time('created_at', nullable=False),
        _time('updated_at', nullable=False),
        _time('deleted_at'),
        _flag('deleted'),
        sa.PrimaryKeyConstraint('id', name='pk_servers'),
        sa.UniqueConstraint('uuid', name='uq_servers_uuid'),
        **_TABLE)
    for columns in (('project_id', 'deleted', 'created_at', 'id'),
                    ('deleted', 'created_at', 'id'),
                    ('host', 'deleted'),
                    ('vm_state', 'deleted'),
                    ('task_state',),
                    ('updated_at',)):
        op.create_index('ix_servers_' + '_'.join(columns), 'servers',
                        list(columns))


def _volumes() -> None:
    op.create_table(
        'volumes',
        _id(),
        _server_uuid(),
        sa.Column('volume_id', sa.String(36), nullable=False),
        sa.Column('attachment_id', sa.String(36), nullable=False),
        sa.Column('target', sa.String(32), nullable=False),
        sa.Column('device', sa.String(64), nullable=False),
        sa.Column('source', sa.Text(), nullable=True),
        sa.Column('format', sa.String(32), nullable=True),
        _flag('read_only'),
        _of_server('volumes'),
        sa.PrimaryKeyConstraint('id', name='pk_volumes'),
        sa.UniqueConstraint('server_uuid', 'target',
                            name='uq_volumes_server_uuid_target'),
        **_TABLE)
    op.create_index('ix_volumes_volume_id', 'volumes', ['volume_id'])


def _actions() -> None:
    op.create_table(
        'actions',
        _id(),
        _server_uuid(),
        sa.Column('action', sa.String(64), nullable=False),
        sa.Column('request_id', sa.String(64), nullable=False),
        sa.Column('user_id', sa.String(255), nullable=True),
        sa.Column('project_id', sa.String(255), nullable=True),
        _time('start_time', nullable=False),
        _time('finish_time'),
        _time('updated_at', nullable=False),
        sa.Column('message', sa.Text(), nullable=True),
        _of_server('actions'),
        sa.PrimaryKeyConstraint('id', name='pk_actions'),
        sa.UniqueConstraint('server_uuid', 'request_id',
                            name='uq_actions_server_uuid_request_id'),
        **_TABLE)
    op.create_index('ix_actions_server_uuid_start_time_id', 'actions',
                    ['server_uuid', 'start_time', 'id'])
    op.create_table(
        'action_events',
        _id(),
        sa.Column('action_id', sa.BigInteger().with_variant(
            sa.Integer(), 'sqlite'), nullable=False),
        sa.Column('event', sa.String(64), nullable=False),
        _time('start_time', nullable=False),
        _time('finish_time'),
        sa.Column('result', sa.String(16), nullable=True),
        sa.Column('host', sa.String(255), nullable=True),
        sa.Column('details', sa.Text(), nullable=True),
        sa.Column('traceback', sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ['action_id'], ['actions.id'], ondelete='CASCADE',
            name='fk_action_events_action_id'),
        sa.PrimaryKeyConstraint('id', name='pk_action_events'),
        sa.UniqueConstraint('action_id', 'event',
                            name='uq_action_events_action_id_event'),
        **_TABLE)


def _faults() -> None:
    op.create_table(
        'faults',
        _id(),
        _server_uuid(),
        sa.Column('request_id', sa.String(64), nullable=False),
        sa.Column('code', sa.Integer(), nullable=False),
        sa.Column('message', sa.String(255), nullable=False),
        sa.Column('details', sa.Text(), nullable=True),
        sa.Column('host', sa.String(255), nullable=True),
        _time('created_at', nullable=False),
        _of_server('faults'),
        sa.PrimaryKeyConstraint('id', name='pk_faults'),
        sa.UniqueConstraint('server_uuid', 'request_id',
                            name='uq_faults_server_uuid_request_id'),
        **_TABLE)
    op.create_index('ix_faults_server_uuid_id', 'faults',
                    ['server_uuid', 'id'])


def _freezes() -> None:
    op.create_table(
        'freezes',
        _id(),
        _server_uuid(),
        sa.Column('freeze_id', sa.String(64), nullable=False),
        sa.Column('host', sa.String(255), nullable=False),
        sa.Column('timeout', sa.Float(), nullable=False),
        sa.Column('filesystems', sa.Integer(), nullable=True),
        _time('frozen_at'),
        _time('ended_at'),
        sa.Column('end_reason', sa.String(64), nullable=True),
        _time('created_at', nullable=False),
        _of_server('freezes'),
        sa.PrimaryKeyConstraint('id', name='pk_freezes'),
        sa.UniqueConstraint('server_uuid', 'freeze_id',
                            name='uq_freezes_server_uuid_freeze_id'),
        **_TABLE)
