# SPDX-License-Identifier: Apache-2.0
"""One HTTP request to somebody whose certificate is known beforehand.

The agent makes its certificate at each start and signs it itself; its
clock, and the address in it, may be wrong. So what counts is that it is the
very certificate that was reported. Nothing is sent before that is known.
"""

from collections.abc import Iterator
import contextlib
from dataclasses import dataclass
import http.client
import socket
import ssl
import threading
from urllib import parse

#: Longest answer in bytes. An inventory has some 100 KiB.
LIMIT = 16 << 20


class NotPinned(Exception):
    """The other side has another certificate."""


class NoAnswer(Exception):
    """There was no answer, or not in time. The text has no address."""


class Nonsense(Exception):
    """The answer is no HTTP, or has no end."""


@dataclass(frozen=True)
class Request:
    """What is sent.

    :ivar base: scheme, host, port, and path to put in front.
    :ivar path: after that; its query may hold secrets, so it is never
        logged and in no error.
    :ivar pem: the certificate; None for one that the system trusts.
    """

    method: str
    base: str
    path: str
    body: bytes | None
    pem: str | None


def send(request: Request, connect_timeout: float,
         timeout: float) -> tuple[int, bytes]:
    """Send a request and read the answer.

    :param connect_timeout: seconds for a connection.
    :param timeout: seconds for all that follows.
    :return: status and body.
    :raises NotPinned: see there.
    :raises NoAnswer: see there.
    :raises Nonsense: see there.
    """
    try:
        parts = parse.urlsplit(request.base)
        host, port = parts.hostname or '', parts.port
    except ValueError:
        raise Nonsense('its address is none') from None
    port = port or (443 if parts.scheme == 'https' else 80)
    path = parts.path.rstrip('/') + request.path
    if not path.isascii() or not path.isprintable() or ' ' in path:
        raise Nonsense('its address is none')
    headers = {'Accept': 'application/json', 'Connection': 'close'}
    if request.body is not None:
        headers['Content-Type'] = 'application/json'
    connection = http.client.HTTPConnection(host, port)
    try:
        with (socket.create_connection((host, port), connect_timeout) as raw,
              _bounded(raw, timeout),
              _secured(raw, parts.scheme, host, request.pem) as sock):
            connection.sock = sock
            connection.request(request.method, path, request.body, headers)
            answer = connection.getresponse()
            body = answer.read(LIMIT + 1)
            if answer.length and len(body) <= LIMIT:
                raise NoAnswer('the connection broke')
    except ssl.SSLCertVerificationError as exc:
        raise NotPinned(exc.verify_message) from exc
    except TimeoutError:
        raise NoAnswer('not in time') from None
    except http.client.IncompleteRead:
        raise NoAnswer('the connection broke') from None
    except (http.client.RemoteDisconnected, ConnectionError) as exc:
        # The text of an HTTPException may have the path in it.
        raise NoAnswer(exc.strerror or 'the connection broke') from None
    except http.client.HTTPException:
        raise Nonsense('it does not speak HTTP') from None
    except ssl.SSLError as exc:
        raise NoAnswer(f'TLS failed: {exc.reason}') from exc
    except OSError as exc:
        raise NoAnswer(exc.strerror or type(exc).__name__) from exc
    if len(body) > LIMIT:
        raise Nonsense('its answer has no end')
    return answer.status, body


@contextlib.contextmanager
def _bounded(sock: socket.socket, seconds: float) -> Iterator[None]:
    """Cut a connection when time is up, whatever it is doing.

    :raises TimeoutError: it was.
    """
    late = threading.Event()

    def cut() -> None:
        late.set()
        with contextlib.suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)

    # So that a read which waits ends by itself, too.
    sock.settimeout(seconds)
    timer = threading.Timer(seconds, cut)
    timer.daemon = True
    timer.start()
    try:
        yield
    except (OSError, http.client.HTTPException):
        if not late.is_set():
            raise
    finally:
        timer.cancel()
    if late.is_set():
        # What was read up to the cut may look whole.
        raise TimeoutError


@contextlib.contextmanager
def _secured(sock: socket.socket, scheme: str, host: str,
             pem: str | None) -> Iterator[socket.socket]:
    if scheme != 'https':
        yield sock
        return
    if pem is None:
        context = ssl.create_default_context()
    else:
        expected = _der(pem)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        # Instead, the whole certificate is compared below.
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    # A duplicate, so that whoever opened the socket may still cut it.
    with context.wrap_socket(sock.dup(), server_hostname=host) as secured:
        if pem is not None and secured.getpeercert(True) != expected:
            raise NotPinned('it is another one')
        yield secured


def _der(pem: str) -> bytes:
    """Give the first certificate of a PEM text."""
    begin = pem.find(ssl.PEM_HEADER)
    end = pem.find(ssl.PEM_FOOTER, begin)
    try:
        return ssl.PEM_cert_to_DER_cert(
            pem[begin:end + len(ssl.PEM_FOOTER)].strip())
    except ValueError:
        raise NotPinned('the one reported cannot be read') from None
