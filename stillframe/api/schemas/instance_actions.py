# SPDX-License-Identifier: Apache-2.0
"""Queries of GET /servers/{id}/os-instance-actions."""

from typing import Any

from stillframe.api import microversions as mv
from stillframe.api import request
from stillframe.api.schemas import query

LIST: query.Schema = {
    'limit': query.count,
    'marker': query.text,
    'changes-since': query.time,
    'changes-before': query.time,
}


def parse(req: request.Request) -> dict[str, list[Any]]:
    """Read the query of a list; before 2.58 there is none.

    :raises BadRequest: a parameter is malformed or unknown.
    """
    if req.minor < mv.ACTIONS_PAGED:
        return {}
    schema = LIST
    if req.minor < mv.CHANGES_BEFORE:
        schema = {key: kind for key, kind in LIST.items()
                  if key != 'changes-before'}
    found = query.parse(req, schema, mv.ACTIONS_PAGED)
    query.check_changes(found)
    return found
