# SPDX-License-Identifier: Apache-2.0
"""/v1/nodes/{ident}/states: where a node is, and moving it.

What is decided here is only a courtesy: the move itself is one
compare-and-swap in the database, which also reserves the node for the
conductor that is to act.
"""

from collections.abc import Callable
from typing import Any

from oslo_log import log
import sqlalchemy as sa

from stillframe import exceptions
from stillframe.api import baremetal_versions as versions
from stillframe.api import request
from stillframe.api.controllers import base
from stillframe.api.controllers.baremetal import common
from stillframe.api.controllers.baremetal import snapshot_requests
from stillframe.api.schemas.baremetal import provision as schema
from stillframe.api.views.baremetal import nodes as views
from stillframe.db import node_moves
from stillframe.db import node_snapshots
from stillframe.policies import nodes as policies
from stillframe.states import nodes as states
from stillframe.states import power as power_states

LOG = log.getLogger(__name__)

_NOT_SENT = ('The request could not be handed to the conductor of the node, '
             'so nothing was done to it. Try again in a moment.')
_SOFT = frozenset((power_states.SOFT_POWER_OFF, power_states.SOFT_REBOOT))


class NodeStatesController:
    """Shows the states of a node, and has it moved and switched."""

    def __init__(self, services: base.Services):
        self._services = services

    @base.expose
    def show(self, req: request.Request, resp: Any,
             ident: str) -> dict[str, Any]:
        """Show the states of a node."""
        node = common.read_node(req, self._services, ident, policies.STATES)
        return views.node_states(node, req.minor, common.shows_hardware(
            self._services, req.ctxt, node))

    @base.expose
    def provision(self, req: request.Request, resp: Any,
                  ident: str) -> Any:
        """Move a node."""
        given = schema.arguments(req, schema.PROVISION)
        verb = given['target']
        node = common.read_node(
            req, self._services, ident, policies.SNAPSHOT
            if verb == 'snapshot' else policies.PROVISION)
        if verb in schema.VERBS:
            versions.require(req.minor, schema.VERBS[verb],
                             f'The verb {verb}')
        node_moves.refuse(node, verb)
        options = schema.check_options(verb, given)
        snapshot = None
        if verb == 'snapshot':
            snapshot = snapshot_requests.values(
                self._services, req.ctxt, node, options)
        self._move(req, node, verb, snapshot)
        LOG.info('Accepted %s of node %s', verb, node['uuid'])
        return self._accepted(req, resp, ident)

    @base.expose
    def power(self, req: request.Request, resp: Any, ident: str) -> Any:
        """Switch a node on or off."""
        given = schema.arguments(req, schema.POWER)
        target = given['target']
        node = common.read_node(req, self._services, ident, policies.POWER)
        timeout = schema.timeout(
            given, req.minor,
            self._services.conf.baremetal.max_power_timeout)
        if target not in power_states.TARGETS:
            raise exceptions.BadRequest(
                f'The requested state "{target[:64]}" is invalid for node '
                f'{node["uuid"]}: it has to be one of '
                f'{", ".join(power_states.TARGETS)}.')
        if target in _SOFT:
            versions.require(req.minor, versions.SOFT_POWER,
                             f'The target {target}')
        host = self._services.ring.conductor_for(node)
        after = node_moves.begin_power(node, target, host)
        self._hand_out(
            lambda: self._services.baremetal.change_node_power_state(
                req.ctxt, host, node['uuid'], target, timeout),
            lambda: node_moves.revert_power(after, _NOT_SENT))
        LOG.info('Accepted %s of node %s', target, node['uuid'])
        return self._accepted(req, resp, ident)

    def _move(self, req: request.Request, node: sa.RowMapping, verb: str,
              snapshot: dict[str, Any] | None) -> None:
        services, uuid = self._services, node['uuid']
        host = None
        if states.needs_conductor(node['provision_state'], verb):
            current = None
            if node['provision_state'] in states.SNAPSHOT_FAMILY:
                current = node_snapshots.get(node['snapshot_id'])
            host = services.ring.conductor_for(node, current)
        after = node_moves.begin(node, verb, host, snapshot)
        if after['reservation'] is None or host is None:
            return
        if verb == 'snapshot':
            self._hand_out(
                lambda: services.baremetal.do_node_snapshot(
                    req.ctxt, host, uuid, after['snapshot_id']),
                lambda: node_moves.revert(node, after, _NOT_SENT))
        else:
            self._hand_out(
                lambda: services.baremetal.do_provisioning_action(
                    req.ctxt, host, uuid, verb),
                lambda: node_moves.revert(node, after, _NOT_SENT))

    def _hand_out(self, cast: Callable[[], None],
                  revert: Callable[[], bool]) -> None:
        """Hand work to the conductor; without, the move is taken back."""
        try:
            cast()
        except exceptions.ServiceUnavailable:
            # Who does not take a message may be dead for seconds already.
            self._services.ring.refresh()
            if revert():
                raise
            # A conductor has it: the answer was lost, not the request.

    def _accepted(self, req: request.Request, resp: Any, ident: str) -> Any:
        resp.headers['Location'] = (
            f'{common.link_base(req, self._services)}/v1/nodes/{ident}'
            '/states')
        return base.accepted(resp)
