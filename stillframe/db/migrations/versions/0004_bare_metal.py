# SPDX-License-Identifier: Apache-2.0
"""Bare metal: nodes, their ports, their snapshots, transfers of images."""

from typing import Any

from alembic import op
import sqlalchemy as sa
from sqlalchemy.dialects import mysql

revision = '0004'
down_revision = '0003'
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


def _make(table: str, unique: tuple[str, ...],
          indexes: tuple[tuple[str, ...], ...], *parts: Any) -> None:
    op.create_table(
        table, _id(), *parts,
        sa.PrimaryKeyConstraint('id', name=f'pk_{table}'),
        *(sa.UniqueConstraint(column, name=f'uq_{table}_{column}')
          for column in unique),
        **_TABLE)
    for columns in indexes:
        op.create_index(f'ix_{table}_' + '_'.join(columns), table,
                        list(columns))


def upgrade() -> None:
    """Make the tables."""
    _nodes()
    _ports()
    _node_snapshots()
    _transfers()


def _nodes() -> None:
    _make(
        'nodes', ('uuid', 'name', 'instance_uuid'),
        (('driver', 'id'),
         ('lessee', 'id'),
         ('maintenance', 'id'),
         ('owner', 'id'),
         ('provision_state', 'id'),
         ('reservation',),
         ('resource_class', 'id')),
        sa.Column('uuid', sa.String(36), nullable=False),
        sa.Column('name', sa.String(255), nullable=True),
        sa.Column('version', sa.Integer(), nullable=False),
        sa.Column('driver', sa.String(255), nullable=False),
        sa.Column('power_interface', sa.String(255), nullable=True),
        sa.Column('boot_interface', sa.String(255), nullable=True),
        sa.Column('management_interface', sa.String(255), nullable=True),
        sa.Column('snapshot_interface', sa.String(255), nullable=True),
        sa.Column('driver_info', sa.JSON(), nullable=False),
        sa.Column('driver_internal_info', sa.JSON(), nullable=False),
        sa.Column('properties', sa.JSON(), nullable=False),
        sa.Column('instance_info', sa.JSON(), nullable=False),
        sa.Column('extra', sa.JSON(), nullable=False),
        sa.Column('instance_uuid', sa.String(36), nullable=True),
        sa.Column('resource_class', sa.String(80), nullable=True),
        sa.Column('owner', sa.String(255), nullable=True),
        sa.Column('lessee', sa.String(255), nullable=True),
        sa.Column('description', sa.Text(), nullable=True),
        sa.Column('conductor_group', sa.String(255), nullable=False),
        sa.Column('boot_mode', sa.String(16), nullable=True),
        sa.Column('power_state', sa.String(16), nullable=True),
        sa.Column('target_power_state', sa.String(16), nullable=True),
        sa.Column('provision_state', sa.String(32), nullable=False),
        sa.Column('target_provision_state', sa.String(32), nullable=True),
        _time('provision_updated_at'),
        sa.Column('last_error', sa.Text(), nullable=True),
        sa.Column('maintenance', sa.Boolean(create_constraint=False),
                  nullable=False),
        sa.Column('maintenance_reason', sa.Text(), nullable=True),
        sa.Column('fault', sa.String(255), nullable=True),
        sa.Column('reservation', sa.String(255), nullable=True),
        sa.Column('snapshot_id', sa.String(36), nullable=True),
        sa.Column('agent_url', sa.String(255), nullable=True),
        sa.Column('agent_token_hash', sa.String(64), nullable=True),
        sa.Column('agent_verify_ca', sa.Text(), nullable=True),
        sa.Column('agent_version', sa.String(64), nullable=True),
        _time('agent_last_heartbeat'),
        _time('created_at', nullable=False),
        _time('updated_at'))


def _ports() -> None:
    _make(
        'ports', ('uuid', 'address'),
        (('node_uuid', 'id'),),
        sa.Column('uuid', sa.String(36), nullable=False),
        sa.Column('node_uuid', sa.String(36), nullable=False),
        sa.Column('address', sa.String(18), nullable=False),
        sa.Column('extra', sa.JSON(), nullable=False),
        sa.Column('pxe_enabled', sa.Boolean(create_constraint=False),
                  nullable=False),
        sa.Column('local_link_connection', sa.JSON(), nullable=False),
        _time('created_at', nullable=False),
        _time('updated_at'),
        sa.ForeignKeyConstraint(
            ['node_uuid'], ['nodes.uuid'], ondelete='CASCADE',
            name='fk_ports_node_uuid'))


def _node_snapshots() -> None:
    _make(
        'node_snapshots', ('uuid',),
        (('conductor', 'finished_at'),
         ('finished_at',),
         ('node_uuid', 'id'),
         ('request_id',)),
        sa.Column('uuid', sa.String(36), nullable=False),
        sa.Column('node_uuid', sa.String(36), nullable=False),
        sa.Column('request_id', sa.String(64), nullable=False),
        sa.Column('user_id', sa.String(255), nullable=True),
        sa.Column('project_id', sa.String(255), nullable=True),
        sa.Column('image_ref', sa.Text(), nullable=False),
        sa.Column('disk_format', sa.String(16), nullable=False),
        sa.Column('options', sa.JSON(), nullable=False),
        sa.Column('conductor', sa.String(255), nullable=True),
        sa.Column('phase', sa.String(16), nullable=False),
        sa.Column('original', sa.JSON(), nullable=True),
        sa.Column('consistency', sa.String(16), nullable=True),
        sa.Column('command_id', sa.String(255), nullable=True),
        sa.Column('disk', sa.JSON(), nullable=True),
        sa.Column('bytes_done', sa.BigInteger(), nullable=False),
        sa.Column('bytes_total', sa.BigInteger(), nullable=True),
        sa.Column('rate', sa.Float(), nullable=True),
        sa.Column('size', sa.BigInteger(), nullable=True),
        sa.Column('checksum', sa.String(255), nullable=True),
        sa.Column('result', sa.JSON(), nullable=True),
        sa.Column('outcome', sa.String(16), nullable=True),
        sa.Column('reason', sa.Text(), nullable=True),
        _time('created_at', nullable=False),
        _time('started_at'),
        _time('phase_at', nullable=False),
        _time('heard_at'),
        _time('finished_at'),
        sa.ForeignKeyConstraint(
            ['node_uuid'], ['nodes.uuid'], ondelete='CASCADE',
            name='fk_node_snapshots_node_uuid'))


def _transfers() -> None:
    _make(
        'transfers', ('name', 'snapshot_uuid'),
        (('conductor',),),
        sa.Column('name', sa.String(64), nullable=False),
        sa.Column('snapshot_uuid', sa.String(36), nullable=False),
        sa.Column('conductor', sa.String(255), nullable=False),
        sa.Column('credential_hash', sa.String(64), nullable=False),
        sa.Column('announced_size', sa.BigInteger(), nullable=True),
        sa.Column('received', sa.BigInteger(), nullable=False),
        sa.Column('sha256', sa.String(64), nullable=True),
        sa.Column('state', sa.String(16), nullable=False),
        _time('created_at', nullable=False),
        _time('updated_at'))
