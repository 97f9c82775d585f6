# SPDX-License-Identifier: Apache-2.0
"""Uploads: what an agent can do to the transfer that is its own."""

from collections.abc import Callable
import threading

from stillframe import exceptions
from stillframe.conductor.receiver import body as bodies
from stillframe.conductor.receiver import errors
from stillframe.conductor.receiver import registry as registries
from stillframe.conductor.receiver import storing
from stillframe.conductor.receiver import transfers
from stillframe.conductor.receiver import web_server
from stillframe.db import transfers as db
from stillframe.states.transfers import State


class Intake:
    """Receives images; the store of the application.

    :param compressed_share: see ``[receiver]``.
    :param web: what a web server in front receives; None: there is none.
    """

    def __init__(self, registry: registries.Registry,
                 folder: storing.Folder, compressed_share: float,
                 web: web_server.WebServer | None):
        self._registry = registry
        self._folder = folder
        self._compressed_share = compressed_share
        self._web = web
        self._room = threading.Lock()

    def find(self, name: str) -> transfers.Transfer | None:
        """Give the transfer of a name; None when there is none."""
        return self._registry.get(name)

    def receive(self, transfer: transfers.Transfer, body: bodies.Body,
                total: int | None, limit: int | None,
                cut: Callable[[], None]) -> None:
        """Receive an image; see the application.

        :param total: bytes that were announced; None: it comes in chunks.
        :param limit: most bytes that were announced; None: none were.
        :param cut: ends the connection.
        :raises ReceiverError: it did not arrive.
        """
        bound = _bound(total, limit)
        upload = transfers.Upload(body, total, cut)
        transfer.begin(upload)
        reason: str | None = 'the receiver failed'
        try:
            self._receive(transfer, upload, bound)
            reason = None
        except errors.ReceiverError as exc:
            reason = exc.message
            raise
        except exceptions.ServiceUnavailable as exc:
            reason = exc.message
            raise errors.StoreFailed(reason=reason) from exc
        finally:
            transfer.end(reason)

    def _receive(self, transfer: transfers.Transfer,
                 upload: transfers.Upload, limit: int) -> None:
        self.drop(transfer)
        incoming = self._begin(transfer, upload,
                               self._needed(upload.total, limit))
        try:
            try:
                sha256 = incoming.receive(upload.body, limit)
            except OSError as exc:
                raise errors.Truncated(
                    received=upload.body.taken,
                    of='' if upload.total is None
                    else f' of {upload.total}') from exc
            size = incoming.finish()
            transfer.may_keep()
            self._folder.keep(transfer.name)
            if not db.move(transfer.name, State.ARRIVED, size, sha256):
                raise errors.Revoked()
            transfer.keep(size, sha256)
        except BaseException:
            # Whatever it was, nothing stays of what did not arrive.
            with registries.complaint(transfer.name):
                incoming.discard()
                self._folder.remove(transfer.name)
            raise

    def _begin(self, transfer: transfers.Transfer,
               upload: transfers.Upload, size: int) -> storing.Incoming:
        """Begin a file when there is room for it."""
        # One after the other: two must not see the same room.
        with self._room:
            self.check_room(size)
            incoming = self._folder.begin(transfer.name, size)
            if not incoming.allocated:
                upload.reserved = size
            return incoming

    def let_in(self, transfer: transfers.Transfer, total: int | None,
               limit: int | None) -> None:
        """Let the web server in front receive an image; see receive().

        :raises ReceiverError: it must not.
        """
        if self._web is None:
            raise errors.CannotReceive(reason='web_server is not set')
        bound = _bound(total, limit)
        transfer.may_keep()
        with self._room:
            size = self._needed(total, bound)
            self.check_room(size)
            self._web.let_in(transfer, total, bound, size)

    def _needed(self, total: int | None, bound: int) -> int:
        if total is not None:
            return total
        return int(bound * self._compressed_share)

    def check_room(self, size: int) -> None:
        """See that there is room now, beside what is on its way.

        :param size: bytes.
        :raises StoreFull: there is none.
        :raises StoreFailed: the store does not tell.
        """
        taken = sum(one.outstanding() for one in self._registry.all())
        if self._web is not None:
            taken += self._web.outstanding()
        free = max(0, self._folder.free() - taken)
        if size > free:
            raise errors.StoreFull(needed=size, free=free)

    def drop(self, transfer: transfers.Transfer) -> None:
        """Remove an image that is here; another one may come.

        :raises ReceiverError: it is not to be removed, or cannot be.
        """
        if transfer.sha256 is None:
            return
        transfer.drop()
        if not db.move(transfer.name, State.WAITING):
            raise errors.Revoked()
        with storing.told():
            self._folder.remove(transfer.name)

    def remove(self, transfer: transfers.Transfer) -> None:
        """Remove an image that its agent deletes."""
        transfer.locked = False
        self.drop(transfer)


def _bound(total: int | None, limit: int | None) -> int:
    """Give the most bytes that an upload may have.

    It is its agent that says so: how large the disk is nobody else knows
    for sure. ``local_gb`` of a node is a rounded number that anybody may
    have typed.

    :raises SizeUnknown: it has not said.
    """
    bound = total if limit is None else limit
    if bound is None:
        raise errors.SizeUnknown()
    return bound
