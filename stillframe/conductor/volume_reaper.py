# SPDX-License-Identifier: Apache-2.0
"""Giving up volume snapshots on which nobody reports."""

from oslo_config import cfg
from oslo_log import log
import sqlalchemy as sa

from stillframe.conductor import reaper
from stillframe.conductor import volume_snapshots
from stillframe.db import volume_snapshots as db
from stillframe.states.volume_snapshots import State

LOG = log.getLogger(__name__)


class VolumeReaper:
    """Part of the reaper; see :mod:`stillframe.conductor.reaper`."""

    def __init__(self, conf: cfg.ConfigOpts,
                 volumes: volume_snapshots.VolumeSnapshots):
        self._conf = conf.volume_snapshots
        self._volumes = volumes
        self._watch = reaper.Watch()

    def look(self, elapsed: float) -> None:
        """Give up what has stood still for too long.

        :param elapsed: seconds to count since the look before.
        :raises ServiceUnavailable: the database cannot be reached.
        """
        rows = db.open_requests()
        # One that its worker took up may go on for hours, and no step of
        # the wall clock may end it.
        start = self._conf.start_timeout
        self._watch.look(
            [(row['uuid'], row['state']) for row in rows], elapsed,
            {(row['uuid'], State.PENDING):
             reaper.before(row['created_at'], start) for row in rows})
        for row in rows:
            limit, why = self._limit(row)
            age = self._watch.age((row['uuid'], row['state']))
            if age < limit:
                continue
            if db.give_up(row['uuid'], row['state'], why,
                          self._volumes.tells):
                LOG.error('Volume snapshot request %s (snapshot %s) given '
                          'up after %.0f s: %s', row['uuid'],
                          row['snapshot_id'], age, why)
                self._volumes.wake()

    def _limit(self, row: sa.RowMapping) -> tuple[float, str]:
        """Give how long a request may be so, and the sentence after that.

        The limits count from a request's last change of state.
        """
        host = row['host']
        if row['state'] == State.PENDING:
            return self._conf.start_timeout, (
                f'The compute worker on host {host} did not take up the '
                f'request within {self._conf.start_timeout:g} s. It will '
                'not be begun any more.')
        return self._conf.give_up_after, (
            f'The compute worker on host {host} took up the request and did '
            'not report what became of it within '
            f'{self._conf.give_up_after:g} s. See that the worker runs; '
            'then compare the chain of the disk with what Cinder has on '
            'record before the volume is snapshotted again.')
