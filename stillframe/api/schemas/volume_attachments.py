# SPDX-License-Identifier: Apache-2.0
"""Queries of GET /servers/{id}/os-volume_attachments."""

from typing import Any

from stillframe.api import microversions as mv
from stillframe.api import request
from stillframe.api.schemas import query

LIST: query.Schema = {'limit': query.count, 'offset': query.count}


def parse(req: request.Request) -> dict[str, list[Any]]:
    """Read the query of a list.

    :raises BadRequest: a parameter is malformed or unknown.
    """
    return query.parse(req, LIST, mv.STRICT_QUERIES)
