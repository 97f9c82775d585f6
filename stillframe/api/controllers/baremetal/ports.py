# SPDX-License-Identifier: Apache-2.0
"""/v1/ports and /v1/nodes/{ident}/ports."""

from collections.abc import Iterable
from typing import Any

import sqlalchemy as sa

from stillframe import exceptions
from stillframe.api import baremetal_versions as versions
from stillframe.api import request
from stillframe.api.controllers import base
from stillframe.api.controllers.baremetal import common
from stillframe.api.schemas import query as query_schema
from stillframe.api.schemas.baremetal import bodies
from stillframe.api.schemas.baremetal import nodes as nodes_schema
from stillframe.api.schemas.baremetal import patches
from stillframe.api.schemas.baremetal import ports as schema
from stillframe.api.schemas.baremetal import queries
from stillframe.api.views.baremetal import links
from stillframe.api.views.baremetal import ports as views
from stillframe.db import nodes
from stillframe.db import ports as db
from stillframe.policies import enforcer
from stillframe.policies import nodes as node_policies
from stillframe.policies import ports as policies


class PortsController:
    """Reads ports and changes them."""

    def __init__(self, services: base.Services):
        self._services = services

    @base.expose
    def index(self, req: request.Request, resp: Any) -> dict[str, Any]:
        """List ports."""
        return self._list(req, 'ports')

    @base.expose
    def detail(self, req: request.Request, resp: Any) -> dict[str, Any]:
        """List ports with all that they show."""
        return self._list(req, 'ports/detail', detail=True)

    @base.expose
    def of_node(self, req: request.Request, resp: Any,
                ident: str) -> dict[str, Any]:
        """List the ports of a node."""
        return self._list(req, f'nodes/{ident}/ports', ident)

    @base.expose
    def detail_of_node(self, req: request.Request, resp: Any,
                       ident: str) -> dict[str, Any]:
        """List the ports of a node with all that they show."""
        return self._list(req, f'nodes/{ident}/ports/detail', ident, True)

    @base.expose
    def show(self, req: request.Request, resp: Any,
             port_id: str) -> dict[str, Any]:
        """Show a port."""
        query = query_schema.parse(req, {'fields': queries.names},
                                   versions.MIN)
        fields = queries.fields(query, req.minor, schema.SINCE)
        port = self._read(req, port_id)
        return self._shown(req, port, fields)

    @base.expose
    def create(self, req: request.Request, resp: Any) -> dict[str, Any]:
        """Make a port."""
        self._services.policy.check(req.ctxt, policies.CREATE)
        body = bodies.document(req)
        if not isinstance(body, dict):
            raise exceptions.BadRequest(
                'Malformed request body: it must be an object, the port.')
        schema.FIELDS.check_names(body, req.minor)
        values = schema.settable(body)
        if body.get('uuid') is not None:
            nodes_schema.check_uuid(body['uuid'])
            values['uuid'] = body['uuid'].lower()
        values['node_uuid'] = _known(values['node_uuid'])
        port = db.create(values)
        resp.status = 201
        resp.headers['Location'] = (
            f'{common.link_base(req, self._services)}/v1/ports/'
            f'{port["uuid"]}')
        return self._shown(req, port)

    @base.expose
    def update(self, req: request.Request, resp: Any,
               port_id: str) -> dict[str, Any]:
        """Change a port as a JSON patch says."""
        patch = patches.check(bodies.document(req))
        schema.FIELDS.check_names(patches.touched(patch), req.minor)
        port = self._read(req, port_id)
        self._services.policy.check(req.ctxt, policies.UPDATE)
        values = schema.settable(schema.FIELDS.patched(patch, port))
        changed = {name: value for name, value in values.items()
                   if value != port[name]}
        if 'node_uuid' in changed:
            changed['node_uuid'] = _known(changed['node_uuid'])
        if changed:
            port = db.update(port['uuid'], changed)
        return self._shown(req, port)

    @base.expose
    def delete(self, req: request.Request, resp: Any, port_id: str) -> Any:
        """Delete a port."""
        port = self._read(req, port_id)
        self._services.policy.check(req.ctxt, policies.DELETE)
        db.destroy(port['uuid'])
        resp.status = 204
        resp.content_type = None
        return resp

    def _read(self, req: request.Request, port_id: str) -> sa.RowMapping:
        """Give a port that the caller may see.

        :raises PortNotFound: there is none, or not for this caller.
        """
        port = db.get(port_id.lower())
        if not self._services.policy.allows(
                req.ctxt, policies.GET,
                enforcer.node_target(nodes.get(port['node_uuid']))):
            raise exceptions.PortNotFound(port=port_id)
        return port

    def _shown(self, req: request.Request, port: sa.RowMapping,
               fields: Iterable[str] | None = None) -> dict[str, Any]:
        return views.port(
            port, common.link_base(req, self._services),
            views.all_fields(req.minor) if fields is None else fields)

    def _list(self, req: request.Request, path: str,
              ident: str | None = None, detail: bool = False
              ) -> dict[str, Any]:
        query = query_schema.parse(req, schema.LIST, versions.MIN)
        fields = queries.fields(query, req.minor, schema.SINCE)
        if 'detail' in query:
            versions.require(req.minor, versions.DETAIL,
                             'The query parameter detail')
            detail = query['detail'][-1]
        if detail and fields is not None:
            raise exceptions.BadRequest(
                "Can't fetch a subset of fields with a detailed list: ask "
                'for one of fields and detail.')
        policy = self._services.policy
        policy.check(req.ctxt, policies.LIST)
        project = None
        if not policy.allows(req.ctxt, policies.LIST_ALL, {}):
            # A token of no project owns nothing.
            project = req.ctxt.project_id or ''
        ident = ident or query_schema.last(
            query, 'node') or query_schema.last(query, 'node_uuid')
        node_uuid = None
        if ident is not None:
            node_uuid = common.read_node(
                req, self._services, ident, node_policies.GET)['uuid']
        limit = queries.limit(query, self._services.conf.api.max_limit)
        marker = query_schema.last(query, 'marker')
        try:
            rows = db.list_page(
                limit, marker, node_uuid,
                query_schema.last(query, 'address'), project,
                queries.sort_key(query, db.SORT_KEYS),
                query_schema.last(query, 'sort_dir', 'asc'),
                None if detail or fields else db.LISTED)
        except exceptions.PortNotFound:
            raise exceptions.BadRequest(
                f'marker [{marker}] not found') from None
        base_url = common.link_base(req, self._services)
        shown = (views.all_fields(req.minor) if detail
                 else fields or db.LISTED)
        document: dict[str, Any] = {'ports': [
            views.port(row, base_url, shown) for row in rows]}
        if len(rows) == limit:
            document['next'] = links.next_page(
                base_url, path, req.GET.items(), limit, rows[-1]['uuid'])
        return document


def _known(ident: str) -> str:
    """Give the UUID of a node that a port is to be of.

    :raises BadRequest: there is no such node.
    """
    try:
        return nodes.get(ident)['uuid']
    except exceptions.NodeNotFound as exc:
        raise exceptions.BadRequest(str(exc)) from None
