# SPDX-License-Identifier: Apache-2.0
"""The agent's own command API, in this process, with commands of a test."""

from collections.abc import Iterator
import contextlib
import pathlib
import threading
from typing import Any

from stillframe.agent import certificate
from stillframe.agent import command_errors
from stillframe.agent import commands
from stillframe.agent import routes
from stillframe.agent import server
from tests.unit.drivers.nodes import make_node

TOKEN = 'tok&en/of+thirty-two=characters-or-more'
RESULT = {'version': 1, 'transport': 'webdav'}


class Ramdisk:
    """An agent whose ``snapshot.stream_image`` waits to be let go.

    :ivar started: set when a stream runs.
    :ivar go_on: lets it end.
    :ivar result: what it then gives; an exception is raised.
    :ivar streams: how many were begun.
    :ivar arriving: called in the middle of the request that begins one.
    """

    def __init__(self, can_stop: bool = True):
        self.started, self.go_on = threading.Event(), threading.Event()
        self.result: Any = dict(RESULT)
        self.streams = 0
        self.arriving: Any = lambda: None
        self.orders: list[dict[str, Any]] = []
        table = {'stream_image': commands.Command(
            self._stream, background=True, check=self._check)}
        if can_stop:
            table['stop'] = commands.Command(self._stop, while_busy=True)
        self.commands = commands.Commands({'snapshot': table}, lambda: None)
        self.app = routes.App(self.commands, 0.0)
        self.app.token = TOKEN
        self._server = server.Server(self.app, '127.0.0.1', 0)
        # Looks often whether it is to end: there are many of these.
        self._server._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.01,), daemon=True)
        self.port = self._server.port
        self.pem: str | None = None

    @contextlib.contextmanager
    def serving(self, folder: pathlib.Path | None) -> Iterator['Ramdisk']:
        """Answer; with TLS when there is a folder for the certificate."""
        if folder:
            made = certificate.make('127.0.0.1', 0.0)
            file = folder / 'agent.pem'
            file.write_text(made.pem + made.key_pem)
            self._server.use_tls(str(file))
            self.pem = made.pem
        self._server.start()
        try:
            yield self
        finally:
            self.go_on.set()
            self._server.stop()

    def node(self, port: int | None = None, **columns: Any) -> dict[str, Any]:
        """Give the node that the agent is on.

        :param port: to reach it at; None for its own.
        """
        scheme = 'https' if self.pem else 'http'
        return make_node(**{
            'agent_url': f'{scheme}://127.0.0.1:{port or self.port}',
            'agent_verify_ca': self.pem, 'agent_token': TOKEN, **columns})

    def _check(self, **order: Any) -> None:
        if order.get('refuse'):
            raise command_errors.InvalidCommandParamsError(
                f'nobody sends to {order["refuse"]}')
        self.orders.append(order)
        self.arriving()

    def _stream(self, **order: Any) -> Any:
        self.streams += 1
        self.started.set()
        if not self.go_on.wait(60):
            raise TimeoutError('nobody let the stream go on')
        if isinstance(self.result, Exception):
            raise self.result
        return self.result

    def _stop(self) -> dict[str, bool]:
        self.result = command_errors.CommandExecutionError('stopped')
        self.go_on.set()
        return {'stopping': True}
