# SPDX-License-Identifier: Apache-2.0
"""Images of servers under way, and what is to be removed of them."""

from typing import Any

from alembic import op
import sqlalchemy as sa
from sqlalchemy.dialects import mysql

revision = '0003'
down_revision = '0002'
branch_labels = None
depends_on = None

_TABLE: dict[str, Any] = {
    'mysql_engine': 'InnoDB', 'mysql_charset': 'utf8mb4',
    'mysql_collate': 'utf8mb4_bin', 'mariadb_engine': 'InnoDB',
    'mariadb_charset': 'utf8mb4', 'mariadb_collate': 'utf8mb4_bin'}


def _time(name: str, nullable: bool = True) -> sa.Column:
    return sa.Column(
        name, sa.DateTime().with_variant(
            mysql.DATETIME(fsp=6), 'mysql', 'mariadb'),
        nullable=nullable)


def upgrade() -> None:
    """Make the table."""
    table = 'server_images'
    op.create_table(
        table,
        sa.Column(
            'id', sa.BigInteger().with_variant(sa.Integer(), 'sqlite'),
            nullable=False),
        sa.Column('request_id', sa.String(64), nullable=False),
        sa.Column('server_uuid', sa.String(36), nullable=False),
        sa.Column('active_server', sa.String(36), nullable=True),
        sa.Column('host', sa.String(255), nullable=False),
        sa.Column('image_id', sa.String(36), nullable=False),
        sa.Column('image_ids', sa.JSON(), nullable=False),
        sa.Column('stage', sa.String(32), nullable=False),
        sa.Column('percent', sa.Integer(), nullable=False),
        sa.Column('reports', sa.Integer(), nullable=False),
        sa.Column('result', sa.String(16), nullable=True),
        sa.Column('figures', sa.JSON(), nullable=True),
        _time('removal_due'),
        sa.Column('removal_attempts', sa.Integer(), nullable=False),
        sa.Column('removal_error', sa.Text(), nullable=True),
        _time('created_at', nullable=False),
        _time('finished_at'),
        sa.PrimaryKeyConstraint('id', name=f'pk_{table}'),
        sa.ForeignKeyConstraint(
            ['server_uuid'], ['servers.uuid'], ondelete='CASCADE',
            name=f'fk_{table}_server_uuid'),
        *(sa.UniqueConstraint(column, name=f'uq_{table}_{column}')
          for column in ('request_id', 'active_server', 'image_id')),
        **_TABLE)
    for columns in (('server_uuid', 'id'), ('removal_due',)):
        op.create_index(f'ix_{table}_' + '_'.join(columns), table,
                        list(columns))
