# SPDX-License-Identifier: Apache-2.0
"""cheroot as the server of the receiver: TLS, bounds, bodies of our own.

A connection has a thread as long as a request of it is in hand; there are
as many threads as connections. Until a request has shown a valid credential
its connection lives on borrowed time: it is closed after a while, or when
room is needed for another one.

cheroot would shake hands in the thread that accepts, invite a body before
anybody looked at the request, and read what is left of one that was refused
to its end. Not here.
"""

from collections.abc import Callable
import contextlib
import logging
import socket
import ssl
import threading
import time
from typing import Any

from cheroot import makefile
from cheroot import server as cheroot_server
from cheroot import ssl as cheroot_ssl
from cheroot import wsgi
from oslo_log import log

from stillframe import service
from stillframe.conductor.receiver import body as bodies

LOG = log.getLogger(__name__)

#: Where a request finds its connection.
CONNECTION = 'stillframe.connection'

_HEAD_MAX = 16 << 10
_STOP_TIMEOUT = 5
# Headers of which nobody could say which one counts.
_ONCE = frozenset((b'Authorization', b'Content-Length', b'Host',
                   b'X-Stillframe-Limit'))
# What a client that was refused gets to read its answer, while what it
# still sends is thrown away: seconds, and bytes.
_LINGER = 2.0
_LINGER_BYTES = 64 << 20


class _Tls(cheroot_ssl.Adapter):
    """Wraps connections; hands are shaken later, in a thread of their own."""

    def __init__(self, context: ssl.SSLContext):
        self.context = context

    def bind(self, sock: socket.socket) -> socket.socket:
        """Nothing is to be done with the socket that listens."""
        return sock

    def wrap(self, sock: socket.socket) -> tuple[ssl.SSLSocket, dict]:
        """Wrap a connection that was accepted."""
        return self.context.wrap_socket(
            sock, server_side=True, do_handshake_on_connect=False), {}

    def get_environ(self) -> dict:
        """Nothing of the handshake is of interest."""
        return {}

    def makefile(self, sock: socket.socket, mode: str = 'r',
                 bufsize: int = -1) -> Any:
        """Give a file for the heads of requests."""
        return makefile.MakeFile(sock, mode, bufsize)


class _Once(dict[bytes, bytes]):
    """Headers, some of which come once or not at all."""

    def __setitem__(self, name: bytes, value: bytes) -> None:
        if name in _ONCE and name in self:
            raise ValueError(f'{name.decode()} is there twice, or on more '
                             'than one line.')
        super().__setitem__(name, value)


class _Headers(cheroot_server.HeaderReader):
    """Reads headers; keeps what would be acted on too early.

    Of a header that comes twice cheroot believes the last, and whoever is
    in front may believe the first (RFC 9112, section 6.3).
    """

    def __call__(self, rfile: Any, hdict: Any = None) -> Any:
        found = {} if hdict is None else hdict
        try:
            found.update(super().__call__(rfile, _Once()))
        except UnboundLocalError:
            # cheroot continues a header that is not there.
            raise ValueError('The first header begins with a blank.'
                             ) from None
        expected = found.pop(b'Expect', None)
        if expected is not None:
            found[b'X-Expect'] = expected
        return found

    def _allow_header(self, name: bytes) -> bool:
        # WSGI could not tell it from one with a hyphen.
        return b'_' not in name


class _Request(cheroot_server.HTTPRequest):
    """Gives the application a body of ours."""

    header_reader = _Headers()
    body: bodies.Body | None = None

    def respond(self) -> None:
        length = self.inheaders.get(b'Content-Length')
        # HTTP/1.0 has no Transfer-Encoding: RFC 9112, section 6.1.
        encoded = b'Transfer-Encoding' in self.inheaders
        if (encoded and not self.chunked_read) or length is not None and (
                encoded or not length.isdigit()):
            self.close_connection = True
            self.simple_response(
                '400 Bad Request', 'The length of the body is not clear.')
            return
        invited = self.inheaders.get(b'X-Expect', b'').lower()
        self.body = bodies.Body(
            self.conn.receive, self.conn.read_ahead(),
            None if self.chunked_read else int(length or 0),
            self._invite if invited == b'100-continue' else None)
        self.rfile = self.body
        self.server.gateway(self).respond()
        if self.ready:
            self.ensure_headers_sent()
        if self.chunked_write:
            self.conn.wfile.write(b'0\r\n\r\n')

    def _invite(self) -> None:
        self.conn.wfile.write(b'HTTP/1.1 100 Continue\r\n\r\n')

    def simple_response(self, status: str, msg: str = '') -> None:
        # All that cheroot answers by itself ends the connection.
        self.conn.unread = True
        super().simple_response(status, msg)

    def send_headers(self) -> None:
        if self.body is None or not self.body.ended or self.body.ahead:
            # What comes next would be taken for a request.
            self.close_connection = True
            self.conn.unread = True
        super().send_headers()


class Connection(cheroot_server.HTTPConnection):
    """A connection, its deadline, and the ways to end it.

    :ivar unread: the client may still be sending what nobody reads.
    """

    RequestHandlerClass = _Request

    def __init__(self, *args: Any, **more: Any):
        super().__init__(*args, **more)
        self.unread = False
        self.since = time.monotonic()
        self._deadline: float | None = None
        self._shaken = not isinstance(self.socket, ssl.SSLSocket)

    @property
    def trusted(self) -> bool:
        """Whether a request with a valid credential is in hand."""
        return self._deadline is None

    def trust(self) -> None:
        """Give a request all the time that it needs."""
        self._deadline = None

    def overdue(self, now: float) -> bool:
        """Tell whether it had its time."""
        return self._deadline is not None and now > self._deadline

    def wait_for_request(self) -> None:
        """Begin to count the time until the next request."""
        self.since = time.monotonic()
        self._deadline = self.since + self.server.request_timeout

    def communicate(self) -> bool:
        """Serve one request; see cheroot.

        :return: whether the connection may be used again.
        """
        self.wait_for_request()
        try:
            if not self._shaken:
                self.socket.do_handshake()
                self._shaken = True
            return super().communicate()
        except OSError as exc:
            LOG.debug('A client of the receiver is gone: %s', exc)
            return False

    def receive(self, into: memoryview) -> int:
        """Take from the connection what is there, at least a byte."""
        return self.socket.recv_into(into)

    def read_ahead(self) -> bytes:
        """Take what was read together with the head."""
        if not self.rfile.has_data():
            return b''
        return self.rfile.read(len(self.rfile.peek(1)))

    def cut(self) -> None:
        """End it at once; whoever reads from it learns of it.

        Not by the method of TLS sockets, which takes their state away from
        a thread that is reading.
        """
        with contextlib.suppress(OSError):
            socket.socket.shutdown(self.socket, socket.SHUT_RDWR)

    def close(self) -> None:
        """Close it, such that an answer on its way is not lost."""
        self.server.forget(self)
        try:
            if self.unread:
                self._linger()
        finally:
            super().close()

    def _linger(self) -> None:
        """Throw away what comes; closed at once it would be reset."""
        until, count = time.monotonic() + _LINGER, 0
        raw = socket.socket
        with contextlib.suppress(OSError):
            raw.shutdown(self.socket, socket.SHUT_WR)
            while (left := until - time.monotonic()) > 0:
                self.socket.settimeout(left)
                got = len(raw.recv(self.socket, 1 << 16))
                count += got
                if not got or count > _LINGER_BYTES:
                    return


class _Gateway(wsgi.Gateway_10):
    """Tells the application of its connection."""

    def get_environ(self) -> Any:
        environ: Any = super().get_environ()
        environ[CONNECTION] = self.req.conn
        return environ


class Server(wsgi.Server):
    """Listens; see the module.

    :param address: host and port.
    :param context: TLS; None: plain HTTP.
    :param connections: most at once.
    :param request_timeout: seconds until a valid credential.
    :param silence_timeout: seconds between two bytes.
    """

    ConnectionClass = Connection

    def __init__(self, address: tuple[str, int],
                 app: Callable[..., Any], context: ssl.SSLContext | None,
                 connections: int, request_timeout: float,
                 silence_timeout: float):
        super().__init__(
            address, app, numthreads=connections, request_queue_size=128,
            server_name='stillframe', shutdown_timeout=_STOP_TIMEOUT)
        self.timeout = silence_timeout
        self.gateway = _Gateway
        self.request_timeout = request_timeout
        self.max_request_header_size = _HEAD_MAX
        self.keep_alive_conn_limit = connections
        if context is not None:
            self.ssl_adapter = _Tls(context)
        self._most = connections
        self._open: dict[Connection, None] = {}
        self._open_lock = threading.Lock()
        self._thread = threading.Thread(
            target=self.serve, name='receiver-accept', daemon=True)
        self._watch = service.Periodic(
            'receiver-watch', self._look, lambda: 1.0)

    def start_serving(self) -> None:
        """Listen and serve.

        :raises OSError: the address cannot be listened on.
        """
        self.prepare()
        self._thread.start()
        self._watch.start()

    def stop_serving(self) -> None:
        """Serve no more; requests in hand are cut off."""
        self._watch.stop()
        with self._open_lock:
            left = list(self._open)
        for conn in left:
            conn.cut()
        self.stop()
        self._thread.join(_STOP_TIMEOUT)

    def error_log(self, msg: str = '', level: int = logging.INFO,
                  traceback: bool = False) -> None:
        """Write to our log what cheroot has to say."""
        if msg.startswith('socket.error'):
            # A client went away before it had its answer.
            level, traceback = logging.DEBUG, False
        LOG.log(level, 'receiver: %s', msg, exc_info=traceback)

    def process_conn(self, conn: Connection) -> None:
        """Take a connection that is new or has something to read."""
        if conn not in self._open:
            conn.wait_for_request()
            if not self._admit(conn):
                conn.close()
                return
        super().process_conn(conn)

    def put_conn(self, conn: Connection) -> None:
        """Let a connection wait for its next request."""
        conn.wait_for_request()
        if isinstance(conn.socket, ssl.SSLSocket) and conn.socket.pending():
            # The selector would not tell of what is decrypted already.
            super().process_conn(conn)
            return
        super().put_conn(conn)

    def _admit(self, conn: Connection) -> bool:
        """Count a new connection, and make room for it."""
        with self._open_lock:
            self._open[conn] = None
            if len(self._open) <= self._most:
                return True
            others = [one for one in self._open
                      if not one.trusted and one is not conn]
            longest = min(others, key=lambda one: one.since, default=None)
            if longest is None:
                del self._open[conn]
                return False
            del self._open[longest]
        longest.cut()
        return True

    def forget(self, conn: Connection) -> None:
        """Count a connection no more; it is being closed."""
        with self._open_lock:
            self._open.pop(conn, None)

    def _look(self) -> None:
        """Cut off connections that had their time."""
        now = time.monotonic()
        with self._open_lock:
            late = [one for one in self._open if one.overdue(now)]
        for conn in late:
            conn.cut()
