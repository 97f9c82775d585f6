# SPDX-License-Identifier: Apache-2.0
"""A client of the compute dialect, as disaster-recovery software is one."""

import json
import time
from types import TracebackType
from typing import Any
from typing import Self

from tools.bench import load

#: What each of our requests says of itself.
HEADERS = {'Accept': 'application/json', 'X-Auth-Token': 'admin',
           'OpenStack-API-Version': 'compute latest'}
# Seconds between an answer and the next question of a client that polls.
_POLL = 0.002


class Refused(Exception):
    """A request was not taken, or a server went astray."""


class Client:
    """One connection that is kept open."""

    def __init__(self, port: int):
        self._connection = load.Connection(port)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None,
                 value: BaseException | None,
                 trace: TracebackType | None) -> None:
        self._connection.close()

    def _ask(self, method: str, path: str, body: Any = None) -> load.Answer:
        headers, text = HEADERS, ''
        if body is not None:
            text = json.dumps(body)
            headers = {**HEADERS, 'Content-Type': 'application/json'}
        answer = self._connection.ask(
            load.question(method, f'/v2.1{path}', headers, text))
        if answer.status >= 400:
            raise Refused(f'{method} {path}: {answer.status} '
                          f'{answer.body.decode()}')
        return answer

    def get(self, path: str) -> dict[str, Any]:
        """Read a resource below /v2.1."""
        return json.loads(self._ask('GET', path).body)

    def act(self, server_id: str, action: str, wish: Any = None) -> str:
        """Ask for an action on a server; give the request id."""
        answer = self._ask(
            'POST', f'/servers/{server_id}/action', {action: wish})
        request_id = answer.header('X-Openstack-Request-Id')
        if request_id is None:
            raise Refused(f'{action}: the answer has no request id')
        return request_id

    def status(self, server_id: str) -> str:
        """Give the status of a server."""
        return self.get(f'/servers/{server_id}')['server']['status']

    def wait(self, server_id: str, status: str,
             timeout: float = 60.0) -> None:
        """Poll a server until it has a status.

        :raises Refused: it went to error, or did not get there in time.
        """
        deadline = time.monotonic() + timeout
        while (now := self.status(server_id)) != status:
            if now == 'ERROR' or time.monotonic() > deadline:
                raise Refused(
                    f'server {server_id} is {now}, not {status}: ' + str(
                        self.get(f'/servers/{server_id}'
                                 '/os-instance-actions')))
            time.sleep(_POLL)

    def wait_ready(self, server_ids: list[str],
                   timeout: float = 60.0) -> None:
        """Poll until servers are known and their workers are up.

        :raises Refused: they were not in time.
        """
        deadline = time.monotonic() + timeout
        while not (self._known(server_ids) and self._up()):
            if time.monotonic() > deadline:
                raise Refused('the worker did not report its servers')
            time.sleep(0.1)

    def _known(self, server_ids: list[str]) -> bool:
        return set(server_ids) <= {
            one['id'] for one in self.get('/servers')['servers']}

    def _up(self) -> bool:
        services = self.get('/os-services')['services']
        return bool(services) and all(
            one['state'] == 'up' for one in services)
