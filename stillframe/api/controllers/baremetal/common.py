# SPDX-License-Identifier: Apache-2.0
"""What the controllers of the bare-metal dialect share."""

from collections.abc import Mapping
import functools
from typing import Any

import sqlalchemy as sa

from stillframe import context
from stillframe import exceptions
from stillframe.api import baremetal_versions as versions
from stillframe.api import request
from stillframe.api.controllers import base
from stillframe.api.views.baremetal import nodes as views
from stillframe.db import node_snapshots
from stillframe.db import nodes as db
from stillframe.drivers import errors as driver_errors
from stillframe.policies import enforcer
from stillframe.policies import nodes as policies
from stillframe.states import nodes as states


def link_base(req: request.Request, services: base.Services) -> str:
    """Give what links begin with."""
    return (services.conf.api.link_prefix.rstrip('/')
            or req.application_url)


def read_node(req: request.Request, services: base.Services, ident: str,
              rule: str) -> sa.RowMapping:
    """Give a node that the caller may do something to.

    :param ident: UUID, or name where the microversion has names.
    :raises NodeNotFound: there is none, or not for this caller.
    :raises Forbidden: the caller may see it but not do this to it.
    """
    if req.minor < versions.NAMES and not db.is_uuid(ident):
        raise exceptions.NodeNotFound(node=ident)
    node = db.get(ident)
    services.policy.check_node(req.ctxt, rule, node, ident)
    return node


def view(req: request.Request, services: base.Services,
         progress: Mapping[str, Mapping[Any, Any]] | None = None
         ) -> views.View:
    """Give how the caller sees nodes.

    :param progress: rows of snapshots by their uuid.
    """
    return views.View(
        link_base(req, services), req.minor,
        functools.partial(shows_hardware, services, req.ctxt),
        functools.partial(conductor_of, services),
        _Defaults(services), progress or {})


def view_of(req: request.Request, services: base.Services,
            *nodes: Mapping[Any, Any]) -> views.View:
    """Give how the caller sees some nodes, with their snapshots read."""
    return view(req, services, node_snapshots.get_many(
        node['snapshot_id'] for node in nodes
        if node['provision_state'] in states.SNAPSHOT_FAMILY
        and node['snapshot_id'] is not None))


def shows_hardware(services: base.Services, ctxt: context.RequestContext,
                   node: Mapping[Any, Any]) -> bool:
    """Tell whether a caller may see what concerns a node's hardware."""
    return services.policy.allows(ctxt, policies.HARDWARE,
                                  enforcer.node_target(node))


def conductor_of(services: base.Services, node: Mapping[Any, Any]
                 ) -> str | None:
    """Tell which conductor looks after a node; None: none that is alive."""
    try:
        return services.ring.conductor_for(node)
    except exceptions.BadRequest:
        return None


class _Defaults(dict[str, Mapping[str, str]]):
    """The interfaces of nodes that name none, by driver; found when asked.

    A hardware type that is not enabled in the API has none.
    """

    def __init__(self, services: base.Services):
        super().__init__()
        self._services = services

    def get(self, driver: str, default: Any = None) -> Any:
        """Give those of one driver."""
        if driver not in self:
            try:
                self[driver] = self._services.drivers.interfaces_for(
                    driver, {})
            except driver_errors.DriverNotFound:
                self[driver] = {}
        return self[driver]
