# SPDX-License-Identifier: Apache-2.0
"""Asking the receiver what it has."""

import http.client
import re
import urllib.parse

from stillframe.agent import credentials
from stillframe.agent import failures
from stillframe.agent import orders

_DIGEST = re.compile(r'"([0-9a-f]{64})"')


def verify(order: orders.Order, size: int, sha256: str) -> None:
    """See that an image has arrived as it was sent.

    :param size: its bytes.
    :param sha256: their digest, in hex. Our own receiver says its own; one
        that says another kind of tag is compared by the conductor.
    :raises SendFailed: it has not, or nobody knows.
    :raises BadOrder: the order's certificates are none.
    """
    try:
        status, length, tag = _ask(order)
    except (OSError, http.client.HTTPException) as exc:
        reason = getattr(exc, 'strerror', None) or type(exc).__name__
        raise failures.SendFailed(
            'Whether the image has arrived is not known: the receiver does '
            f'not answer ({reason}).') from exc
    if status != 200:
        raise failures.SendRefused(
            'The image has not arrived, though nothing reported a failure: '
            f'the receiver answers HTTP {status}.', status)
    if length != str(size):
        raise failures.SendFailed(
            'The image has not arrived as a whole, though nothing reported '
            f'a failure: the receiver has {length} bytes instead of {size}.')
    digest = _DIGEST.fullmatch(tag)
    if digest and digest[1] != sha256:
        raise failures.SendFailed(
            'The image has not arrived as it was sent, though nothing '
            'reported a failure: its digest is another.')


def _ask(order: orders.Order) -> tuple[int, str | None, str]:
    """Ask for status, length and tag of the image."""
    url = urllib.parse.urlsplit(order.url)
    host = url.hostname or ''
    context = credentials.context(order)
    connection: http.client.HTTPConnection
    if context is None:
        connection = http.client.HTTPConnection(
            host, url.port, timeout=order.timeout)
    else:
        connection = http.client.HTTPSConnection(
            host, url.port, timeout=order.timeout, context=context)
    try:
        connection.request('HEAD', url.path, headers={
            'Accept-Encoding': 'identity',
            **credentials.authorization(order)})
        answer = connection.getresponse()
        return (answer.status, answer.getheader('Content-Length'),
                answer.getheader('ETag', ''))
    finally:
        connection.close()
