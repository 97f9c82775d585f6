# SPDX-License-Identifier: Apache-2.0
"""Ports of nodes on the wire."""

from collections.abc import Iterable
from collections.abc import Mapping
from typing import Any

from stillframe.api.schemas.baremetal import ports as schema
from stillframe.api.views.baremetal.times import offset

_TIMES = frozenset(('created_at', 'updated_at'))


def port(row: Mapping[Any, Any], base: str,
         fields: Iterable[str]) -> dict[str, Any]:
    """Write a port.

    :param base: what links begin with.
    :param fields: those that are shown.
    """
    document = {}
    for name in fields:
        if name in schema.FIXED:
            document[name] = schema.FIXED[name][1]
        elif name in schema.LIVING:
            document[name] = (offset(row[name]) if name in _TIMES
                              else row[name])
    path = f'ports/{row["uuid"]}'
    document['links'] = [
        {'rel': 'self', 'href': f'{base}/v1/{path}'},
        {'rel': 'bookmark', 'href': f'{base}/{path}'}]
    return document


def all_fields(minor: int) -> list[str]:
    """Give the fields of a version."""
    return [name for name, since in schema.SINCE.items() if since <= minor]
