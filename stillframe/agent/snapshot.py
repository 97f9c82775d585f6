# SPDX-License-Identifier: Apache-2.0
"""The ``snapshot`` commands, for both agents.

An order is checked before anything is begun; then one stream runs, which
can be stopped from another thread.
"""

from collections.abc import Callable
import logging
import threading
from typing import Any
from typing import Protocol

from stillframe.agent import davfs
from stillframe.agent import failures
from stillframe.agent import nfs
from stillframe.agent import orders
from stillframe.agent import stream
from stillframe.agent import version

LOG = logging.getLogger(__name__)


class Transfer(Protocol):
    """One disk on its way, by whatever transport."""

    def run(self) -> orders.Result:
        """Send it."""

    def stop(self) -> None:
        """End it soon, from another thread."""


#: How to send, by the order's transport.
TRANSPORTS: dict[str, Callable[[orders.Order], Transfer]] = {
    'webdav': stream.Stream,
    'davfs': davfs.Transfer,
    'nfs': nfs.Transfer,
}


class Snapshots:
    """The stream that runs, if one does."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: Transfer | None = None

    def stream_image(self, document: dict[str, Any]) -> dict[str, Any]:
        """Send a disk, until it has arrived or cannot.

        :param document: the order.
        :return: the result.
        :raises AgentError: it was not sent; the text says why.
        """
        order = orders.Order.parse(document)
        transfer = TRANSPORTS[order.transport](order)
        with self._lock:
            if self._running is not None:
                raise failures.BadOrder('Another disk is being sent.')
            self._running = transfer
        try:
            LOG.info('sending a disk by %s as %s', order.transport,
                     order.disk_format)
            result = transfer.run().document()
        finally:
            with self._lock:
                self._running = None
        LOG.info('sent: %s', result)
        return result

    def stop(self) -> dict[str, Any]:
        """End the running stream soon; it will have failed.

        :return: ``stopping``: whether there was one.
        """
        with self._lock:
            if self._running is None:
                return {'stopping': False}
            LOG.info('told to stop')
            self._running.stop()
            return {'stopping': True}

    def ping(self) -> dict[str, Any]:
        """Say that the commands are there, and what they can do."""
        return {'version': version.VERSION,
                'order_version': orders.VERSION,
                'transports': sorted(TRANSPORTS)}
