# SPDX-License-Identifier: Apache-2.0
"""The command API's server: HTTP, with or without TLS.

Each answer ends its connection, each read and write has a bound, and there
are never more than a few connections: one more costs the one that has waited
longest without showing the token. So nobody on the network can keep the
conductor out, or make the agent use up memory.

The token is part of the URL, so no URL is ever logged.
"""

from collections.abc import Iterator
import contextlib
import http
import http.server
import json
import logging
import socket
import socketserver
import ssl
import threading
from typing import Any
from urllib import parse

from stillframe.agent import command_errors as errors
from stillframe.agent import routes
from stillframe.agent import version as own

LOG = logging.getLogger(__name__)

# Seconds of silence of a client.
_SILENCE = 30.0
# Seconds of one connection, however busy it is.
_LONGEST_CONNECTION = 120.0
# An order is a few kilobytes, with a certificate.
_LONGEST_BODY = 1 << 20
_MOST_CONNECTIONS = 32
# Seconds after which the listening thread notices that it is to end.
_LOOK_UP = 0.1


class _Handler(http.server.BaseHTTPRequestHandler):
    """One connection, one request."""

    server: 'Server'
    protocol_version = 'HTTP/1.1'
    server_version = f'stillframe-agent/{own.VERSION}'
    sys_version = ''
    timeout = _SILENCE

    def log_message(self, *_args: object) -> None:
        """Log nothing here: the URL has the token in it."""

    def _answer(self) -> None:
        self.close_connection = True
        path = parse.urlsplit(self.path).path[:200]
        headers = {}
        try:
            body = json.dumps(self.server.app.answer(
                self.command, self.path, self._base(), self._body,
                lambda: self.server.trust(self.connection)))
            status = 200
        except routes.HttpError as exc:
            status = exc.status
            body = self._fault(status, exc)
            headers = {'Allow': exc.allow} if exc.allow else {}
        except errors.CommandExecutionError as exc:
            status = exc.code
            body = self._fault(status, exc)
        except Exception as exc:
            # An answer, so that the conductor does not wait in vain.
            LOG.exception('%s %r went wrong', self.command, path)
            status = 500
            body = self._fault(status, exc)
        LOG.debug('%s %s %r: %s', self.client_address[0], self.command,
                  path, status)
        self._send(status, body, headers)

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = _answer

    def send_error(self, code: int, message: str | None = None,
                   explain: str | None = None) -> None:
        """Answer what is no proper HTTP, in JSON as all else."""
        self.close_connection = True
        # Of what could not be parsed the version is not known.
        self.request_version = self.protocol_version
        self._send(code, self._fault(
            code, message or http.HTTPStatus(code).phrase), {})

    def _send(self, status: int, body: str,
              headers: dict[str, str]) -> None:
        data = body.encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header('Content-Type', 'application/json')
        self.send_header('Content-Length', str(len(data)))
        self.send_header('Connection', 'close')
        self.end_headers()
        if self.command != 'HEAD':
            self.wfile.write(data)

    def _fault(self, status: int, text: object) -> str:
        return json.dumps(
            {'faultcode': 'Server' if status >= 500 else 'Client',
             'faultstring': str(text)})

    def _base(self) -> str:
        host = self.headers.get('Host', 'localhost')
        return f'{self.server.scheme}://{host}'

    def _body(self) -> bytes:
        if self.headers.get('Transfer-Encoding'):
            raise routes.HttpError(411, 'Send a body with its length.')
        length = self.headers.get('Content-Length', '0')
        if not length.isdecimal():
            raise routes.HttpError(400, 'The length of the body is no number.')
        if int(length) > _LONGEST_BODY:
            raise routes.HttpError(
                413, f'A body has at most {_LONGEST_BODY} bytes.')
        return self.rfile.read(int(length))


class Server(socketserver.ThreadingMixIn, socketserver.TCPServer):
    """Serves the command API, each connection in a thread of its own."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, app: routes.App, host: str | None, port: int):
        """Listen; nothing is answered before :meth:`start`.

        :param host: address to listen on; None for all.
        :param port: 0 for any that is free.
        :raises OSError: it is taken, or there is no such address.
        """
        self.app = app
        self.scheme = 'http'
        self._context: ssl.SSLContext | None = None
        self._lock = threading.Lock()
        self._connections = 0
        # Of these, who has not shown the token, oldest first.
        self._strangers: dict[socket.socket, None] = {}
        super().__init__((host or '', port), _Handler,
                         bind_and_activate=False)
        self.socket.close()
        six = ':' in host if host else socket.has_dualstack_ipv6()
        self.socket = socket.create_server(
            (host or '', port), backlog=_MOST_CONNECTIONS,
            family=socket.AF_INET6 if six else socket.AF_INET,
            dualstack_ipv6=not host and six)
        self.server_address = self.socket.getsockname()
        self._thread = threading.Thread(
            target=self.serve_forever, args=(_LOOK_UP,), name='command API',
            daemon=True)

    @property
    def port(self) -> int:
        """The port listened on."""
        return self.socket.getsockname()[1]

    def use_tls(self, certificate_file: str) -> None:
        """Speak TLS from the next connection on.

        :param certificate_file: PEM, certificate and key.
        :raises OSError: it cannot be read or is no certificate.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(certificate_file)
        self._context = context
        self.scheme = 'https'

    def start(self) -> None:
        """Answer from now on, in a thread."""
        self._thread.start()

    def stop(self) -> None:
        """Answer no more."""
        self.shutdown()
        self._thread.join()
        self.server_close()

    def trust(self, connection: socket.socket) -> None:
        """Keep a connection, whoever else comes: it has shown the token."""
        with self._lock:
            self._strangers.pop(connection, None)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Give a connection to a thread, if there is one to spare."""
        if not self._make_room():
            LOG.warning('too many connections; refusing %s',
                        client_address[0])
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:
            self._leave()
            raise

    def _make_room(self) -> bool:
        with self._lock:
            # Those that were cut need a moment to end.
            if self._connections >= 2 * _MOST_CONNECTIONS:
                return False
            if self._connections >= _MOST_CONNECTIONS:
                oldest = next(iter(self._strangers), None)
                if oldest is None:
                    return False
                del self._strangers[oldest]
                _cut(oldest)
            self._connections += 1
            return True

    def _leave(self) -> None:
        with self._lock:
            self._connections -= 1

    def process_request_thread(self, request: Any,
                               client_address: Any) -> None:
        """Answer one connection."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._leave()

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Shake hands, in the connection's own thread, and answer."""
        if self._context is None:
            with self._bounded(request):
                super().finish_request(request, client_address)
            return
        request.settimeout(_SILENCE)
        with (self._context.wrap_socket(
                request, server_side=True,
                do_handshake_on_connect=False) as secured,
              self._bounded(secured)):
            secured.do_handshake()
            super().finish_request(secured, client_address)
            # Says goodbye, so that a reader knows it has all.
            with contextlib.suppress(OSError):
                secured.unwrap()

    @contextlib.contextmanager
    def _bounded(self, connection: socket.socket) -> Iterator[None]:
        """Cut a connection that takes too long, whatever it is doing."""
        cut = threading.Timer(_LONGEST_CONNECTION, _cut, (connection,))
        cut.daemon = True
        with self._lock:
            self._strangers[connection] = None
        cut.start()
        try:
            yield
        finally:
            cut.cancel()
            self.trust(connection)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log a connection that ended badly; it harms nobody else."""
        LOG.debug('connection of %s ended badly', client_address[0],
                  exc_info=True)


def _cut(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        # Not the method of a TLS socket: that is for its own thread only.
        socket.socket.shutdown(connection, socket.SHUT_RDWR)
