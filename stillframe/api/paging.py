# SPDX-License-Identifier: Apache-2.0
"""Pages of lists."""

from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from stillframe import exceptions
from stillframe.api.schemas import query as schema
from stillframe.api.schemas import servers as servers_schema
from stillframe.db import servers as db

_EMPTY = db.Page((), {}, {})


def limit(query: Mapping[str, list[Any]], max_limit: int) -> int:
    """Give how many entries a page may have."""
    return min(schema.last(query, 'limit', max_limit), max_limit)


def order(query: Mapping[str, list[Any]]) -> list[tuple[str, str]]:
    """Give the order of a list of servers: columns and directions.

    As in Nova: without keys the newest is first; a key without a direction
    goes the way of the first direction, which is ``desc`` by default.
    """
    keys = query.get('sort_key') or ['created_at']
    ways = query.get('sort_dir') or ['desc']
    pairs: list[tuple[str, str]] = []
    for place, key in enumerate(keys):
        column = servers_schema.SORT_KEYS[key]
        way = ways[place] if place < len(ways) else ways[0]
        if column is not None and column not in (
                known for known, _ in pairs):
            pairs.append((column, way))
    return pairs or [('created_at', ways[0])]


def servers(query: Mapping[str, list[Any]], filters: db.Filters | None,
            size: int, detail: bool) -> db.Page:
    """Read a page of servers.

    :param filters: None: none can match.
    :raises BadRequest: the marker is unknown.
    """
    marker = schema.last(query, 'marker')
    if filters is None or size == 0:
        return _EMPTY
    try:
        return db.list_page(filters, size, marker or None, order(query),
                            detail)
    except exceptions.ServerNotFound:
        raise exceptions.BadRequest(
            f'marker [{marker}] not found') from None


def by_offset(rows: Sequence[Any], query: Mapping[str, list[Any]],
              max_limit: int) -> Sequence[Any]:
    """Cut a page out of a short list; a limit of 0 is the largest one."""
    start = schema.last(query, 'offset', 0)
    size = min(schema.last(query, 'limit', 0) or max_limit, max_limit)
    return rows[start:start + size]
