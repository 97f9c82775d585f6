# SPDX-License-Identifier: Apache-2.0
"""/v1/drivers: the hardware types that conductors have."""

from typing import Any

from stillframe import exceptions
from stillframe.api import baremetal_versions as versions
from stillframe.api import request
from stillframe.api.controllers import base
from stillframe.api.controllers.baremetal import common
from stillframe.api.schemas import query as query_schema
from stillframe.api.schemas.baremetal import queries
from stillframe.api.views.baremetal import drivers as views
from stillframe.policies import drivers as policies

_LIST: query_schema.Schema = {
    'type': query_schema.text,
    'detail': query_schema.boolean,
    'fields': queries.names,
}


class DriversController:
    """Reads hardware types."""

    def __init__(self, services: base.Services):
        self._services = services

    @base.expose
    def index(self, req: request.Request, resp: Any) -> dict[str, Any]:
        """List the hardware types of the conductors that are alive."""
        query = query_schema.parse(req, _LIST, versions.MIN)
        fields = queries.fields(query, req.minor, views.SINCE)
        for name in ('type', 'detail'):
            if name in query:
                versions.require(req.minor, versions.DYNAMIC_DRIVERS,
                                 f'The query parameter {name}')
        kind = query_schema.last(query, 'type')
        if kind not in (None, 'dynamic', 'classic'):
            raise exceptions.BadRequest(
                'type has to be "dynamic" or "classic".')
        self._services.policy.check(req.ctxt, policies.GET)
        found = ({} if kind == 'classic'
                 else self._services.ring.drivers())
        detail = query_schema.last(query, 'detail', False)
        return {'drivers': [
            self._view(req, name, hosts, detail or fields is not None,
                       fields)
            for name, hosts in sorted(found.items())]}

    @base.expose
    def show(self, req: request.Request, resp: Any,
             name: str) -> dict[str, Any]:
        """Show a hardware type."""
        query = query_schema.parse(req, {'fields': queries.names},
                                   versions.MIN)
        fields = queries.fields(query, req.minor, views.SINCE)
        self._services.policy.check(req.ctxt, policies.GET)
        return self._view(req, name, self._hosts(name), True, fields)

    @base.expose
    def properties(self, req: request.Request, resp: Any,
                   name: str) -> dict[str, str]:
        """Say what the driver_info of a hardware type has to have."""
        self._services.policy.check(req.ctxt, policies.PROPERTIES)
        self._hosts(name)
        return self._services.drivers.properties(name)

    def _hosts(self, name: str) -> list[str]:
        hosts = self._services.ring.drivers().get(name)
        if hosts is None:
            raise exceptions.NotFound(
                'No valid host was found. Reason: The driver '
                f'{name[:64]} is unknown to all conductors that are alive.')
        return hosts

    def _view(self, req: request.Request, name: str, hosts: list[str],
              detail: bool, fields: list[str] | None) -> dict[str, Any]:
        choices = {}
        if detail and req.minor >= versions.DYNAMIC_DRIVERS:
            choices = dict(self._services.drivers.hardware_types().get(
                name, {}))
        document = views.driver(
            name, hosts, choices if detail else None,
            common.link_base(req, self._services), req.minor)
        if fields is None:
            return document
        return {key: value for key, value in document.items()
                if key in fields or key == 'links'}
