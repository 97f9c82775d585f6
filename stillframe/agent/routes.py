# SPDX-License-Identifier: Apache-2.0
"""The routes of the command API: those of ironic-python-agent.

Knows nothing of connections. The token is part of a URL, so no URL is ever
logged.
"""

from collections.abc import Callable
import hmac
import json
from typing import Any
from urllib import parse

from stillframe.agent import commands
from stillframe.agent import version as own

# Seconds that a client may wait for a command: less than conductors wait
# for an answer.
_LONGEST_WAIT = 50.0


class HttpError(Exception):
    """An answer that is an error of HTTP."""

    def __init__(self, status: int, text: str, allow: str = ''):
        super().__init__(text)
        self.status = status
        self.allow = allow


class App:
    """The routes."""

    def __init__(self, orders: commands.Commands, started_at: float):
        """Serve the commands; nobody is let in without a token.

        :param started_at: seconds since 1970.
        :ivar token: whoever knows it may order.
        """
        self.token: str | None = None
        self._commands = orders
        self._started_at = started_at

    def answer(self, method: str, target: str, base: str,
               body: Callable[[], bytes],
               trust: Callable[[], None] = lambda: None) -> Any:
        """Answer one request.

        :param target: path and query, as they came.
        :param base: URL that this server was called by.
        :param body: reads the body; not called for who may not order.
        :param trust: called for who may.
        :return: what becomes the JSON of a good answer.
        :raises HttpError: of HTTP.
        :raises CommandExecutionError: the command was refused.
        """
        parts = parse.urlsplit(target)
        path = [piece for piece in parts.path.split('/') if piece]
        if path[:1] == ['v1']:
            if len(path) == 1:
                self._allow(method, 'GET')
                return self._version(base)
            path = path[1:]
        query = dict(parse.parse_qsl(parts.query))
        match path:
            case []:
                self._allow(method, 'GET')
                return self._root(base)
            case ['status']:
                self._allow(method, 'GET')
                return {'started_at': self._started_at,
                        'version': own.VERSION}
            case ['commands']:
                self._allow(method, 'GET', 'POST')
                self._authorize(query)
                trust()
                if method == 'POST':
                    return self._run(body(), query)
                return {'commands': [one.serialize() for one
                                     in self._commands.results()]}
            case ['commands', result_id]:
                self._allow(method, 'GET')
                self._authorize(query)
                trust()
                return self._show(self._commands.result(result_id), query)
        raise HttpError(404, 'There is no such page.')

    def _allow(self, method: str, *allowed: str) -> None:
        if method not in allowed:
            raise HttpError(405, 'This page takes ' + ' and '.join(allowed),
                         ', '.join(allowed))

    def _authorize(self, query: dict[str, str]) -> None:
        given = query.get('agent_token', '')
        if not self.token or not hmac.compare_digest(
                given.encode(), self.token.encode()):
            raise HttpError(401, 'Token invalid.')

    def _run(self, body: bytes, query: dict[str, str]) -> dict[str, Any]:
        try:
            order = json.loads(body)
        except (ValueError, RecursionError):
            raise HttpError(400, 'The body is no JSON.') from None
        if (not isinstance(order, dict)
                or not isinstance(order.get('name'), str)
                or not isinstance(order.get('params'), dict)):
            raise HttpError(400, 'Missing or invalid name or params')
        return self._show(
            self._commands.execute(order['name'], order['params']), query)

    def _show(self, result: commands.Result,
              query: dict[str, str]) -> dict[str, Any]:
        if query.get('wait', '').lower() == 'true':
            result.wait(_LONGEST_WAIT)
        return result.serialize()

    def _version(self, base: str) -> dict[str, Any]:
        return {'id': 'v1',
                'links': [{'rel': 'self', 'href': f'{base}/v1/'}],
                'commands': [{'rel': 'self',
                              'href': f'{base}/v1/commands'}],
                'status': [{'rel': 'self', 'href': f'{base}/v1/status'}]}

    def _root(self, base: str) -> dict[str, Any]:
        version = {'id': 'v1', 'links': [
            {'rel': 'self', 'href': f'{base}/v1/'}]}
        return {'name': 'Stillframe agent',
                'description': 'Takes the orders for a snapshot of this '
                               'machine.',
                'versions': [version], 'default_version': version}
