# SPDX-License-Identifier: Apache-2.0
"""Pages of a list: an order by several columns, and a place in it.

NULL sorts before everything. SQLite and MySQL have it so by themselves,
PostgreSQL has it last; so the order says it as a column of its own.
"""

from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

#: Columns of an order, each with whether it is descending.
Keys = Sequence[tuple[Any, bool]]


def keys_of(table: sa.Table, sort_key: str, sort_dir: str) -> Keys:
    """Give an order by one column, in which no two rows are equal.

    :param sort_dir: asc or desc.
    """
    descending = sort_dir == 'desc'
    names = [sort_key] if sort_key == 'id' else [sort_key, 'id']
    return [(table.c[name], descending) for name in names]


def ordered(query: Any, keys: Keys) -> Any:
    """Put the rows of a query in order."""
    for column, descending in keys:
        if column.nullable:
            null = sa.case((column.is_(None), 0), else_=1)
            query = query.order_by(null.desc() if descending else null)
        query = query.order_by(column.desc() if descending else column)
    return query


def after(marker: Mapping[Any, Any], keys: Keys) -> Any:
    """Build the condition "behind the marker" for a composite order."""
    either = []
    same: list[Any] = []
    for column, descending in keys:
        value = marker[column.name]
        null_value = value is None
        if descending:
            beyond = (sa.false() if null_value else
                      sa.or_(column < value, column.is_(None))
                      if column.nullable else column < value)
        else:
            beyond = (column.is_not(None) if null_value
                      else column > value)
        either.append(sa.and_(*same, beyond))
        same.append(column.is_(None) if null_value else column == value)
    return sa.or_(*either)
