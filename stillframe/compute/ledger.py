# SPDX-License-Identifier: Apache-2.0
"""All freezes of this host: who may touch one, and what is kept of it.

Puts the journal, the outbox and the memory of ended freezes behind the one
rule that binds them: a record goes only after its outcome is kept.
"""

import collections
from collections.abc import Iterator
import contextlib
import threading

from oslo_log import log

from stillframe.compute import ended
from stillframe.compute import guardian as guardian_
from stillframe.compute import journal as journal_
from stillframe.compute import outbox as outbox_
from stillframe.rpc import payloads

LOG = log.getLogger(__name__)

# Requests that are recognised when they arrive a second time.
_REMEMBERED = 10_000


class _Server:
    """What belongs to one server while the worker lives."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        #: How many hold the lock or wait for it.
        self.users = 0
        self.wake = threading.Event()
        self.moved = False


class Ledger:
    """The freezes, by server id.

    Everything but :meth:`known`, :meth:`knows`, :meth:`wake` and the
    question what there is needs the server's lock (:meth:`hold`).
    """

    def __init__(self, journal: journal_.Journal, outbox: outbox_.Outbox,
                 memory: ended.Memory, guardian: guardian_.Guardian):
        self.journal = journal
        self.outbox = outbox
        #: The worker stops: nothing is to be waited for any more.
        self.stopping = False
        self._memory = memory
        self._guardian = guardian
        self._lock = threading.Lock()
        self._servers: dict[str, _Server] = {}
        self._records: dict[str, journal_.Record] = {}
        self._requests: collections.OrderedDict[str, None] = (
            collections.OrderedDict())

    def _server(self, server_id: str) -> _Server:
        with self._lock:
            return self._servers.setdefault(server_id, _Server())

    @contextlib.contextmanager
    def hold(self, server_id: str, seconds: float) -> Iterator[bool]:
        """Hold a server's lock.

        :param seconds: how long to wait for it.
        :return: whether it is held; if not, somebody else works on it.
        """
        with self._lock:
            server = self._servers.setdefault(server_id, _Server())
            server.users += 1
        try:
            held = server.lock.acquire(timeout=seconds)
            try:
                yield held
            finally:
                if held:
                    server.lock.release()
        finally:
            with self._lock:
                server.users -= 1

    def wake(self, server_id: str) -> threading.Event:
        """Give the event that ends waits for this server's agent."""
        return self._server(server_id).wake

    def stop(self) -> None:
        """Have work that waits for a guest end; the next life goes on."""
        self.stopping = True
        self.wake_all()

    def wake_all(self) -> None:
        """End all waits, since something changed for all servers."""
        with self._lock:
            servers = list(self._servers.values())
        for server in servers:
            server.wake.set()

    def moved(self, server_id: str) -> None:
        """Note that a server left for another host."""
        server = self._server(server_id)
        server.moved = True
        server.wake.set()

    def has_moved(self, server_id: str, seconds: float) -> bool:
        """Tell whether a server that is gone left for another host.

        :param seconds: how long to wait for the event that says so.
        """
        server = self._server(server_id)
        if not server.moved:
            server.wake.wait(seconds)
        return server.moved

    def known(self, request_id: str) -> bool:
        """Note a request; tell whether it had been noted before."""
        with self._lock:
            if request_id in self._requests:
                return True
            self._requests[request_id] = None
            if len(self._requests) > _REMEMBERED:
                self._requests.popitem(last=False)
        return self.knows(request_id, noted=False)

    def knows(self, request_id: str, noted: bool = True) -> bool:
        """Tell whether there is something of a request; notes nothing.

        :param noted: whether having been noted is something.
        """
        with self._lock:
            known = noted and request_id in self._requests or any(
                request_id == record.request_id or (
                    record.ending and request_id == record.ending.request_id)
                for record in self._records.values())
        # The outbox last: it takes over from the records.
        return bool(known) or self.outbox.about(request_id)

    # --- records ------------------------------------------------------------

    def load(self, record: journal_.Record) -> None:
        """Take over a record that an earlier life left on disk."""
        with self._lock:
            self._records[record.server_id] = record

    def record(self, server_id: str) -> journal_.Record | None:
        """Give a server's record, or None."""
        with self._lock:
            return self._records.get(server_id)

    def records(self) -> list[journal_.Record]:
        """Give all records."""
        with self._lock:
            return list(self._records.values())

    def write(self, record: journal_.Record) -> journal_.Record:
        """Keep a record, and let the guard know of a new one.

        A new one is on disk before anything is frozen. What changes of it
        later, while the guest is frozen and waits, has to outlive any
        process but no power cut, which ends the guest as well.

        :raises OSError: the disk refused it; the old one still stands.
        """
        with self._lock:
            known = self._records.get(record.server_id)
        self.journal.write(record, durably=known is None)
        with self._lock:
            self._records[record.server_id] = record
        if known is None:
            self._server(record.server_id).moved = False
            self._guardian.poke()
        return record

    def note(self, record: journal_.Record) -> journal_.Record:
        """Keep a record, but let a full disk not stand in the way.

        For what comes after a freeze: thawing must go on, and the record
        on disk says already that the guest has to be thawed.
        """
        try:
            return self.write(record)
        except OSError as exc:
            LOG.error('The freeze journal cannot be written; going on '
                      'without: %s', exc)
        with self._lock:
            self._records[record.server_id] = record
        return record

    def tell(self, outcome: payloads.Outcome) -> None:
        """Keep an outcome until the conductor has it."""
        self.outbox.put(outcome)

    def end(self, record: journal_.Record,
            outcome: payloads.Outcome | None, reason: str) -> None:
        """Close a freeze: keep its outcome, then forget its record.

        :param outcome: None when there is nothing (more) to tell.
        :param reason: why it ended, for whoever asks later.
        """
        if outcome is not None:
            self.outbox.put(outcome)
            self._memory.remember(record.server_id, ended.Ended(
                freeze_id=record.request_id, reason=reason,
                ended_at=outcome['ended_at'] or outcome['finished_at'],
                message=outcome['message']))
        self.journal.remove(record.server_id)
        with self._lock:
            self._records.pop(record.server_id, None)
        LOG.info('The freeze %s of server %s is over: %s',
                 record.request_id, record.server_id, reason)

    def recall(self, server_id: str, freeze_id: str) -> ended.Ended | None:
        """Give how a freeze ended, if that is still known."""
        return self._memory.recall(server_id, freeze_id)

    def prune(self) -> None:
        """Forget what nobody will ask for any more."""
        self._memory.prune()
        with self._lock:
            for server_id in [
                    one for one, server in self._servers.items()
                    if one not in self._records and not server.users]:
                del self._servers[server_id]
