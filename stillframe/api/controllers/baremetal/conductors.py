# SPDX-License-Identifier: Apache-2.0
"""/v1/conductors."""

from collections.abc import Mapping
import functools
from typing import Any

import sqlalchemy as sa

from stillframe import exceptions
from stillframe.api import baremetal_versions as versions
from stillframe.api import request
from stillframe.api.controllers import base
from stillframe.api.controllers.baremetal import common
from stillframe.api.schemas import query as query_schema
from stillframe.api.schemas.baremetal import queries
from stillframe.api.views.baremetal import conductors as views
from stillframe.api.views.baremetal import links
from stillframe.db import services as db
from stillframe.policies import conductors as policies


class ConductorsController:
    """Reads conductors."""

    def __init__(self, services: base.Services):
        self._services = services

    @base.expose
    def index(self, req: request.Request, resp: Any) -> dict[str, Any]:
        """List conductors, dead ones too."""
        versions.require(req.minor, versions.CONDUCTORS, 'The conductors')
        query = query_schema.parse(req, queries.PAGE, versions.MIN)
        fields = self._fields(query, req.minor)
        key = queries.sort_key(query, ('id', *views.SORT_KEYS))
        self._services.policy.check(req.ctxt, policies.GET)
        found = self._services.workers.services(None, db.CONDUCTOR)
        found = sorted(
            found, key=functools.partial(_sorted_by, key),
            reverse=query_schema.last(query, 'sort_dir') == 'desc')
        limit = queries.limit(query, self._services.conf.api.max_limit)
        page = _behind(found, query_schema.last(query, 'marker'))[:limit]
        base_url = common.link_base(req, self._services)
        detail = query_schema.last(query, 'detail', False)
        document: dict[str, Any] = {'conductors': [
            _selected(views.conductor(row, up, base_url),
                      fields if not detail else views.FIELDS)
            for row, up in page]}
        if len(page) == limit:
            document['next'] = links.next_page(
                base_url, 'conductors', req.GET.items(), limit,
                page[-1][0]['host'])
        return document

    @base.expose
    def show(self, req: request.Request, resp: Any,
             hostname: str) -> dict[str, Any]:
        """Show a conductor."""
        versions.require(req.minor, versions.CONDUCTORS, 'The conductors')
        query = query_schema.parse(req, {'fields': queries.names},
                                   versions.MIN)
        fields = queries.fields(query, req.minor, views.SINCE)
        self._services.policy.check(req.ctxt, policies.GET)
        for row, up in self._services.workers.services(
                hostname, db.CONDUCTOR):
            return _selected(
                views.conductor(row, up,
                                common.link_base(req, self._services)),
                views.FIELDS if fields is None else fields)
        raise exceptions.NotFound(
            f'Conductor {hostname[:64]} could not be found.')

    def _fields(self, query: Mapping[str, list[Any]], minor: int
                ) -> tuple[str, ...] | list[str]:
        fields = queries.fields(query, minor, views.SINCE)
        if fields is not None and query_schema.last(query, 'detail'):
            raise exceptions.BadRequest(
                "Can't fetch a subset of fields with a detailed list: ask "
                'for one of fields and detail.')
        return views.LISTED if fields is None else fields


def _sorted_by(key: str, one: tuple[sa.RowMapping, bool]) -> Any:
    row, up = one
    return (row['id'] if key == 'id'
            else str(views.conductor(row, up, '')[key]))


def _behind(found: list[tuple[sa.RowMapping, bool]], marker: str | None
            ) -> list[tuple[sa.RowMapping, bool]]:
    """Give what comes after the marker.

    :raises BadRequest: the marker is unknown.
    """
    if marker is None:
        return found
    for place, (row, _up) in enumerate(found):
        if row['host'] == marker:
            return found[place + 1:]
    raise exceptions.BadRequest(f'marker [{marker}] not found')


def _selected(document: dict[str, Any], fields: Any) -> dict[str, Any]:
    return {key: value for key, value in document.items()
            if key in fields or key == 'links'}
