# SPDX-License-Identifier: Apache-2.0
"""GET /os-services."""

from typing import Any

from stillframe.api import request
from stillframe.api.controllers import base
from stillframe.api.schemas import query as query_schema
from stillframe.api.schemas import services as schema
from stillframe.api.views import services as views
from stillframe.policies import services as policies


class ServicesController:
    """Reads which processes are alive."""

    def __init__(self, services: base.Services):
        self._services = services

    @base.expose
    def index(self, req: request.Request, resp: Any) -> dict[str, Any]:
        """List the services."""
        query = schema.parse(req)
        self._services.policy.check(req.ctxt, policies.LIST)
        return {'services': [
            views.service(row, up, req.minor)
            for row, up in self._services.workers.services(
                query_schema.last(query, 'host'),
                query_schema.last(query, 'binary'))]}
