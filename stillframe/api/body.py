# SPDX-License-Identifier: Apache-2.0
"""Middleware: reads the body, up to a limit, and puts it aside."""

import io
from typing import Any

from stillframe import exceptions
from stillframe.api import errors
from stillframe.api import request


def wrap(app: Any, limit: int) -> Any:
    """Read a request's body once, refusing what is too large.

    What is behind sees it in the environment under
    :data:`stillframe.api.request.BODY` and an empty input, so that no
    framework decodes it in its own, laxer way.

    :param limit: bytes.
    """
    def middleware(environ, start_response):
        try:
            body = _read(environ, limit)
        except exceptions.StillframeError as exc:
            return errors.response(exc, environ.get('PATH_INFO', ''))(
                environ, start_response)
        environ[request.BODY] = body
        environ['wsgi.input'] = io.BytesIO()
        environ['CONTENT_LENGTH'] = '0'
        return app(environ, start_response)

    return middleware


def _read(environ: dict[str, Any], limit: int) -> bytes:
    length = environ.get('CONTENT_LENGTH')
    if not length:
        # Chunked, where the server undid the chunks; else there is none.
        if not environ.get('wsgi.input_terminated'):
            return b''
        body = _take(environ, limit + 1)
    else:
        if not (length.isascii() and length.isdigit()):
            raise exceptions.BadRequest(
                'The Content-Length header is no number.')
        if len(length) > 18 or int(length) > limit:
            raise errors.TooLarge(limit=limit)
        body = _take(environ, int(length))
        if len(body) < int(length):
            raise exceptions.BadRequest(
                'The request body is shorter than its Content-Length.')
    if len(body) > limit:
        raise errors.TooLarge(limit=limit)
    return body


def _take(environ: dict[str, Any], size: int) -> bytes:
    """Read from the client.

    :raises BadRequest: the client broke off, or sends no proper chunks;
        servers have errors of their own for it, made of these two.
    """
    try:
        return environ['wsgi.input'].read(size)
    except (OSError, ValueError) as exc:
        raise exceptions.BadRequest(
            'The request body cannot be read: the connection broke, or its '
            'chunks are malformed.') from exc
