# SPDX-License-Identifier: Apache-2.0
"""Ordering a snapshot of the agent, and asking what became of it.

A start is never sent twice on a guess: when there was no answer, the list
of the agent's commands says whether it was begun. An agent carries out one
long command at a time, so the newer one on the list is ours.
"""

from collections.abc import Mapping
import json
import time
from typing import Any

from oslo_log import log as logging

from stillframe.agent import orders
from stillframe.drivers import base
from stillframe.drivers import errors
from stillframe.drivers import ramdisk
from stillframe.drivers.agent.client import Agent

LOG = logging.getLogger(__name__)

_EXTENSION = 'snapshot.'
_STREAM = 'stream_image'
_STOP = 'stop'
# Seconds for it to take a stop. It is switched off next in any case.
_STOP_TIMEOUT = 10.0
# Of a result, in bytes of JSON and in levels: it is kept with the history of
# the node, and shown. Much of it are read errors, 30 bytes each.
_RESULT_MAX = 4 << 20
_RESULT_DEPTH = 8
_RUNNING, _SUCCEEDED = 'RUNNING', 'SUCCEEDED'


class AgentSnapshot(base.SnapshotInterface):
    """Snapshots by the agent in the ramdisk that the node runs."""

    def validate(self, node: base.Node) -> None:
        """See that the agent can be told where to report to.

        There is nothing in driver_info to check.

        :raises NowhereToReport: see there.
        """
        ramdisk.parameters(self.conf, node)

    def start(self, node: base.Node, order: Mapping[str, Any]) -> str:
        """See the base class.

        :raises AgentBusy: it is carrying out another command.
        :raises AgentRefused: it does not understand the order, or has no
            such command.
        :raises AgentError: see there.
        """
        agent = Agent(self.conf, node)
        before = {one.get('id') for one in agent.commands()}
        left = self.conf.agent.attempts
        while True:
            left -= 1
            try:
                return _id(node, agent.execute(_EXTENSION + _STREAM, order))
            except (errors.AgentUnreachable, errors.AgentBusy) as exc:
                # Busy may be with what we sent before.
                begun = _begun(node, agent, before)
                if begun is not None:
                    LOG.info('Node %s: the agent gave no answer, but began '
                             'the snapshot.', node['uuid'])
                    return begun
                if not left or isinstance(exc, errors.AgentBusy):
                    raise
                LOG.info('Node %s: %s It has not begun the snapshot; '
                         'ordering again.', node['uuid'], exc)
            time.sleep(self.conf.agent.retry_wait)

    def poll(self, node: base.Node, command_id: str,
             ) -> base.Progress | base.Done | base.Failed:
        """See the base class.

        :raises AgentError: it cannot be asked now; see its ``transient``.
        """
        agent = Agent(self.conf, node)
        found = next((one for one in agent.commands()
                      if one.get('id') == command_id), None)
        if found is None:
            return base.Failed('The agent in the ramdisk was started anew '
                               'and knows nothing of the snapshot.')
        status = found.get('command_status')
        if status == _RUNNING:
            return base.Progress()
        if status == _SUCCEEDED:
            return base.Done(_result(node, found))
        return base.Failed(_reason(agent, found))

    def stop(self, node: base.Node, command_id: str) -> None:
        """Ask the agent to stop, as far as it can be asked.

        ironic-python-agent takes no command beside a running one; there
        the stream ends because its transfer was cut.
        """
        try:
            agent = Agent(self.conf, node)
            agent.execute(_EXTENSION + _STOP, {}, wait=True,
                          timeout=_STOP_TIMEOUT)
        except errors.AgentError as exc:
            LOG.info('Node %s: the agent was not told to stop: %s',
                     node['uuid'], exc)


def _begun(node: base.Node, agent: Agent, before: set[Any]) -> str | None:
    """Give the id of a stream that is new on the list."""
    for one in agent.commands():
        if one.get('command_name') == _STREAM and (
                one.get('id') not in before):
            return _id(node, one)
    return None


def _id(node: base.Node, command: Mapping[str, Any]) -> str:
    value = command.get('id')
    if not isinstance(value, str) or not value:
        raise errors.AgentUnintelligible(
            node=node['uuid'], reason='its command has no id')
    return value


def _result(node: base.Node, command: Mapping[str, Any]) -> Mapping[str, Any]:
    result = command.get('command_result')
    if not isinstance(result, dict) or (
            result.get('version') != orders.VERSION):
        raise errors.AgentUnintelligible(
            node=node['uuid'],
            reason=f'its result is not of version {orders.VERSION}')
    if _deeper(result, _RESULT_DEPTH):
        raise _endless(node)
    try:
        # Python reads NaN and Infinity; nobody else takes them for JSON.
        text = json.dumps(result, allow_nan=False)
    except ValueError as exc:
        raise errors.AgentUnintelligible(
            node=node['uuid'],
            reason='its result has a number that is none') from exc
    if len(text) > _RESULT_MAX:
        raise _endless(node)
    return result


def _endless(node: base.Node) -> errors.AgentUnintelligible:
    return errors.AgentUnintelligible(
        node=node['uuid'], reason='its result has no end')


def _deeper(value: Any, levels: int) -> bool:
    """Tell whether lists and objects are nested deeper than that."""
    if not isinstance(value, dict | list):
        return False
    return levels == 0 or any(
        _deeper(one, levels - 1)
        for one in (value.values() if isinstance(value, dict) else value))


def _reason(agent: Agent, command: Mapping[str, Any]) -> str:
    error = command.get('command_error')
    if isinstance(error, dict):
        error = error.get('details') or error.get('message')
    return agent.scrub(error or 'The agent does not say why it failed.')
