# SPDX-License-Identifier: Apache-2.0
"""/v1/nodes and /v1/nodes/{ident}: making, changing and deleting nodes."""

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from stillframe import exceptions
from stillframe.api import baremetal_versions as versions
from stillframe.api import request
from stillframe.api.controllers import base
from stillframe.api.controllers.baremetal import common
from stillframe.api.schemas import query as query_schema
from stillframe.api.schemas.baremetal import bodies
from stillframe.api.schemas.baremetal import nodes as schema
from stillframe.api.schemas.baremetal import patches
from stillframe.db import nodes as db
from stillframe.drivers import base as drivers
from stillframe.drivers import errors as driver_errors
from stillframe.policies import nodes as policies
from stillframe.states import nodes as states

_INTERFACES = {f'{kind}_interface': kind for kind in drivers.KINDS}
# What members of the owning project may change.
_MEMBERS = frozenset(('name', 'description', 'extra', 'instance_info',
                      'instance_uuid'))
_MAINTENANCE = frozenset(('maintenance', 'maintenance_reason'))


class NodeRecordsController:
    """Changes the records of nodes."""

    def __init__(self, services: base.Services):
        self._services = services

    @base.expose
    def create(self, req: request.Request, resp: Any) -> dict[str, Any]:
        """Make a node."""
        self._services.policy.check(req.ctxt, policies.CREATE)
        values = schema.creation(bodies.document(req), req.minor)
        if values.get('driver') is None:
            raise exceptions.BadRequest(
                'Invalid input: driver is a required property of a node.')
        self._check_driver(values)
        if req.minor < versions.ENROLL_STATE:
            values['provision_state'] = states.AVAILABLE
        node = db.create(values)
        resp.status = 201
        resp.headers['Location'] = (
            f'{common.link_base(req, self._services)}/v1/nodes/'
            f'{node["uuid"]}')
        return common.view_of(req, self._services, node).detailed(node)

    @base.expose
    def update(self, req: request.Request, resp: Any,
               ident: str) -> dict[str, Any]:
        """Change a node as a JSON patch says."""
        reset = query_schema.last(query_schema.parse(
            req, {'reset_interfaces': query_schema.boolean}, versions.MIN),
            'reset_interfaces', False)
        if reset:
            versions.require(req.minor, versions.RESET_INTERFACES,
                             'The query parameter reset_interfaces')
        patch = patches.check(bodies.document(req))
        touched = patches.touched(patch)
        schema.FIELDS.check_names(touched, req.minor)
        node = common.read_node(req, self._services, ident, policies.GET)
        # By what the patch names, not by what it changes: who may not
        # change a password shall not learn that a guess was right.
        self._check_policy(req, node, touched, ident)
        values = self._changes(req, node, patch, touched, reset)
        if values:
            self._check_changes(node, values)
            node = db.update(node, values)
        return common.view_of(req, self._services, node).detailed(node)

    @base.expose
    def delete(self, req: request.Request, resp: Any, ident: str) -> Any:
        """Delete a node with its ports and its history."""
        db.destroy(common.read_node(req, self._services, ident,
                                    policies.DELETE))
        resp.status = 204
        resp.content_type = None
        return resp

    @base.expose
    def set_maintenance(self, req: request.Request, resp: Any,
                        ident: str) -> Any:
        """Put a node into maintenance."""
        body = bodies.optional(req)
        if body is not None and not (
                isinstance(body, dict) and body.keys() <= {'reason'}
                and isinstance(body.get('reason'), str | None)):
            raise exceptions.BadRequest(
                'Malformed request body: it may be an object with nothing '
                'but a reason, a text.')
        node = common.read_node(req, self._services, ident,
                                policies.SET_MAINTENANCE)
        return self._maintain(req, resp, node, {
            'maintenance': True,
            'maintenance_reason': (body or {}).get(
                'reason', query_schema.last(query_schema.parse(
                    req, {'reason': query_schema.text}, versions.MIN),
                    'reason'))})

    @base.expose
    def clear_maintenance(self, req: request.Request, resp: Any,
                          ident: str) -> Any:
        """Take a node out of maintenance."""
        node = common.read_node(req, self._services, ident,
                                policies.CLEAR_MAINTENANCE)
        return self._maintain(req, resp, node, {
            'maintenance': False, 'maintenance_reason': None})

    def _maintain(self, req: request.Request, resp: Any,
                  node: sa.RowMapping, values: dict[str, Any]) -> Any:
        schema.settable({'driver': node['driver'], **values}, req.minor)
        db.update(node, values)
        return base.accepted(resp)

    def _changes(self, req: request.Request, node: sa.RowMapping,
                 patch: list[dict[str, Any]], touched: Mapping[str, Any],
                 reset: bool) -> dict[str, Any]:
        """Give what a patch changes, by column."""
        after = schema.FIELDS.patched(patch, node)
        if after.get('driver') is None:
            raise exceptions.BadRequest(
                "'/driver' is a mandatory attribute and can not be "
                'removed.')
        # A name that was allowed by another version is not judged again.
        if after['name'] == node['name']:
            del after['name']
        values = schema.settable(after, req.minor)
        if reset and values['driver'] != node['driver']:
            values.update({name: None for name in _INTERFACES
                           if name not in touched})
        return {name: value for name, value in values.items()
                if value != node[name]}

    def _check_policy(self, req: request.Request, node: sa.RowMapping,
                      touched: Mapping[str, Any], ident: str) -> None:
        names = set(touched)
        rules = [policies.UPDATE]
        if not names <= _MEMBERS | _MAINTENANCE:
            rules.append(policies.UPDATE_HARDWARE)
        if names & _MAINTENANCE:
            rules += [policies.SET_MAINTENANCE, policies.CLEAR_MAINTENANCE]
        for rule in rules:
            self._services.policy.check_node(req.ctxt, rule, node, ident)

    def _check_changes(self, node: sa.RowMapping,
                       values: dict[str, Any]) -> None:
        if values.keys() <= _MAINTENANCE:
            return
        if (node['instance_uuid'] is not None
                and values.get('instance_uuid') is not None):
            raise exceptions.NodeAssociated(
                node=node['uuid'], instance=node['instance_uuid'])
        if node['provision_state'] not in states.UPDATE_ALLOWED:
            raise exceptions.Conflict(
                f'Node {node["uuid"]} can not be updated while a state '
                f'transition is in progress (it is in state '
                f'"{node["provision_state"]}").')
        if not values.keys().isdisjoint(
                ('driver', 'conductor_group', *_INTERFACES)):
            self._check_driver({**node, **values})

    def _check_driver(self, node: Mapping[Any, Any]) -> None:
        """See whether a node can have its driver and interfaces.

        :raises NoConductor: no conductor has the driver.
        :raises InterfaceNotFound: an interface cannot be had.
        """
        self._services.ring.conductor_for(
            {'uuid': '', 'conductor_group': '', **node})
        try:
            self._services.drivers.interfaces_for(node['driver'], {
                kind: node.get(name) for name, kind in _INTERFACES.items()})
        except driver_errors.DriverNotFound:
            # The conductors have it, and check it, though the API has not.
            return
