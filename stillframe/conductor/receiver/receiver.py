# SPDX-License-Identifier: Apache-2.0
"""The receiver as a service of the conductor."""

from collections.abc import Mapping
import dataclasses
import pathlib
import secrets
import threading
from typing import Any

from oslo_config import cfg
from oslo_log import log

from stillframe import exceptions
from stillframe import service
from stillframe.conductor.receiver import app
from stillframe.conductor.receiver import dav
from stillframe.conductor.receiver import errors
from stillframe.conductor.receiver import intake
from stillframe.conductor.receiver import listening
from stillframe.conductor.receiver import registry as registries
from stillframe.conductor.receiver import results
from stillframe.conductor.receiver import share as shares
from stillframe.conductor.receiver import storing
from stillframe.conductor.receiver import tickets
from stillframe.conductor.receiver import transfers
from stillframe.conductor.receiver import web_server
from stillframe.db import transfers as db
from stillframe.states.transfers import State

LOG = log.getLogger(__name__)

_MIB = 1 << 20
# Seconds between two looks for what others closed, or what could not be
# removed at once.
_SWEEP = 30.0


class Receiver:
    """Receives images; one a conductor.

    Nothing is listened on, and no folder made, before the first transfer
    is opened, unless a former life of this conductor has left some.
    """

    name = 'the receiver'

    def __init__(self, conf: cfg.ConfigOpts):
        self._conf = conf
        self._host = conf.conductor.host
        self._path = pathlib.Path(conf.receiver.path)
        self._folder = storing.Folder(
            self._path, conf.receiver.min_free * _MIB)
        self._registry = registries.Registry()
        self._web = (web_server.WebServer(self._path)
                     if conf.receiver.web_server else None)
        self._intake = intake.Intake(self._registry, self._folder,
                                     conf.receiver.compressed_share,
                                     self._web)
        self._provider = dav.Provider(self._folder.image,
                                      self._intake.remove)
        self._share = _share(conf)
        self._lock = threading.Lock()
        self._listening: listening.Listening | None = None
        self._stopped = False
        self._sweep = service.Periodic(
            'receiver-sweep', self.sweep, lambda: _SWEEP)

    # --- life -------------------------------------------------------------

    def start(self) -> None:
        """Take up what a former life of this conductor left.

        :raises CannotReceive: that cannot be had.
        """
        try:
            self._take_up()
        except exceptions.ServiceUnavailable as exc:
            LOG.warning('What was left of images under way is looked after '
                        'later: %s', exc)
        self._sweep.start()

    def stop(self) -> None:
        """Cut off what runs; what arrived stays, and is known again."""
        self._sweep.stop()
        with self._lock:
            self._stopped = True
            running, self._listening = self._listening, None
        if running is not None:
            running.server.stop_serving()
        self._folder.release()

    def _take_up(self) -> None:
        if self._path.exists():
            self._ready()

    def _ready(self) -> listening.Listening:
        """Own the folder, know what is in it, and listen."""
        with self._lock:
            if self._stopped:
                raise errors.CannotReceive(reason='it is being stopped')
            if self._listening is None:
                self._folder.own()
                registries.recover(self._registry, self._folder,
                                   db.of_conductor(self._host))
                self._recover_web()
                self._listening = listening.listen(
                    self._conf, self._path, app.Application(
                        self._intake, dav.application(self._provider),
                        self._provider))
                LOG.info('Images are received at %s', self._listening.url)
            return self._listening

    def _recover_web(self) -> None:
        if self._web is None:
            return
        self._web.own()
        for name in self._web.names():
            if self._registry.get(name) is None:
                with registries.complaint(name):
                    self._web.remove(name)

    def sweep(self) -> None:
        """Close what others closed, and remove what is left of it."""
        self._take_up()
        # First these: a row is there before its transfer is known.
        known = {one.name for one in self._registry.all()}
        db.close_finished(self._host)
        rows = {row['name']: row['state']
                for row in db.of_conductor(self._host)}
        for name in known - set(rows):
            rows[name] = State.CLOSED
        for name, state in rows.items():
            if state != State.CLOSED:
                continue
            try:
                self._end(name)
            except errors.StoreFailed as exc:
                # The others are not to wait for it; the next turn tries it
                # again.
                LOG.error('Transfer %s: %s', name, exc)
        if self._web is not None and self._listening is not None:
            self._web.tidy()

    # --- the conductor's side ---------------------------------------------

    def check(self, transport: str = 'webdav', needed: int = 1) -> None:
        """See that an image could be received, before it is ordered.

        :param transport: as for open().
        :param needed: bytes that it will have at least.
        :raises CannotReceive: the receiver cannot work, or takes nothing
            by this transport.
        :raises StoreFull: there is no room.
        :raises StoreFailed: the store does not work.
        :raises ServiceUnavailable: the database cannot be reached.
        """
        self._ready()
        self._check_transport(transport)
        self._intake.check_room(needed)

    def _check_transport(self, transport: str) -> None:
        if transport == 'nfs':
            if self._share is None:
                raise errors.CannotReceive(
                    reason='the transport nfs needs share_url and '
                    'share_path')
        elif self._web is not None and transport != 'webdav':
            raise errors.CannotReceive(
                reason=f'the transport {transport} is not offered by the '
                'web server in front (web_server)')

    def open(self, snapshot_id: str, transport: str = 'webdav'
             ) -> tickets.Ticket:
        """Let the image of a snapshot be sent here, once.

        A transfer that the snapshot had is closed for it.

        :param transport: how the image will come; see
            stillframe.agent.orders.
        :raises CannotReceive: the receiver cannot work, or takes nothing
            by this transport.
        :raises StoreFull: the reserve of the store is used up already.
        :raises StoreFailed: the store does not work.
        :raises ServiceUnavailable: the database cannot be reached.
        """
        listens = self._ready()
        self.close(snapshot_id)
        self._check_transport(transport)
        if not (free := self._folder.free()):
            raise errors.StoreFull(needed='more', free=free)
        name, password = secrets.token_hex(16), secrets.token_urlsafe(32)
        url = f'{listens.url}/{dav.FOLDER}/{name}'
        by_share = self._share if transport == 'nfs' else None
        if by_share is not None:
            url = by_share.url(name)
        hashed = transfers.hash_of(password)
        transfer = transfers.Transfer(name, snapshot_id, hashed)
        db.open_(name, snapshot_id, self._host, hashed)
        if self._web is not None:
            self._web.open(name)
        self._registry.add(transfer)
        if by_share:
            return tickets.Ticket(url=url, username='', password='', ca=None)
        return tickets.Ticket(url=url, username=name, password=password,
                      ca=listens.ca)

    def progress(self, snapshot_id: str) -> transfers.Received:
        """Tell how far the image of a snapshot is.

        :raises UnknownTransfer: it has none here.
        :raises StoreFailed: the store, or the share, does not tell.
        """
        transfer = self._of(snapshot_id)
        if self._web is not None and transfer.state is State.WAITING and (
                found := self._web.progress(transfer)):
            return found
        received = transfer.progress()
        if (self._share is not None and received.state is State.WAITING
                and not received.receiving):
            return dataclasses.replace(
                received, bytes=self._share.grown(transfer.name))
        return received

    def finish(self, snapshot_id: str, result: Mapping[str, Any]
               ) -> tickets.Arrival:
        """Take an image for the one that its agent sent.

        Its header is completed where the agent could not do that. The name
        takes no more data then. Calling it again gives the same.

        :param result: the agent's record; see stillframe.agent.orders.
        :raises UnknownTransfer: there is no transfer.
        :raises NotArrived: no whole image is here.
        :raises BadResult: the record cannot be used.
        :raises Differs: the image is not the one that was sent.
        :raises BadImage: the header must not be completed like that.
        :raises ServiceUnavailable: the database cannot be reached.
        """
        self._take_up()
        transfer = self._of(snapshot_id)
        wanted = results.read(result)
        if transfer.state is State.WAITING:
            if self._share is not None and self._share.grown(transfer.name):
                self._share.collect(transfer, self._intake)
            elif self._web is not None:
                self._take(self._web, transfer)
        transfer.finish()
        results.compare(wanted, transfer.size, transfer.sha256)
        if not db.move(transfer.name, State.FINISHED, transfer.size,
                       transfer.sha256):
            raise errors.UnknownTransfer(snapshot=snapshot_id)
        path = self._folder.image(transfer.name)
        results.complete(path, wanted)
        return tickets.Arrival(path, transfer.size, wanted.sha256)

    def _take(self, web: web_server.WebServer,
              transfer: transfers.Transfer) -> None:
        """Take an image over that the web server received."""
        size, sha256 = web.take(transfer.name)
        # In this order it is found again after a kill at any point.
        if not db.move(transfer.name, State.ARRIVED, size, sha256):
            raise errors.UnknownTransfer(snapshot=transfer.snapshot_id)
        web.hand_over(transfer.name, self._folder)
        transfer.keep(size, sha256)

    def close(self, snapshot_id: str) -> None:
        """Let the credential of a snapshot die, and remove its files.

        No error when that was done before. Where another conductor has the
        files it removes them when it lives again.

        :raises StoreFailed: the files cannot be removed now; again later.
        :raises ServiceUnavailable: the database cannot be reached.
        """
        ours = self._registry.of_snapshot(snapshot_id)
        for transfer in ours:
            # Before the database is asked, which may not answer.
            transfer.close()
        row = db.close(snapshot_id)
        names = {one.name for one in ours}
        if row is not None and row['conductor'] == self._host:
            names.add(row['name'])
        for name in names:
            self._end(name)

    def _end(self, name: str) -> None:
        """Remove what is left of a transfer that was closed."""
        transfer = self._registry.get(name)
        if transfer is not None and not transfer.close():
            raise errors.StoreFailed(
                reason='an upload that was cut off still runs')
        with storing.told('what is left of it cannot be removed: '):
            self._folder.remove(name)
            if self._share is not None:
                self._share.remove(name)
            if self._web is not None:
                self._web.remove(name)
        self._provider.unlock(name)
        db.removed(name)
        self._registry.forget(name)

    def _of(self, snapshot_id: str) -> transfers.Transfer:
        for one in self._registry.of_snapshot(snapshot_id):
            if one.state is not State.CLOSED:
                return one
        raise errors.UnknownTransfer(snapshot=snapshot_id)


def _share(conf: cfg.ConfigOpts) -> shares.Share | None:
    group = conf.receiver
    if not group.share_url or not group.share_path:
        return None
    return shares.Share(group.share_url, pathlib.Path(group.share_path))
