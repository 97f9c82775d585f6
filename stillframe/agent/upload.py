# SPDX-License-Identifier: Apache-2.0
"""One HTTP PUT: the image on its way to the receiver.

Its length is announced, or else what it will not exceed. The receiver may
refuse before the first byte (``Expect: 100-continue``), and what it says
when it breaks off is read and told. No redirection is followed and no proxy
is used: the credential is for the one address of the order.
"""

from collections.abc import Callable
import contextlib
import http.client
import socket
import ssl
import threading
import time
import urllib.parse

from stillframe.agent import credentials
from stillframe.agent import failures
from stillframe.agent import orders

#: Header with the bytes that an image of unknown length will not exceed.
LIMIT = 'X-Stillframe-Limit'

# Bytes of one call: so much has to move within the time-out.
_SLICE = 256 << 10
# Seconds that a receiver has to refuse before the first byte; one that
# does not know of the question says nothing.
_EXPECT_SECONDS = 2.0
_REASON = 200
_PORTS = {'http': 80, 'https': 443}
_MOST_HEADER = 64 << 10


class Put:
    """A PUT that is written piece by piece.

    ``with Put(order) as put: put.begin(...); put.write(...); put.end()``

    :ivar sent: bytes of the image that were written.
    """

    def __init__(self, order: orders.Order):
        """Prepare; nothing is sent yet.

        :raises BadOrder: the order's certificates are none.
        """
        self._order = order
        self._stopping = threading.Event()
        self._connected = False
        self._chunked = False
        self._began = 0.0
        self.sent = 0
        url = urllib.parse.urlsplit(order.url)
        self._path = url.path + (f'?{url.query}' if url.query else '')
        self._context = credentials.context(order)
        self._connection = http.client.HTTPConnection(
            url.hostname or '', url.port or _PORTS[url.scheme])

    def __enter__(self) -> 'Put':
        return self

    def __exit__(self, *_exc: object) -> None:
        self._connection.close()

    def stop(self) -> None:
        """Cut the connection, from another thread."""
        self._stopping.set()
        # There since before hands were shaken.
        sock = self._connection.sock
        if sock is not None:
            with contextlib.suppress(OSError):
                # Below TLS: it has no say in this.
                socket.socket.shutdown(sock, socket.SHUT_RDWR)

    def begin(self, length: int | None, limit: int) -> None:
        """Connect, and announce the image.

        :param length: its bytes; None when they are not known.
        :param limit: bytes that it will not exceed.
        :raises SendFailed: the receiver cannot be reached, or refuses.
        :raises Stopped: :meth:`stop` was called.
        """
        connection = self._connection
        with self._translated():
            self._connect()
            self._connected = True
            connection.putrequest('PUT', self._path or '/',
                                  skip_accept_encoding=True)
            for name, value in credentials.authorization(
                    self._order).items():
                connection.putheader(name, value)
            connection.putheader('Content-Type', 'application/octet-stream')
            connection.putheader('Expect', '100-continue')
            connection.putheader(LIMIT, str(limit))
            if length is None:
                self._chunked = True
                connection.putheader('Transfer-Encoding', 'chunked')
            else:
                connection.putheader('Content-Length', str(length))
            connection.endheaders()
            self._wait_for_leave()
        self._began = time.monotonic()

    def _connect(self) -> None:
        """Connect, so that it can be cut at any moment."""
        connection = self._connection
        plain = socket.create_connection(
            (connection.host, connection.port), self._order.timeout)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.sock = plain
        if self._context is None:
            self._check()
            return
        # What is wrapped is of no use any more, before hands are shaken.
        wrapped = self._context.wrap_socket(
            plain, server_hostname=connection.host,
            do_handshake_on_connect=False)
        connection.sock = wrapped
        self._check()
        wrapped.do_handshake()

    def _wait_for_leave(self) -> None:
        """Wait for the receiver's answer to the headers, for a moment."""
        sock = self._connection.sock
        sock.settimeout(min(_EXPECT_SECONDS, self._order.timeout))
        head = b''
        try:
            # One by one: what comes behind is the final answer.
            while not head.endswith(b'\r\n\r\n'):
                byte = sock.recv(1)
                if not byte or len(head) > _MOST_HEADER:
                    raise failures.SendFailed(
                        'The receiver closed the connection before it got '
                        'anything.')
                head += byte
        except TimeoutError:
            if head:
                raise
        finally:
            sock.settimeout(self._order.timeout)
        if head:
            status = _status(head)
            if status >= 200:
                raise _refused(status, self._said(head))

    def _said(self, head: bytes) -> str:
        """Read why the receiver refuses, behind the head of its answer."""
        length = 0
        for line in head.lower().split(b'\r\n'):
            name, _, value = line.partition(b':')
            if name == b'content-length' and value.strip().isdigit():
                length = int(value)
        said = b''
        with contextlib.suppress(OSError):
            while len(said) < min(length, _REASON):
                more = self._connection.sock.recv(_REASON - len(said))
                if not more:
                    break
                said += more
        return said.decode('utf-8', 'replace')

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send a piece.

        :raises SendFailed: the receiver broke off, or takes nothing.
        :raises Stopped: :meth:`stop` was called.
        """
        view = memoryview(data)
        with self._translated():
            if self._chunked and view:
                self._send(b'%x\r\n' % len(view))
            for at in range(0, len(view), _SLICE):
                self._send(view[at:at + _SLICE])
                self.sent += min(_SLICE, len(view) - at)
                self._hold_back()
            if self._chunked and view:
                self._send(b'\r\n')

    def _send(self, view: bytes | memoryview) -> None:
        """Send all of it; the time-out is for each part that moves."""
        sock = self._connection.sock
        self._check()
        while view:
            view = view[sock.send(view):]

    def _hold_back(self) -> None:
        """Wait as the limit of the bandwidth demands."""
        if self._order.bandwidth:
            due = self._began + self.sent / self._order.bandwidth
            self._stopping.wait(max(0.0, due - time.monotonic()))

    def end(self) -> None:
        """Say that this was all, and hear that it arrived.

        :raises SendFailed: it did not.
        :raises Stopped: :meth:`stop` was called.
        """
        with self._translated():
            if self._chunked:
                self._send(b'0\r\n\r\n')
            status, reason = self._answer()
        if status not in (200, 201, 204):
            raise _refused(status, reason)

    def _answer(self) -> tuple[int, str]:
        """Read the final answer; 0 for none."""
        response = http.client.HTTPResponse(self._connection.sock,
                                            method='PUT')
        try:
            response.begin()
            body = response.read(_REASON) if response.status >= 300 else b''
        finally:
            response.close()
        return response.status, body.decode('utf-8', 'replace')

    def _check(self) -> None:
        if self._stopping.is_set():
            raise failures.Stopped('The stream was stopped.')

    @contextlib.contextmanager
    def _translated(self):
        """Turn what a connection raises into what we do."""
        try:
            yield
        except (OSError, http.client.HTTPException) as exc:
            self._check()
            raise self._failed(exc) from exc

    def _failed(self, exc: Exception) -> failures.SendFailed:
        if isinstance(exc, ssl.SSLCertVerificationError):
            return failures.SendFailed(
                "The receiver's certificate is not trusted: "
                f'{exc.verify_message}.')
        if isinstance(exc, TimeoutError):
            return failures.SendFailed(
                f'The receiver took nothing for {self._order.timeout:g} s, '
                f'after {self.sent} bytes.')
        if not self._connected:
            return failures.SendFailed(
                f'The receiver cannot be reached: {_words(exc)}.')
        # It may have said why, before it broke off.
        with contextlib.suppress(OSError, http.client.HTTPException):
            status, reason = self._answer()
            if status >= 300:
                return _refused(status, reason)
        return failures.SendFailed(
            f'The receiver broke off after {self.sent} bytes: '
            f'{_words(exc)}.')


def _status(head: bytes) -> int:
    """Read the status out of an answer's head."""
    words = head.split(None, 2)
    if len(words) < 2 or not words[0].startswith(b'HTTP/1.') or (
            not words[1].isdigit()):
        raise failures.SendFailed('The receiver does not speak HTTP.')
    return int(words[1])


def _refused(status: int, reason: str) -> failures.SendRefused:
    words = ' '.join(''.join(
        one if one.isprintable() else ' ' for one in reason).split())
    more = f': {words}' if words else '.'
    return failures.SendRefused(
        f'The receiver refused the image with HTTP {status}{more}', status)


def _words(exc: Exception) -> str:
    return getattr(exc, 'strerror', None) or type(exc).__name__


#: Told the bytes that were sent, and those that there are, if known.
Progress = Callable[[int, int | None], None]
