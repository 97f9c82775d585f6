# SPDX-License-Identifier: Apache-2.0
"""The RPC of a conductor about its nodes.

Everything that was cast is in the database already; what is found there,
not what the message says, is done. A message that comes late, or twice,
finds its node as somebody else left it and does nothing.
"""

from collections.abc import Callable
from typing import Any

from oslo_log import log
import oslo_messaging

from stillframe import context
from stillframe import exceptions
from stillframe.conductor.baremetal import following
from stillframe.conductor.baremetal import powering
from stillframe.conductor.baremetal import preparing
from stillframe.conductor.baremetal import provisioning
from stillframe.conductor.baremetal import restoring
from stillframe.conductor.baremetal import tasks
from stillframe.db import node_moves
from stillframe.db import nodes
from stillframe.drivers import base as drivers
from stillframe.drivers import errors
from stillframe.rpc import versions
from stillframe.states import nodes as states
from stillframe.states import power

LOG = log.getLogger(__name__)


class BaremetalManager:
    """The RPC endpoint; the client side is rpc/baremetal_api.py."""

    target = oslo_messaging.Target(version=versions.BAREMETAL_VERSION)

    def __init__(self, tools: tasks.Tools):
        self._tools = tools

    # --- casts --------------------------------------------------------------

    def reach(self, ctxt: context.RequestContext) -> None:
        """Do nothing: that it was sent tells that it can be."""

    def do_node_snapshot(self, ctxt: context.RequestContext, node_id: str,
                         snapshot_id: str) -> None:
        """Begin a snapshot that the API has accepted."""
        self._submit(node_id, 'begin a snapshot', preparing.begin, {
            'provision_state': states.SNAPSHOTTING,
            'snapshot_id': snapshot_id})

    def do_provisioning_action(self, ctxt: context.RequestContext,
                               node_id: str, verb: str) -> None:
        """Do what a verb asks for; the node has been moved already."""
        if states.VERBS.get(verb) == 'abort':
            self._submit(node_id, verb, restoring.end,
                         {'provision_state': states.SNAPSHOT_FAILED})
            return
        state = _STATE_OF.get(verb)
        if state is None:
            LOG.error('Node %s: nothing is known of "%s"', node_id, verb)
            return
        self._submit(node_id, verb, provisioning.act,
                     {'provision_state': state})

    def change_node_power_state(self, ctxt: context.RequestContext,
                                node_id: str, target: str,
                                timeout: float | None) -> None:
        """Change the power of a node that the API has reserved."""
        self._submit(
            node_id, target,
            lambda task: powering.change(task, target, timeout),
            # One that comes late finds the node reserved for other work.
            {'target_power_state': power.RESULT[target]})

    def heartbeat(self, ctxt: context.RequestContext, node_id: str,
                  agent_token: str) -> None:
        """Take a sign of life of an agent, which the API has checked."""
        tools = self._tools
        tools.tokens[node_id] = agent_token
        tools.follow(node_id, 'heartbeat',
                     lambda: following.follow(tools, node_id))

    def _submit(self, node_id: str, what: str,
                work: Callable[[tasks.Task], None],
                wanted: dict[str, Any]) -> None:
        tools = self._tools

        def job() -> None:
            task = tasks.take(tools, nodes.get(node_id), wanted)
            if task is not None:
                work(task)

        tools.do(node_id, what, job)

    # --- calls --------------------------------------------------------------

    def validate_node(self, ctxt: context.RequestContext,
                      node_id: str) -> dict[str, Any]:
        """Ask each interface of a node whether it has what it needs."""
        try:
            found = self._tools.factory.validate(nodes.get(node_id))
        except exceptions.StillframeError as exc:
            return {kind: {'result': False, 'reason': exc.message}
                    for kind in drivers.KINDS}
        return {kind: {'result': True} if wrong is None
                else {'result': False, 'reason': wrong}
                for kind, wrong in found.items()}

    def get_boot_device(self, ctxt: context.RequestContext,
                        node_id: str) -> dict[str, Any]:
        """Tell what a node boots from."""
        try:
            node = nodes.get(node_id)
            found = self._tools.factory.build(
                node).management.get_boot_device(node)
        except exceptions.StillframeError as exc:
            return {'boot_device': None, 'persistent': None,
                    'error': exc.message}
        return {'boot_device': found.device, 'persistent': found.persistent,
                'error': None}

    def set_boot_device(self, ctxt: context.RequestContext, node_id: str,
                        device: str, persistent: bool) -> dict[str, Any]:
        """Choose what a node boots from."""
        try:
            self._set_boot_device(nodes.get(node_id), device, persistent)
        except exceptions.StillframeError as exc:
            return {'error': exc.message}
        return {'error': None}

    def _set_boot_device(self, node: nodes.Node, device: str,
                         persistent: bool) -> None:
        if node['provision_state'] in states.POWER_IS_OURS:
            raise exceptions.WrongNodeState(
                action='set_boot_device', node=node['uuid'],
                state=node['provision_state'])
        with self._tools.in_hand(node['uuid']):
            taken = node_moves.reserve(node['uuid'], self._tools.host,
                                       node['provision_state'])
            if taken is None:
                raise exceptions.NodeLocked(
                    node=node['uuid'], host=node['reservation'] or 'another')
            task = tasks.Task(self._tools, taken)
            try:
                task.hardware().management.set_boot_device(
                    task.for_driver(), device, persistent)
            except errors.DriverError:
                task.release()
                raise
            task.release()


# The state that a verb has moved a node to, for those that need a
# conductor.
_STATE_OF = {
    verb: end
    for verb, event in states.VERBS.items()
    for start, by, end in states.MACHINE
    if by == event and end in states.WORKING and event != 'snapshot'}
