# SPDX-License-Identifier: Apache-2.0
"""Images of servers: giving up dead ones, removing what they left.

A worker gives a sign of life of each image it has, running or waiting. How
long there was none is counted as in :mod:`stillframe.conductor.reaper`. An
image that did not become complete is removed from the store, however long
the store cannot be reached meanwhile.
"""

from collections.abc import Callable
import time

from oslo_config import cfg
from oslo_log import log

from stillframe import exceptions
from stillframe.clients import images as clients
from stillframe.conductor import reaper
from stillframe.db import images as db

LOG = log.getLogger(__name__)


class ImageKeeper:
    """Looks after images; one call of :meth:`look` an interval."""

    def __init__(self, conf: cfg.ConfigOpts,
                 clock: Callable[[], float] = time.monotonic):
        self._conf = conf
        self._store = clients.connect(conf)
        self._elapsed = reaper.Elapsed(clock)
        self._silent = reaper.Watch()

    def look(self) -> None:
        """Give up what is dead, and remove what is due."""
        elapsed = self._elapsed.look(self._conf.conductor.reap_interval)
        try:
            self._give_up(elapsed)
            self._remove()
        except exceptions.ServiceUnavailable as exc:
            self._elapsed.forget()
            LOG.warning('No image was looked after: %s', exc)

    def _give_up(self, elapsed: float) -> None:
        rows = db.open_requests()
        limit = self._conf.conductor.transition_timeout
        # Of one that gave signs, the moment of the last is not stored.
        self._silent.look(
            [(row['request_id'], row['reports']) for row in rows], elapsed,
            {(row['request_id'], 0): reaper.before(row['created_at'], limit)
             for row in rows})
        for row in rows:
            age = self._silent.age((row['request_id'], row['reports']))
            if age < limit:
                continue
            message = (
                'Given up: the compute worker of the server gave no sign of '
                f'the image for {limit:g} s. See that the worker runs, then '
                'try again.')
            if db.give_up(row['request_id'], message):
                LOG.error('Server %s on host %s: the image of request %s is '
                          'given up after %.0f s without a sign of it',
                          row['server_uuid'], row['host'],
                          row['request_id'], age)

    def _remove(self) -> None:
        for row in db.to_remove():
            try:
                for image_id in row['image_ids']:
                    self._store.delete(image_id)
            except (clients.StoreUnavailable, clients.ImageRefused) as exc:
                if db.not_removed(row['id'], str(exc)):
                    LOG.warning('What is left of the image of request %s '
                                'is removed later: %s', row['request_id'],
                                exc)
                else:
                    LOG.error('Of the image of request %s something may be '
                              'left in the store for ever, one of %s: %s',
                              row['request_id'], row['image_ids'], exc)
            else:
                db.removed(row['id'])
                LOG.info('Nothing is left of the image of request %s',
                         row['request_id'])
