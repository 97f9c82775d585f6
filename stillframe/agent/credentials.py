# SPDX-License-Identifier: Apache-2.0
"""Whom an order has the agent trust, and what proves who the agent is."""

import base64
import ssl
import urllib.parse

from stillframe.agent import failures
from stillframe.agent import orders


def context(order: orders.Order) -> ssl.SSLContext | None:
    """Make what decides whom to trust; None for a receiver without TLS.

    :raises BadOrder: the order's certificates are none.
    """
    if urllib.parse.urlsplit(order.url).scheme != 'https':
        return None
    try:
        if order.ca is not None and not order.ca.strip():
            raise ValueError('there is nothing')
        return ssl.create_default_context(cadata=order.ca)
    except (ssl.SSLError, ValueError) as exc:
        raise failures.BadOrder(
            'The ca of the order holds no certificate.') from exc


def authorization(order: orders.Order) -> dict[str, str]:
    """Give the header with the order's credential; none without one."""
    if not order.username:
        return {}
    pair = f'{order.username}:{order.password}'.encode()
    return {'Authorization': 'Basic ' + base64.b64encode(pair).decode()}
