# SPDX-License-Identifier: Apache-2.0
"""Errors of the API itself, and how errors are written.

In the compute dialect, and where no dialect is spoken, the body is
``{"<name>": {"code": N, "message": "..."}}``; clients take the name for
granted and read the message. For the bare-metal dialect see
:mod:`stillframe.api.baremetal_errors`.
"""

from collections.abc import Iterable
import http
import json

import webob

from stillframe import exceptions
from stillframe.api import baremetal_errors
from stillframe.api import dialects

_NAMES = {
    400: 'badRequest',
    401: 'unauthorized',
    403: 'forbidden',
    404: 'itemNotFound',
    405: 'badMethod',
    409: 'conflictingRequest',
    413: 'overLimit',
    415: 'badMediaType',
    429: 'overLimit',
    501: 'notImplemented',
    503: 'serviceUnavailable',
}

#: Seconds after which a client may try again when a service that we need
#: is away: a broker or database that restarts is back by then.
RETRY_AFTER = 5

INTERNAL = (
    'An unexpected error happened in the API. The log of the service has '
    'the details under the request id of this answer; give that id to your '
    'administrator.')


class NoSuchPath(exceptions.NotFound):
    """Nothing is at this path, whatever the method."""

    template = 'The resource could not be found.'
    form = baremetal_errors.Form.UNROUTED


class NoSuchMethod(exceptions.StillframeError):
    """The resource exists but not for this HTTP method."""

    form = baremetal_errors.Form.UNROUTED

    template = 'The method {method} is not allowed for this resource.'
    http_status = 405
    code = 'stillframe.method_not_allowed'

    def __init__(self, method: str, allowed: Iterable[str]):
        super().__init__(method=method)
        self.headers = {'Allow': ', '.join(sorted(allowed))}


class TooLarge(exceptions.StillframeError):
    """The request's body is larger than is taken."""

    template = ('The request body is larger than {limit} bytes, which is '
                'the most that is taken.')
    http_status = 413
    code = 'stillframe.request_too_large'


class UnsupportedType(exceptions.StillframeError):
    """The request's body is in a format that is not spoken here."""

    template = ('Unsupported Content-Type {got}: send the body as '
                'application/json.')
    http_status = 415
    code = 'stillframe.unsupported_type'


class Unauthorized(exceptions.StillframeError):
    """Nobody, or somebody with a wrong password."""

    template = 'The request you have made requires authentication.'
    http_status = 401
    code = 'stillframe.unauthorized'
    form = baremetal_errors.Form.CREDENTIALS

    def __init__(self, challenge: str):
        super().__init__()
        self.headers = {'WWW-Authenticate': challenge}


class BadCredentials(exceptions.BadRequest):
    """The header with name and password is not as it has to be."""

    form = baremetal_errors.Form.CREDENTIALS


def document(status: int, message: str) -> bytes:
    """Write the body of an error, as the compute dialect has it."""
    name = _NAMES.get(status, 'computeFault')
    inner: dict[str, object] = {'code': status, 'message': message}
    if status in (413, 429):
        inner['retryAfter'] = 0
    return json.dumps({name: inner}).encode('ascii')


def response(error: exceptions.StillframeError,
             path: str) -> webob.Response:
    """Write an error of ours as a response; 500s do not say what it was.

    :param path: of the request: it tells the dialect.
    """
    status = error.http_status
    message = INTERNAL if status == 500 else error.message
    headers = [('Content-Type', 'application/json')]
    headers.extend(getattr(error, 'headers', {}).items())
    if status == 503:
        headers.append(('Retry-After', str(RETRY_AFTER)))
    if dialects.of(path) is dialects.Dialect.BAREMETAL:
        body = baremetal_errors.document(status, message, getattr(
            error, 'form', baremetal_errors.Form.CONTROLLER))
    else:
        body = document(status, message)
    headers.append(('Content-Length', str(len(body))))
    return webob.Response(
        status=f'{status} {http.HTTPStatus(status).phrase}',
        headerlist=headers, app_iter=[body])
