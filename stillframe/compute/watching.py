# SPDX-License-Identifier: Apache-2.0
"""Sees to it that what is called quiesced is frozen.

Watches each freeze from its start to its end: its deadline, checks at
intervals and on libvirt's events, freezes that an earlier life of the
worker left, and freezes that arrive with a guest from another host.
"""

from oslo_config import cfg
from oslo_log import log

from stillframe.compute import clock
from stillframe.compute import endings
from stillframe.compute import journal
from stillframe.compute import ledger as ledger_
from stillframe.compute import outcomes
from stillframe.compute import scheduler
from stillframe.compute import thawing
from stillframe.compute.libvirt import freezing
from stillframe.compute.libvirt import host as host_
from stillframe.compute.libvirt.troubles import AgentTrouble
from stillframe.compute.libvirt.troubles import Trouble
from stillframe.states.servers import Result

LOG = log.getLogger(__name__)


class Watch:
    """Watches; see the module."""

    def __init__(self, conf: cfg.ConfigOpts, host: host_.Host,
                 ledger: ledger_.Ledger, thawer: thawing.Thawer,
                 alarms: scheduler.Alarms):
        self._conf = conf
        self._host = host
        self._ledger = ledger
        self._thawer = thawer
        self._alarms = alarms

    def begin(self, record: journal.Record) -> None:
        """Report a freeze, and watch over it until it ends."""
        self._alarms.set('deadline', record.server_id,
                         clock.now() + record.remaining(),
                         self._thawer.expire, record.request_id)
        self._check_later(record.server_id)
        if not record.told:
            self._ledger.tell(outcomes.of_record(
                record, 'quiesce', record.request_id, Result.SUCCESS,
                f'File systems frozen: {record.filesystems}, for at most '
                f'{record.timeout:g} seconds.',
                finished_at=record.frozen_at))
            self._ledger.note(record.having(told=True))

    def _check_later(self, server_id: str) -> None:
        self._alarms.set(
            'check', server_id,
            clock.now() + self._conf.compute.verify_interval, self.check)

    # --- checks -------------------------------------------------------------

    def check(self, server_id: str) -> None:
        """Look whether a quiesced guest is still frozen."""
        with self._ledger.hold(server_id, 0) as held:
            if not held:
                # Somebody works on it; that will settle what it is.
                if self._ledger.record(server_id) is not None:
                    self._check_later(server_id)
                return
            record = self._ledger.record(server_id)
            if record is None:
                self._adopt(server_id)
            elif record.state == journal.FROZEN:
                self._check_later(server_id)
                self._check(record)

    def _check(self, record: journal.Record) -> None:
        if record.remaining() <= 0:
            # The guard was faster, or other work held the server so long.
            self._thawer.end(record, 'deadline')
            return
        try:
            guest = self._host.guest(record.server_id)
            run = guest.run()
            if run.off:
                self._thawer.gone(record, run.migrated)
                return
            if not self._thawer.is_same_run(record, guest, run):
                self._ended(record, 'rebooted')
                return
            if guest.agent.status() is freezing.Status.FROZEN:
                return
        except AgentTrouble as trouble:
            if trouble.kind is Trouble.GONE:
                self._thawer.gone(record)
            # Without an answer the file systems stay as they are: frozen.
            return
        self._ended(record, 'thawed_by_guest', verified=True)

    def rebooted(self, server_id: str, moment: float) -> None:
        """End the freeze of a guest that was reset: a new kernel runs.

        The lease stays in the domain until the new guest was seen thawed.

        :param moment: when libvirt said so; a freeze that began later is
            one of the new kernel.
        """
        with self._ledger.hold(server_id, self._thawer.longest()) as held:
            record = self._ledger.record(server_id)
            if not held or record is None or record.called > moment:
                return
            if record.state == journal.FROZEN:
                self._ended(record, 'rebooted')
            elif record.ending is not None and record.ending.told:
                self._thawer.gone(record, reason='rebooted')

    def _ended(self, record: journal.Record, reason: str,
               verified: bool | None = None) -> None:
        """Report a freeze that ended by itself."""
        now = clock.wall()
        self._thawer.close(record, outcomes.of_record(
            record, 'freeze_ended', outcomes.new_request_id(), Result.LOST,
            f'{outcomes.ENDED[reason]}. {outcomes.AGAIN}', reason=reason,
            verified_thawed=verified, started_at=now, ended_at=now), reason)

    # --- events -------------------------------------------------------------

    def happened(self, server_id: str) -> None:
        """Look at a guest to which something happened."""
        record = self._ledger.record(server_id)
        self._ledger.wake(server_id).set()
        if record is not None and record.ending is not None:
            if record.ending.told:
                self._thawer.retry(server_id)
        else:
            self.check(server_id)

    # --- earlier lives, other hosts -----------------------------------------

    def recover(self, server_id: str) -> None:
        """Go on with what an earlier life of the worker left."""
        with self._ledger.hold(server_id, self._thawer.longest()) as held:
            record = self._ledger.record(server_id)
            if not held or record is None:
                return
            LOG.warning('Taking up the freeze %s of server %s (%s)',
                        record.request_id, server_id, record.state)
            if record.brief and record.ending is None:
                self._thawer.begin(record, endings.unreported(record))
            elif record.boot_id != clock.boot_id():
                self._after_host_restart(record)
            elif record.state == journal.FREEZING:
                self._thawer.begin(record, journal.Ending(
                    'quiesce', record.request_id, 'restarted',
                    record.started_at,
                    message='The compute worker was interrupted while it '
                    'froze the server.'))
            elif record.state == journal.FROZEN:
                self.begin(record)
                self._check(self._ledger.record(server_id) or record)
            elif record.ending is not None:
                self._thawer.finish(record, record.ending)

    def recover_unreadable(self, server_id: str) -> None:
        """Thaw a guest whose record cannot be read, whatever it said.

        Which freeze it was is not known, so nothing is reported here; the
        conductor asks for the servers that it shows as quiesced.
        """
        now = clock.now()
        self._ledger.load(journal.Record(
            server_id=server_id, request_id=outcomes.new_request_id(),
            connection_uri=self._host.uri, domain_id=-1,
            boot_id=clock.boot_id(), state=journal.THAWING, timeout=0.0,
            deadline=now, called=0.0, started_at=clock.wall(), told=True,
            ending=journal.Ending(
                endings.WATCHED, outcomes.new_request_id(), 'lost',
                clock.wall(), told=True)))
        self._thawer.retry(server_id)

    def _after_host_restart(self, record: journal.Record) -> None:
        """End a freeze of an earlier boot of the host.

        The guest was started anew or restored from a file; only in the
        second case there is something to thaw.
        """
        ending = record.ending
        if ending is None:
            kind, request_id = 'freeze_ended', outcomes.new_request_id()
            if record.state == journal.FREEZING:
                kind, request_id = 'quiesce', record.request_id
            ending = journal.Ending(
                kind, request_id, 'restarted', clock.wall(),
                message='The host was restarted while the server was being '
                'frozen.')
        self._thawer.begin(record, ending)

    def _adopt(self, server_id: str) -> None:
        """Take over the freeze of a guest that came with a lease."""
        try:
            guest = self._host.guest(server_id)
            run = guest.run()
            if run.off:
                return
            carried = guest.lease()
            if carried is None or run.halted or guest.leaving():
                # A guest that is still arriving makes another event.
                return
            if (self._ledger.recall(server_id, carried.request_id)
                    and guest.agent.status() is freezing.Status.THAWED):
                # It has ended here; taking the lease away had failed.
                guest.carry(None)
                return
        except AgentTrouble as trouble:
            LOG.debug('Not adopting %s: %s', server_id, trouble)
            return
        left = carried.remaining(self._conf.quiesce.max_timeout)
        now = clock.now()
        LOG.warning('Server %s came with the freeze %s; %.1f s are left',
                    server_id, carried.request_id, left)
        record = self._ledger.note(journal.Record(
            server_id=server_id, request_id=carried.request_id,
            connection_uri=self._host.uri, domain_id=run.domain_id,
            boot_id=clock.boot_id(), state=journal.FROZEN,
            timeout=carried.timeout, deadline=now + left,
            called=now + left - carried.timeout, started_at=clock.wall(),
            told=True))
        self.begin(record)
        self._check(record)

    def account_for(self, server_id: str, freeze_id: str,
                    asked: float) -> None:
        """Answer for a server that the conductor shows as quiesced.

        :param asked: moment at which the conductor was asked.
        """
        with self._ledger.hold(server_id, self._thawer.longest()) as held:
            record = self._ledger.record(server_id)
            if (not held or (record and record.request_id == freeze_id)
                    or self._ledger.outbox.about(freeze_id)
                    or self._ledger.outbox.delivered(freeze_id, asked)):
                return
            if record is None and self._arrived(server_id, freeze_id):
                return
            now = clock.wall()
            verified = None
            if record is None:
                verified = self._thaw_stray(server_id)
            self._ledger.tell(outcomes.outcome(
                'freeze_ended', server_id, outcomes.new_request_id(),
                Result.LOST, f'{outcomes.ENDED["lost"]}. {outcomes.AGAIN}',
                reason='lost', freeze_id=freeze_id,
                verified_thawed=verified, started_at=now, ended_at=now))

    def _arrived(self, server_id: str, freeze_id: str) -> bool:
        """Tell whether a guest has come from another host with its freeze.

        The conductor may know of the move before the event that has the
        freeze adopted was worked on; such a guest is no stray.
        """
        self._adopt(server_id)
        record = self._ledger.record(server_id)
        if record is not None:
            return record.request_id == freeze_id
        try:
            guest = self._host.guest(server_id)
            carried = None if guest.run().off else guest.lease()
        except AgentTrouble as trouble:
            LOG.info('Whether server %s came with a freeze is not known: '
                     '%s', server_id, trouble)
            return False
        if carried is None or carried.request_id != freeze_id:
            return False
        # Still arriving, or leaving again: look once more.
        self._check_later(server_id)
        return True

    def _thaw_stray(self, server_id: str) -> bool | None:
        """Thaw a guest of which the journal knows nothing, if frozen."""
        try:
            guest = self._host.guest(server_id)
            if guest.run().off:
                return None
            return freezing.thaw(
                guest.agent, self._conf.compute.freeze_call_timeout,
                freezing.Patience(self._conf.compute.settle_timeout,
                                  self._ledger.wake(server_id))).verified
        except AgentTrouble as trouble:
            LOG.info('Server %s was not seen thawed: %s', server_id,
                     trouble)
            return None
