# SPDX-License-Identifier: Apache-2.0
"""Snapshots of volumes on behalf of Cinder, and what is known for them."""

from typing import Any

from alembic import op
import sqlalchemy as sa
from sqlalchemy.dialects import mysql

revision = '0002'
down_revision = '0001'
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


def upgrade() -> None:
    """Make the tables."""
    _volume_snapshots()
    op.create_table(
        'volume_formats',
        _id(),
        sa.Column('volume_id', sa.String(36), nullable=False),
        sa.Column('file', sa.String(255), nullable=False),
        sa.Column('format', sa.String(32), nullable=False),
        _time('learned_at', nullable=False),
        sa.PrimaryKeyConstraint('id', name='pk_volume_formats'),
        sa.UniqueConstraint('volume_id', 'file',
                            name='uq_volume_formats_volume_id_file'),
        **_TABLE)
    op.create_table(
        'cinder_endpoints',
        _id(),
        sa.Column('url', sa.String(255), nullable=False),
        sa.Column('form', sa.String(8), nullable=False),
        _time('learned_at', nullable=False),
        sa.PrimaryKeyConstraint('id', name='pk_cinder_endpoints'),
        sa.UniqueConstraint('url', name='uq_cinder_endpoints_url'),
        **_TABLE)


def _volume_snapshots() -> None:
    table = 'volume_snapshots'
    op.create_table(
        table,
        _id(),
        sa.Column('uuid', sa.String(36), nullable=False),
        sa.Column('request_id', sa.String(64), nullable=False),
        sa.Column('snapshot_id', sa.String(255), nullable=False),
        sa.Column('volume_id', sa.String(36), nullable=False),
        sa.Column('active_volume', sa.String(36), nullable=True),
        sa.Column('server_uuid', sa.String(36), nullable=False),
        sa.Column('host', sa.String(255), nullable=False),
        sa.Column('operation', sa.String(16), nullable=False),
        sa.Column('state', sa.String(16), nullable=False),
        sa.Column('request', sa.JSON(), nullable=False),
        sa.Column('progress', sa.Integer(), nullable=False),
        sa.Column('message', sa.Text(), nullable=True),
        sa.Column('detail', sa.Text(), nullable=True),
        sa.Column('consistency', sa.String(16), nullable=True),
        sa.Column('freeze', sa.JSON(), nullable=True),
        sa.Column('chain_before', sa.JSON(), nullable=True),
        sa.Column('chain_after', sa.JSON(), nullable=True),
        sa.Column('formats', sa.JSON(), nullable=True),
        sa.Column('delivery', sa.String(16), nullable=False),
        sa.Column('delivery_form', sa.String(8), nullable=True),
        sa.Column('delivery_attempts', sa.Integer(), nullable=False),
        sa.Column('delivery_refusals', sa.Integer(), nullable=False),
        sa.Column('delivery_error', sa.Text(), nullable=True),
        _time('delivery_due'),
        _time('delivering_until'),
        _time('created_at', nullable=False),
        _time('started_at'),
        _time('finished_at'),
        _time('delivered_at'),
        sa.PrimaryKeyConstraint('id', name=f'pk_{table}'),
        sa.UniqueConstraint('uuid', name=f'uq_{table}_uuid'),
        sa.UniqueConstraint('active_volume',
                            name=f'uq_{table}_active_volume'),
        sa.ForeignKeyConstraint(
            ['server_uuid'], ['servers.uuid'], ondelete='CASCADE',
            name=f'fk_{table}_server_uuid'),
        **_TABLE)
    for columns in (('snapshot_id', 'id'), ('volume_id', 'id'), ('state',),
                    ('delivery', 'delivery_due')):
        op.create_index(f'ix_{table}_' + '_'.join(columns), table,
                        list(columns))
