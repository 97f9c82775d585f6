# SPDX-License-Identifier: Apache-2.0
"""The command API of an agent, as ironic-python-agent has it.

The token is part of each URL, so no URL is logged and none is in an error;
what the agent says is searched for it too.
"""

from collections.abc import Mapping
import json
import re
import time
from typing import Any
from urllib import parse

from oslo_config import cfg
from oslo_log import log as logging

from stillframe.drivers import errors
from stillframe.drivers.agent import pinned
from stillframe.drivers.base import Node

LOG = logging.getLogger(__name__)

_COMMANDS = '/v1/commands/'
_LONGEST_REASON = 500


class Agent:
    """The agent on a node.

    :raises AgentNotKnown: it has not reported since the node was booted,
        or nobody here knows its token.
    """

    def __init__(self, conf: cfg.ConfigOpts, node: Node):
        self._conf = conf
        self._uuid: str = node['uuid']
        self._url: str | None = node['agent_url']
        self._pem: str | None = node['agent_verify_ca']
        self._token: str | None = node.get('agent_token')
        if not self._url or not self._token:
            raise errors.AgentNotKnown(node=self._uuid)

    def commands(self) -> list[dict[str, Any]]:
        """Give all commands that it has had since it was started.

        :return: each with id, command_name (without that of its
            extension), command_status, command_error, command_result.
        :raises AgentError: see there.
        """
        left = self._conf.agent.attempts
        while True:
            left -= 1
            try:
                answer = self._call('list its commands', 'GET')
                break
            except errors.AgentUnreachable as exc:
                if not left:
                    raise
                LOG.info('Node %s: %s Trying again.', self._uuid, exc)
            time.sleep(self._conf.agent.retry_wait)
        commands = answer.get('commands')
        if not isinstance(commands, list) or not all(
                isinstance(one, dict) for one in commands):
            raise self._unintelligible('it has no list of commands')
        return commands

    def execute(self, name: str, params: Mapping[str, Any],
                wait: bool = False,
                timeout: float | None = None) -> dict[str, Any]:
        """Have a command carried out; asked once.

        :param name: with that of its extension.
        :param wait: for its end, as long as the agent lets us.
        :param timeout: seconds for an answer; None for the configured.
        :return: as :meth:`commands` gives.
        :raises AgentUnreachable: the command may have been begun or not.
        :raises AgentError: see there.
        """
        return self._call(name, 'POST', {'name': name, 'params': params},
                          timeout, wait='true' if wait else 'false')

    def scrub(self, text: object) -> str:
        """Make what the agent said fit for users."""
        # Databases do not take all that JSON has, such as a null character.
        words = ''.join(one if one.isprintable() else ' '
                        for one in str(text))
        words = ' '.join(words.split())
        for secret in (str(self._token), parse.quote(str(self._token)),
                       parse.quote_plus(str(self._token))):
            words = words.replace(secret, '***')
        words = re.sub(r'agent_token=[^&\s\'"]+', 'agent_token=***', words)
        words = re.sub(r'://[^/\s@]+@', '://***@', words)
        return words[:_LONGEST_REASON]

    def _unintelligible(self, reason: str) -> errors.AgentUnintelligible:
        return errors.AgentUnintelligible(node=self._uuid, reason=reason)

    def _call(self, what: str, method: str,
              content: Mapping[str, Any] | None = None,
              timeout: float | None = None,
              **query: str) -> dict[str, Any]:
        query_string = parse.urlencode({**query, 'agent_token': self._token})
        request = pinned.Request(
            method, str(self._url), f'{_COMMANDS}?{query_string}',
            None if content is None else json.dumps(content).encode(),
            self._pem)
        try:
            status, body = pinned.send(
                request, self._conf.agent.connect_timeout,
                timeout or self._conf.agent.command_timeout)
        except pinned.NoAnswer as exc:
            raise errors.AgentUnreachable(node=self._uuid,
                                          reason=str(exc)) from exc
        except pinned.NotPinned as exc:
            raise errors.AgentNotGenuine(node=self._uuid) from exc
        except pinned.Nonsense as exc:
            raise self._unintelligible(str(exc)) from exc
        try:
            answer = json.loads(body)
        except (ValueError, RecursionError):
            answer = None
        if status >= 300:
            raise self._refused(what, status, answer)
        if not isinstance(answer, dict):
            raise self._unintelligible('its answer is no JSON object')
        return answer

    def _refused(self, what: str, status: int,
                 answer: Any) -> errors.AgentError:
        if status == 401:
            return errors.AgentDenied(node=self._uuid)
        reason: object = 'it does not say why.'
        if isinstance(answer, dict):
            reason = (answer.get('faultstring') or answer.get('details')
                      or answer.get('message') or reason)
        if status == 409:
            return errors.AgentBusy(node=self._uuid,
                                    command=self.scrub(reason))
        return errors.AgentRefused(
            node=self._uuid, command=what, status=status,
            reason=self.scrub(reason))
