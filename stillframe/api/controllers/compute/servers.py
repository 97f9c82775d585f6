# SPDX-License-Identifier: Apache-2.0
"""GET /servers, /servers/detail and /servers/{id}."""

from typing import Any

from stillframe.api import links as api_links
from stillframe.api import microversions as mv
from stillframe.api import paging
from stillframe.api import request
from stillframe.api import server_filters
from stillframe.api.controllers import base
from stillframe.api.schemas import servers as schema
from stillframe.api.views import servers as views
from stillframe.db import servers as db
from stillframe.policies import enforcer
from stillframe.policies import servers as policies


class ServersController:
    """Reads servers."""

    def __init__(self, services: base.Services):
        self._services = services
        self._conf = services.conf.api

    @base.expose
    def index(self, req: request.Request, resp: Any) -> dict[str, Any]:
        """List servers: ids and names."""
        return self._list(req, policies.INDEX, policies.INDEX_ALL, False)

    @base.expose
    def detail(self, req: request.Request, resp: Any) -> dict[str, Any]:
        """List servers with all that they show."""
        return self._list(req, policies.DETAIL, policies.DETAIL_ALL, True)

    @base.expose
    def show(self, req: request.Request, resp: Any,
             server_id: str) -> dict[str, Any]:
        """Show one server."""
        page = db.get_page(server_id)
        row = page.servers[0]
        self._services.policy.check_server(req.ctxt, policies.SHOW, row)
        view = self._view(req, base.target(row))
        return {'server': view.detailed(row, page, alone=True)}

    def _list(self, req: request.Request, rule: str, rule_all: str,
              detail: bool) -> dict[str, Any]:
        policy = self._services.policy
        query = schema.parse(req)
        own = enforcer.own(req.ctxt)
        policy.check(req.ctxt, rule)
        if server_filters.all_tenants(query):
            policy.check(req.ctxt, rule_all)
        filters = server_filters.make(
            req, query, policy.allows(
                req.ctxt, policies.ALL_FILTERS, own))
        view = self._view(req, own)
        limit = paging.limit(query, self._conf.max_limit)
        page = paging.servers(query, filters, limit, detail)
        document: dict[str, Any] = {'servers': [
            view.detailed(row, page) if detail else view.brief(row)
            for row in page.servers]}
        if limit and len(page.servers) == limit:
            document['servers_links'] = view.links.next(
                'servers/detail' if detail else 'servers',
                req.GET.items(), page.servers[-1]['uuid'])
        return document

    def _view(self, req: request.Request,
              target: dict[str, Any]) -> views.View:
        policy = self._services.policy
        host_status = None
        if req.minor >= mv.HOST_STATUS and policy.allows(
                req.ctxt, policies.HOST_STATUS, target):
            host_status = {
                host: 'UP' if worker.up else 'DOWN' for host, worker
                in self._services.workers.all().items()}
        return views.View(
            api_links.Links(req, self._conf.link_prefix), req.minor,
            policy.allows(req.ctxt, policies.ATTRIBUTES, target),
            host_status)
