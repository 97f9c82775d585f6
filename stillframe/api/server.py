# SPDX-License-Identifier: Apache-2.0
"""The API as a service of a process: the WSGI application under cheroot.

For one machine, or behind a proxy. Elsewhere any WSGI server takes
``stillframe.api.wsgi``.

cheroot lends a thread to a connection as soon as it is made, and lets the
client take its time: eight that say nothing would silence the API. Here a
connection waits with the selector, which costs no thread, until its request
has arrived whole.
"""

from collections.abc import Callable
import contextlib
import logging
import socket
import threading
from typing import Any

from cheroot import server as cheroot_server
from cheroot import wsgi
from oslo_config import cfg
from oslo_log import log

from stillframe import exceptions
from stillframe.api import arrivals
from stillframe.api import errors

LOG = log.getLogger(__name__)

# Seconds that requests in hand get to finish when the service stops.
_STOP_TIMEOUT = 5

# Connections at once that wait for a request, or for the rest of one. One
# more costs the one that has waited longest: a request that arrives at once
# is not kept out by those that never do, and there are file handles left
# for the worker in the same process. Those whose request has arrived do not
# count: they are answered, however many come at once.
_MOST_WAITING = 256

# What is answered to what is not read at all.
_REFUSALS = {
    arrivals.Arrival.MALFORMED: (
        '400 Bad Request',
        'The request is not HTTP as it has to be: a line end, a header, the '
        'Content-Length or a chunk of the body is malformed.'),
    arrivals.Arrival.HEAD_TOO_LARGE: (
        '431 Request Header Fields Too Large',
        f'The address and the headers of the request are larger than '
        f'{arrivals.HEAD_MAX} bytes, which is the most that is taken.'),
    arrivals.Arrival.BODY_TOO_LARGE: (
        '413 Request Entity Too Large', errors.TooLarge.template),
}


class _Connection(cheroot_server.HTTPConnection):
    """Knows how long it has waited, and is counted while it waits."""

    #: Bytes of its request that have been seen; None: nothing was asked.
    seen: int | None = None
    #: It had to make room; what it sent is not answered any more.
    expelled = False
    #: It was told to send the body.
    invited = False
    #: It got its answer, and what it still sends is thrown away.
    refused = False

    def close(self) -> None:
        self.server.forget(self)
        super().close()


class _Server(wsgi.Server):
    """Gives whole requests to its threads; errors go to our log."""

    ConnectionClass = _Connection

    def __init__(self, *args: Any, body_max: int, **more: Any):
        super().__init__(*args, **more)
        self._body_max = body_max
        # In the order in which they began to wait.
        self._waiting: dict[_Connection, None] = {}
        self._waiting_lock = threading.Lock()

    def error_log(self, msg: str = '', level: int = logging.INFO,
                  traceback: bool = False) -> None:
        LOG.log(level, msg, exc_info=traceback)

    def process_conn(self, conn: _Connection) -> None:
        """Take a connection that is new or has something to read."""
        if conn.seen is None:
            self.put_conn(conn)
            return
        try:
            self._look(conn)
        except OSError as exc:
            LOG.debug('A client is gone: %s', exc)
            conn.close()

    def put_conn(self, conn: _Connection) -> None:
        """Let a connection wait for its (next) request."""
        if conn.rfile.has_data():
            # Sent ahead of the answer, or left of a body that nobody
            # wanted; the selector would not tell of it.
            conn.close()
            return
        conn.seen = 0
        conn.invited = False
        self._admit(conn)
        super().put_conn(conn)

    def _look(self, conn: _Connection) -> None:
        """See what has arrived of a request, without taking it."""
        if conn.refused:
            if conn.socket.recv(1 << 16):
                self._wait_on(conn, 0)
            else:
                conn.close()
            return
        seen = conn.socket.recv(arrivals.most(self._body_max),
                                socket.MSG_PEEK)
        arrival = arrivals.judge(seen, self._body_max)
        if not seen or conn.expelled:
            conn.close()
        elif arrival in _REFUSALS:
            self._refuse(conn, *_REFUSALS[arrival])
        elif arrival is arrivals.Arrival.PART and len(seen) != conn.seen:
            # The selector tells when there is more, or no more comes.
            _wake_at(conn, len(seen) + 1)
            if not conn.invited and arrivals.is_invited(seen):
                conn.socket.sendall(b'HTTP/1.1 100 Continue\r\n\r\n')
                conn.invited = True
            self._wait_on(conn, len(seen))
        else:
            _wake_at(conn, 1)
            self.forget(conn)
            super().process_conn(conn)

    def _wait_on(self, conn: _Connection, seen: int) -> None:
        """Let a connection wait, with no more time than it has left."""
        since, invited = conn.last_used, conn.invited
        self.put_conn(conn)
        conn.seen, conn.last_used, conn.invited = seen, since, invited

    def _refuse(self, conn: _Connection, status: str, text: str) -> None:
        """Answer what is not read.

        Closed at once it would be reset, and the answer lost on its way.
        """
        body = errors.document(int(status[:3]),
                               text.format(limit=self._body_max))
        head = (f'HTTP/1.1 {status}\r\nContent-Type: application/json\r\n'
                f'Content-Length: {len(body)}\r\nConnection: close\r\n\r\n')
        conn.socket.sendall(head.encode('ascii') + body)
        conn.socket.shutdown(socket.SHUT_WR)
        _wake_at(conn, 1)
        conn.refused = True
        self._wait_on(conn, 0)

    def _admit(self, conn: _Connection) -> None:
        """Count a connection that waits, and make room for it."""
        with self._waiting_lock:
            # One that waits already keeps its place.
            self._waiting[conn] = None
            if len(self._waiting) <= _MOST_WAITING:
                return
            longest = next(iter(self._waiting))
            del self._waiting[longest]
            longest.expelled = True
        # The selector tells of it, and it is closed there.
        with contextlib.suppress(OSError):
            longest.socket.shutdown(socket.SHUT_RDWR)

    def forget(self, conn: _Connection) -> None:
        """Count a connection no more: it is served, or closed."""
        with self._waiting_lock:
            self._waiting.pop(conn, None)


def _wake_at(conn: _Connection, count: int) -> None:
    """Have the selector tell when so many bytes can be read."""
    conn.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, count)


class ApiServer:
    """Listens on [api]host and [api]port."""

    name = 'the API'

    def __init__(self, conf: cfg.ConfigOpts,
                 app: Callable[..., Any]):
        self._conf = conf
        self._server = _Server(
            (conf.api.host, conf.api.port), app,
            numthreads=conf.api.threads, request_queue_size=128,
            server_name='stillframe', shutdown_timeout=_STOP_TIMEOUT,
            body_max=conf.api.max_request_body)
        # Behind what arrivals judges; cheroot's own default is no limit.
        self._server.keep_alive_conn_limit = _MOST_WAITING
        self._server.max_request_header_size = 2 * arrivals.HEAD_MAX
        self._server.max_request_body_size = 2 * conf.api.max_request_body
        self._thread = threading.Thread(
            target=self._server.serve, name='api-accept', daemon=True)

    @property
    def url(self) -> str:
        """Where it listens, once it was started."""
        host, port = self._server.bind_addr[:2]
        if ':' in host:
            host = f'[{host}]'
        return f'http://{host}:{port}'

    def start(self) -> None:
        """Listen and serve.

        :raises CannotListen: the address cannot be listened on.
        """
        try:
            self._server.prepare()
        except OSError as exc:
            raise exceptions.CannotListen(
                host=self._conf.api.host, port=self._conf.api.port,
                reason=exc) from exc
        self._thread.start()

    def stop(self) -> None:
        """Take no more requests and finish those in hand."""
        self._server.stop()
        self._thread.join(_STOP_TIMEOUT)
