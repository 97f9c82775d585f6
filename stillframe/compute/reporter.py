# SPDX-License-Identifier: Apache-2.0
"""Tells the conductor that this worker is alive, and what servers it has."""

from collections.abc import Callable
import threading
from typing import Any
from typing import Protocol

from oslo_log import log

from stillframe import context
from stillframe import exceptions
from stillframe.compute import clock
from stillframe.compute import inventory as inventory_
from stillframe.rpc import payloads

LOG = log.getLogger(__name__)

BINARY = 'stillframe-compute'


class Conductor(Protocol):
    """What is used of :class:`stillframe.rpc.conductor_api.ConductorAPI`."""

    def report_service(self, ctxt: context.RequestContext, host: str,
                       binary: str, started_at: str, report_count: int,
                       capabilities: dict[str, Any],
                       servers_digest: str) -> payloads.ServiceReply:
        """Tell that a worker is alive."""

    def report_servers(self, ctxt: context.RequestContext, host: str,
                       servers: list[payloads.Server],
                       gone: list[str], full: bool,
                       servers_digest: str) -> payloads.ServersReply:
        """Tell which servers a host has."""


class Reporter:
    """Reports at intervals, and changes at once.

    :meth:`step` does one round; the thread only repeats it, so that many
    reporters can share threads where a whole worker is not wanted.
    """

    def __init__(self, host: str, interval: float, conductor: Conductor,
                 inventory: inventory_.Inventory,
                 capabilities: Callable[[], dict[str, Any]],
                 quiesced: Callable[[dict[str, str], float], None]):
        """Take what is needed.

        :param interval: seconds between two signs of life.
        :param quiesced: told which servers the conductor shows as
            quiesced (server id to freeze id), and the moment of asking.
        """
        self._host = host
        self._interval = interval
        self._conductor = conductor
        self._inventory = inventory
        self._capabilities = capabilities
        self._quiesced = quiesced
        self._started_at = clock.wall()
        self._count = 0
        self._due = 0.0
        self._wake = threading.Event()
        self._stopping = False
        self._starting = threading.Lock()
        self._started = False
        self._thread = threading.Thread(
            target=self._run, name='reporter', daemon=True)

    def start(self) -> None:
        """Begin to report; more than once does no harm."""
        with self._starting:
            if not self._started:
                self._started = True
                self._thread.start()

    def stop(self) -> None:
        """End."""
        self._stopping = True
        self._wake.set()
        with self._starting:
            if self._started:
                self._thread.join(30)

    def changed(self) -> None:
        """Have changes reported at once."""
        self._wake.set()

    def _run(self) -> None:
        while not self._stopping:
            self._wake.clear()
            self._wake.wait(self.step())

    def step(self) -> float:
        """Report what there is to report.

        :return: seconds until the next step is due.
        """
        try:
            if self._count == 0:
                # The conductor keeps with the worker what it has of its
                # servers: of an unknown worker it would ask for all again.
                self._sign_of_life()
            changes = self._inventory.changes()
            if changes:
                self._report(changes)
            if clock.now() >= self._due:
                self._sign_of_life()
        except exceptions.ServiceUnavailable as exc:
            LOG.warning('%s', exc)
            return self._interval
        except Exception:  # noqa: BLE001
            # Whatever it is (a server that cannot be described, say), it
            # is no reason to be taken for dead.
            LOG.exception('A report failed')
            return self._interval
        return max(0.0, self._due - clock.now())

    def _report(self, changes: inventory_.Changes) -> None:
        asked = clock.now()
        reply = self._conductor.report_servers(
            context.system_context(), self._host, changes.servers,
            changes.gone, changes.full, changes.digest)
        self._inventory.reported(changes)
        if reply['quiesced']:
            self._quiesced(reply['quiesced'], asked)

    def _sign_of_life(self) -> None:
        self._count += 1
        reply = self._conductor.report_service(
            context.system_context(), self._host, BINARY, self._started_at,
            self._count, self._capabilities(), self._inventory.digest())
        self._due = clock.now() + self._interval
        # At first nothing has been reported, so everything will be.
        if reply['resync'] and self._count > 1:
            self._inventory.resync()
            self._due = min(self._due, clock.now() + 1.0)
            self._wake.set()
