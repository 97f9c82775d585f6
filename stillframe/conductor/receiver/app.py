# SPDX-License-Identifier: Apache-2.0
"""Requests to the receiver: who may, what, and the upload itself.

Everything is decided before the first byte of a body is asked for: the
credential, the name, the size, the room. A refusal is a sentence in plain
text, which the agent hands on.
"""

import base64
import binascii
from collections.abc import Callable
from collections.abc import Iterable
import http
from typing import Any
from typing import Protocol

from oslo_log import log

from stillframe.conductor.receiver import dav
from stillframe.conductor.receiver import errors
from stillframe.conductor.receiver import server
from stillframe.conductor.receiver import transfers

LOG = log.getLogger(__name__)

#: The most that an image sent in chunks can become, bytes.
LIMIT = 'HTTP_X_STILLFRAME_LIMIT'

_METHODS = ('DELETE', 'GET', 'HEAD', 'LOCK', 'OPTIONS', 'PROPFIND', 'PUT',
            'UNLOCK')
# A lock on a folder would hold off its own client, once that has crashed.
_OF_THE_NAME = ('DELETE', 'LOCK')
# Of the XML that a WebDAV client sends.
_XML_MAX = 16 << 10
# Where a web server in front asks whether it may take an upload.
_ASKED = '/authorize'

_ONE_NAME = ('This password is good for the name that belongs to it, and no '
             'other.')

StartResponse = Callable[..., Any]


class Store(Protocol):
    """What a request can do to transfers."""

    def find(self, name: str) -> transfers.Transfer | None:
        """Give the transfer of a name."""

    def receive(self, transfer: transfers.Transfer, body: Any,
                total: int | None, limit: int | None,
                cut: Callable[[], None]) -> None:
        """Receive an image.

        :raises ReceiverError: it did not arrive.
        """

    def let_in(self, transfer: transfers.Transfer, total: int | None,
               limit: int | None) -> None:
        """Let a web server in front receive an image.

        :raises ReceiverError: it must not.
        """


class Application:
    """The WSGI application; only under our server.

    :param webdav: the application for everything but PUT.
    """

    def __init__(self, store: Store, webdav: Any,
                 provider: dav.Provider):
        self._store = store
        self._webdav = webdav
        self._provider = provider

    def __call__(self, environ: dict, start_response: StartResponse
                 ) -> Iterable[bytes]:
        """Answer a request."""
        transfer = self._authenticate(environ)
        if transfer is None:
            return _answer(
                start_response, 401, 'This needs the name and the password '
                'that the order of the snapshot names, as long as the '
                'snapshot is not over.',
                ('WWW-Authenticate', 'Basic realm="stillframe"'))
        if environ['PATH_INFO'] == _ASKED:
            return self._let_in(environ, start_response, transfer)
        environ[server.CONNECTION].trust()
        environ[dav.TRANSFER] = transfer
        environ['wsgidav.auth.user_name'] = transfer.name
        method = environ['REQUEST_METHOD']
        if method not in _METHODS:
            return _answer(start_response, 405,
                           f'{method} is not offered here.',
                           ('Allow', ', '.join(_METHODS)))
        if method == 'OPTIONS':
            return _answer(start_response, 200, '', ('DAV', '1,2'),
                           ('Allow', ', '.join(_METHODS)))
        if method == 'PUT':
            return self._put(environ, start_response, transfer)
        if (environ.get('wsgi.input_terminated')
                or int(environ.get('CONTENT_LENGTH') or 0) > _XML_MAX):
            return _answer(start_response, 413,
                           f'The body of a {method} has to say its length, '
                           f'and may have {_XML_MAX} bytes.')
        if method in _OF_THE_NAME and environ['PATH_INFO'] != (
                f'/{dav.FOLDER}/{transfer.name}'):
            return _answer(start_response, 403, _ONE_NAME)
        if method == 'LOCK' and environ.get('CONTENT_LENGTH', '0') != '0':
            self._provider.unlock(transfer.name)
        return self._webdav(environ, start_response)

    def _let_in(self, environ: dict, start_response: StartResponse,
                transfer: transfers.Transfer) -> Iterable[bytes]:
        """Answer a web server in front.

        It can hand on no other status than 403; what its client should get
        is in headers.
        """
        try:
            if environ.get('HTTP_X_ORIGINAL_METHOD') != 'PUT':
                raise errors.Malformed(reason='only PUT is offered here')
            if environ.get('HTTP_X_ORIGINAL_URI') != (
                    f'/{dav.FOLDER}/{transfer.name}'):
                raise errors.Malformed(reason=_ONE_NAME)
            asked: dict[str, Any] = {}
            length = environ.get('HTTP_X_ORIGINAL_LENGTH')
            if length is None:
                asked['wsgi.input_terminated'] = True
            elif not length.isascii() or not length.isdigit():
                raise errors.Malformed(reason='its length is no number')
            else:
                asked['CONTENT_LENGTH'] = length
            self._store.let_in(transfer, *_sizes(
                {LIMIT: environ.get(LIMIT), **asked}))
        except errors.ReceiverError as exc:
            LOG.warning('Transfer of snapshot %s: %s', transfer.snapshot_id,
                        exc)
            return _answer(start_response, 403, '',
                           ('X-Stillframe-Status', str(exc.http_status)),
                           ('X-Stillframe-Reason', exc.message.encode(
                               'ascii', 'replace').decode()))
        return _answer(start_response, 204, '')

    def _authenticate(self, environ: dict) -> transfers.Transfer | None:
        scheme, _, text = environ.get('HTTP_AUTHORIZATION', '').partition(' ')
        if scheme.lower() != 'basic':
            return None
        try:
            given = base64.b64decode(text.strip(), validate=True).decode()
        except (binascii.Error, UnicodeDecodeError):
            return None
        name, _, password = given.partition(':')
        transfer = self._store.find(name)
        if transfer is None or not transfer.knows(password):
            return None
        return transfer

    def _put(self, environ: dict, start_response: StartResponse,
             transfer: transfers.Transfer) -> Iterable[bytes]:
        if environ['PATH_INFO'] != f'/{dav.FOLDER}/{transfer.name}':
            return _answer(start_response, 403, _ONE_NAME)
        for header in ('CONTENT_RANGE', 'CONTENT_ENCODING'):
            if f'HTTP_{header}' in environ:
                return _answer(start_response, 400, 'An image is sent whole '
                               'and as it is: without '
                               f'{header.title().replace("_", "-")}.')
        if not _holds(environ, transfer):
            return _answer(start_response, 412, 'The image that is here is '
                           'not the one that the request expects.')
        existed = transfer.sha256 is not None
        body = environ['wsgi.input']
        connection = environ[server.CONNECTION]
        try:
            total, limit = _sizes(environ)
            self._store.receive(transfer, body, total, limit, connection.cut)
        except errors.ReceiverError as exc:
            LOG.warning('Transfer of snapshot %s: %s', transfer.snapshot_id,
                        exc)
            return _answer(start_response, exc.http_status, exc.message)
        return _answer(start_response, 204 if existed else 201, '',
                       ('ETag', f'"{transfer.sha256}"'),
                       ('X-Stillframe-Size', str(transfer.size)),
                       ('X-Stillframe-Sha256', transfer.sha256 or ''))


def _sizes(environ: dict) -> tuple[int | None, int | None]:
    """Give the length that is announced, and the bound that is.

    :raises SizeUnknown: neither is.
    """
    if not environ.get('wsgi.input_terminated'):
        if 'CONTENT_LENGTH' not in environ:
            raise errors.SizeUnknown()
        return (length := int(environ['CONTENT_LENGTH'])), length
    text = environ.get(LIMIT)
    if text is None:
        return None, None
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise errors.Malformed(reason='X-Stillframe-Limit is no number')
    return None, int(text)


def _holds(environ: dict, transfer: transfers.Transfer) -> bool:
    """Tell whether a request's conditions hold: RFC 9110, section 13.1."""
    wanted = environ.get('HTTP_IF_MATCH')
    shown = transfer.sha256 is not None or transfer.locked
    if wanted is not None and not (
            shown and _matches(wanted, dav.etag(transfer))):
        return False
    unwanted = environ.get('HTTP_IF_NONE_MATCH')
    # The empty file of a lock is there to be filled.
    return unwanted is None or transfer.sha256 is None or not _matches(
        unwanted, dav.etag(transfer))


def _matches(text: str, etag: str) -> bool:
    tags = [one.strip().removeprefix('W/') for one in text.split(',')]
    return '*' in tags or f'"{etag}"' in tags


def _answer(start_response: StartResponse, status: int, text: str,
            *headers: tuple[str, str]) -> Iterable[bytes]:
    data = f'{text}\n'.encode() if text else b''
    length = [] if status == 204 else [('Content-Length', str(len(data)))]
    start_response(
        f'{status} {http.HTTPStatus(status).phrase}',
        [('Content-Type', 'text/plain; charset=utf-8'), *length, *headers])
    return [data] if data else []
