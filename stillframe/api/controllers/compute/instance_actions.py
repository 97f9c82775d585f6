# SPDX-License-Identifier: Apache-2.0
"""GET /servers/{id}/os-instance-actions[/{request_id}]."""

from typing import Any

import sqlalchemy as sa

from stillframe import exceptions
from stillframe.api import links as api_links
from stillframe.api import microversions as mv
from stillframe.api import paging
from stillframe.api import request
from stillframe.api.controllers import base
from stillframe.api.schemas import instance_actions as schema
from stillframe.api.schemas import query as query_schema
from stillframe.api.views import instance_actions as views
from stillframe.db import actions as db
from stillframe.db import servers
from stillframe.policies import instance_actions as policies


class InstanceActionsController:
    """Reads what was done to a server."""

    def __init__(self, services: base.Services):
        self._services = services
        self._conf = services.conf.api

    @base.expose
    def index(self, req: request.Request, resp: Any,
              server_id: str) -> dict[str, Any]:
        """List the actions of a server, newest first."""
        query = schema.parse(req)
        self._server(req, policies.LIST, server_id)
        limit = paging.limit(query, self._conf.max_limit)
        marker = query_schema.last(query, 'marker')
        try:
            rows = db.list_for_server(
                server_id, limit, marker,
                query_schema.last(query, 'changes-since'),
                query_schema.last(query, 'changes-before'))
        except exceptions.ActionNotFound:
            raise exceptions.BadRequest(
                f'marker [{marker}] not found') from None
        view = views.View(req.minor)
        document: dict[str, Any] = {
            'instanceActions': [view.action(row) for row in rows]}
        if req.minor >= mv.ACTIONS_PAGED and limit and len(rows) == limit:
            links = api_links.Links(req, self._conf.link_prefix)
            document['links'] = links.next(
                f'servers/{server_id}/os-instance-actions',
                req.GET.items(), rows[-1]['request_id'])
        return document

    @base.expose
    def show(self, req: request.Request, resp: Any, server_id: str,
             request_id: str) -> dict[str, Any]:
        """Show an action with its events."""
        server = self._server(req, policies.SHOW, server_id)
        action, events = db.get(server_id, request_id)
        policy, target = self._services.policy, base.target(server)
        view = views.View(
            req.minor, policy.allows(req.ctxt, policies.EVENTS, target),
            policy.allows(req.ctxt, policies.DETAILS, target))
        return {'instanceAction': view.with_events(action, events, server)}

    def _server(self, req: request.Request, rule: str,
                server_id: str) -> sa.RowMapping:
        server = servers.get(
            server_id, deleted=req.minor >= mv.ACTIONS_OF_DELETED)
        self._services.policy.check_server(req.ctxt, rule, server)
        return server
