# SPDX-License-Identifier: Apache-2.0
"""What all tables have in common."""

from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import mysql

metadata = sa.MetaData(naming_convention={
    'ix': 'ix_%(table_name)s_%(column_0_N_name)s',
    'uq': 'uq_%(table_name)s_%(column_0_N_name)s',
    'fk': 'fk_%(table_name)s_%(column_0_N_name)s',
    'pk': 'pk_%(table_name)s',
})

# Compared byte by byte, as the other databases do: two ids that differ in
# the case of letters alone are two ids.
MYSQL: dict[str, Any] = {
    f'{dialect}_{option}': value
    for dialect in ('mysql', 'mariadb')
    for option, value in (('engine', 'InnoDB'), ('charset', 'utf8mb4'),
                          ('collate', 'utf8mb4_bin'))}

# MySQL's DATETIME drops fractions of a second unless told otherwise.
Time = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), 'mysql', 'mariadb')
# SQLite makes row ids of INTEGER PRIMARY KEY alone.
BigId = sa.BigInteger().with_variant(sa.Integer(), 'sqlite')
