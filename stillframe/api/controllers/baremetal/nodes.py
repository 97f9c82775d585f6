# SPDX-License-Identifier: Apache-2.0
"""GET /v1/nodes, /v1/nodes/detail and /v1/nodes/{ident}."""

from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
import json
from typing import Any

import sqlalchemy as sa

from stillframe import exceptions
from stillframe.api import baremetal_versions as versions
from stillframe.api import node_texts
from stillframe.api import request
from stillframe.api.controllers import base
from stillframe.api.controllers.baremetal import common
from stillframe.api.schemas import query as query_schema
from stillframe.api.schemas.baremetal import nodes as schema
from stillframe.api.schemas.baremetal import queries
from stillframe.api.views.baremetal import links
from stillframe.api.views.baremetal import node_fields
from stillframe.api.views.baremetal import nodes as views
from stillframe.db import nodes as db
from stillframe.drivers import base as drivers
from stillframe.policies import nodes as policies

# Columns that are read for the fields of a list: what a field is made of,
# where that is more than the column of its name.
_ALSO = {
    'conductor': ('uuid', 'driver', 'conductor_group'),
    'driver_internal_info': (
        'driver_internal_info', 'provision_state', 'snapshot_id',
        'agent_url', 'agent_version', 'agent_last_heartbeat'),
    **{f'{kind}_interface': (f'{kind}_interface', 'driver')
       for kind in drivers.KINDS},
}


class NodesController:
    """Reads nodes."""

    def __init__(self, services: base.Services):
        self._services = services
        self._max_limit = services.conf.api.max_limit
        self._texts = node_texts.NodeTexts()

    @base.expose
    def index(self, req: request.Request, resp: Any) -> Any:
        """List nodes: a few fields, those asked for, or all."""
        query = schema.parse_list(req)
        detail = query_schema.last(query, 'detail', False)
        if 'detail' in query:
            versions.require(req.minor, versions.DETAIL,
                             'The query parameter detail')
        return self._list(req, resp, query, detail, 'nodes')

    @base.expose
    def detail(self, req: request.Request, resp: Any) -> Any:
        """List nodes with all that they show."""
        return self._list(req, resp, schema.parse_list(req), True,
                          'nodes/detail')

    @base.expose
    def show(self, req: request.Request, resp: Any,
             ident: str) -> dict[str, Any]:
        """Show a node."""
        query = query_schema.parse(req, {'fields': queries.names},
                                   versions.MIN)
        fields = queries.fields(query, req.minor, node_fields.SINCE)
        node = common.read_node(req, self._services, ident, policies.GET)
        view = common.view_of(req, self._services, node)
        return (view.detailed(node) if fields is None
                else view.selected(node, fields))

    def _list(self, req: request.Request, resp: Any,
              query: Mapping[str, list[Any]], detail: bool,
              path: str) -> Any:
        services = self._services
        fields = queries.fields(query, req.minor, node_fields.SINCE)
        if detail and fields is not None:
            raise exceptions.BadRequest(
                "Can't fetch a subset of fields with a detailed list: ask "
                'for one of fields and detail.')
        services.policy.check(req.ctxt, policies.LIST)
        filters = self._filters(req, query)
        limit = queries.limit(query, self._max_limit)
        sort_key = queries.sort_key(query, db.SORT_KEYS)
        rows: list[sa.RowMapping] = []
        if filters is not None:
            rows = self._page(
                query, filters, limit, sort_key,
                node_texts.COLUMNS if detail else _columns(fields))
        view = common.view(req, services)
        if detail:
            texts = self._detailed(req, rows, view)
        elif fields is None:
            texts = view.brief(rows)
        else:
            if 'driver_internal_info' in fields:
                view = common.view_of(req, services, *rows)
            texts = [json.dumps(view.selected(row, fields)) for row in rows]
        document = f'{{"nodes": [{", ".join(texts)}]'
        if len(rows) == limit:
            following = json.dumps(links.next_page(
                view.base, path, req.GET.items(), limit, rows[-1]['uuid']))
            document += f', "next": {following}'
        resp.content_type = 'application/json'
        resp.body = f'{document}}}'.encode('ascii')
        return resp

    def _detailed(self, req: request.Request, rows: list[sa.RowMapping],
                  view: views.View) -> list[str]:
        ring = self._services.ring.generation()

        def write(rows: Sequence[db.Node]) -> list[str]:
            complete = common.view_of(req, self._services, *rows)
            return [json.dumps(complete.detailed(row)) for row in rows]

        return self._texts.get(
            rows, lambda row: (view.base, view.minor, ring,
                               view.shows_hardware(row)),
            db.get_many, write)

    def _page(self, query: Mapping[str, list[Any]], filters: db.Filters,
              limit: int, sort_key: str, columns: Iterable[str]
              ) -> list[sa.RowMapping]:
        """Read a page; of one conductor's nodes, page by page of all."""
        host = query_schema.last(query, 'conductor')
        marker = query_schema.last(query, 'marker')
        if host is not None:
            columns = sorted({*columns, *_ALSO['conductor']})
        rows: list[sa.RowMapping] = []
        while True:
            try:
                page = db.list_page(
                    filters, limit, marker, sort_key,
                    query_schema.last(query, 'sort_dir', 'asc'), columns)
            except exceptions.NodeNotFound:
                raise exceptions.BadRequest(
                    f'marker [{marker}] not found') from None
            if host is None:
                return list(page)
            rows += [row for row in page if common.conductor_of(
                self._services, row) == host]
            if len(page) < limit or len(rows) >= limit:
                return rows[:limit]
            marker = page[-1]['uuid']

    def _filters(self, req: request.Request,
                 query: Mapping[str, list[Any]]) -> db.Filters | None:
        """Make the filters of a list; None: no node can match."""
        if any(name in query for name in schema.NEVER) or any(
                query_schema.last(query, name) for name in schema.FALSE):
            return None
        filters = db.Filters(
            equal={name: query[name][-1] for name in schema.EQUAL
                   if name in query},
            associated=query_schema.last(query, 'associated'),
            description_contains=query_schema.last(
                query, 'description_contains'))
        project = query_schema.last(query, 'project')
        if not self._services.policy.allows(
                req.ctxt, policies.LIST_ALL, {}):
            if req.ctxt.project_id is None or (
                    project not in (None, req.ctxt.project_id)):
                return None
            project = req.ctxt.project_id
        return dataclasses.replace(filters, project_id=project)


def _columns(fields: list[str] | None) -> list[str]:
    """Give the columns that some fields are made of."""
    if fields is None:
        return list(db.LISTED)
    # Whose a node is tells whether the caller may see some of them.
    wanted = {'uuid', 'owner', 'lessee'}
    for name in fields:
        if name in node_fields.LIVING:
            wanted.update(_ALSO.get(name, (name,)))
    return sorted(wanted)
