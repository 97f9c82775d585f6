# SPDX-License-Identifier: Apache-2.0
"""Ends freezes: thaws, verifies, reports, and does not give up.

Every way to end a freeze writes its reason into the record and then runs
:meth:`Thawer.finish`; a restarted worker does the same with the records it
finds. A guest that cannot be thawed yet is tried again until it was seen
thawed or is gone.
"""

from oslo_config import cfg
from oslo_log import log

from stillframe.compute import clock
from stillframe.compute import endings
from stillframe.compute import journal
from stillframe.compute import ledger as ledger_
from stillframe.compute import outcomes
from stillframe.compute import scheduler
from stillframe.compute.libvirt import freezing
from stillframe.compute.libvirt import guest as guest_
from stillframe.compute.libvirt import host as host_
from stillframe.compute.libvirt.troubles import AgentTrouble
from stillframe.compute.libvirt.troubles import Trouble
from stillframe.conf import compute
from stillframe.rpc import payloads

LOG = log.getLogger(__name__)

_RETRY_FIRST = 1.0
_RETRY_MOST = 15.0
_RETRY_PATIENCE = 1.0
# Seconds for libvirt's event that says where a vanished domain went.
_WHITHER = 1.0


class Thawer:
    """Thaws; see the module."""

    def __init__(self, conf: cfg.ConfigOpts, host: host_.Host,
                 ledger: ledger_.Ledger, alarms: scheduler.Alarms):
        self._conf = conf
        self._host = host
        self._ledger = ledger
        self._alarms = alarms

    def longest(self) -> float:
        """Give the seconds for which one piece of work holds a server."""
        return compute.longest_work(self._conf)

    # --- unasked ------------------------------------------------------------

    def expire(self, server_id: str, freeze_id: str,
               reason: str = 'deadline') -> None:
        """Thaw a guest whose freeze has to end.

        :param reason: a key of :data:`outcomes.ENDED`.
        """
        with self._ledger.hold(server_id, self.longest()) as held:
            record = self._ledger.record(server_id)
            if (not held or record is None
                    or record.request_id != freeze_id
                    or record.state != journal.FROZEN):
                # Somebody else has ended it, or is about to.
                return
            self.end(record, reason)

    def end(self, record: journal.Record, reason: str) -> None:
        """End a freeze without a request (with the server's lock)."""
        LOG.warning('Ending the freeze %s of server %s: %s',
                    record.request_id, record.server_id, reason)
        self.begin(record, journal.Ending(
            'freeze_ended', outcomes.new_request_id(), reason,
            clock.wall()))

    def retry(self, server_id: str, wait: float = _RETRY_FIRST) -> None:
        """Go on with ending a freeze at which nobody is any more."""
        with self._ledger.hold(server_id, 0) as held:
            record = self._ledger.record(server_id)
            if record is None or record.ending is None:
                return
            if held:
                self.finish(record, record.ending, _RETRY_PATIENCE, wait)
            elif not held:
                # Somebody is at it, and may leave it unfinished.
                self._alarms.set('retry', server_id, clock.now() + wait,
                                 self.retry, wait)

    # --- the one way to the end ---------------------------------------------

    def begin(self, record: journal.Record, ending: journal.Ending
              ) -> freezing.Thaw | None:
        """Write down why a freeze ends, and end it (with the lock).

        :return: as :meth:`finish`.
        """
        return self.finish(self._ledger.note(record.having(
            state=journal.THAWING, ending=ending)), ending)

    def finish(self, record: journal.Record, ending: journal.Ending,
               patience: float | None = None,
               wait: float = _RETRY_FIRST) -> freezing.Thaw | None:
        """Thaw, verify and report (with the server's lock).

        :param ending: the record's; why it ends, and whom to tell.
        :param patience: seconds to try before it goes on in the
            background; None: as configured.
        :param wait: seconds until the first try in the background.
        :return: how it went; None when the guest no longer runs here.
        """
        if patience is None:
            patience = self._conf.compute.settle_timeout
        # Should this break off in a way that nobody foresaw.
        self._alarms.set('retry', record.server_id,
                         clock.now() + self.longest(), self.retry)
        found = self._ledger.journal.result(record)
        try:
            guest = self._host.guest(record.server_id)
            run = guest.run()
            if run.off:
                self.gone(record, run.migrated)
                return None
            if not self.is_same_run(record, guest, run):
                reason = ending.reason
                if reason != 'restarted':
                    reason = 'rebooted'
                self.close(record, endings.stopped(record, reason), reason)
                return None
            done = freezing.thaw(
                guest.agent, self._conf.compute.freeze_call_timeout,
                freezing.Patience(
                    patience, self._ledger.wake(record.server_id),
                    given_up=lambda: self._ledger.stopping))
        except AgentTrouble as trouble:
            if trouble.kind is Trouble.GONE:
                self.gone(record)
                return None
            done = freezing.Thaw(before=None, clean=False, verified=False,
                                 trouble=trouble)
        if done.verified or not self._ledger.stopping:
            # Else the worker's next life finds the record as it is.
            self._conclude(record, ending, done, found, wait)
        return done

    def _conclude(self, record: journal.Record, ending: journal.Ending,
                  done: freezing.Thaw, found: journal.Result | None,
                  wait: float) -> None:
        outcome = endings.conclude(record, ending, done, found)
        unsure = (record.boot_id == clock.boot_id()
                  and clock.now() < record.may_freeze_until)
        if done.verified and not unsure:
            self.close(record, outcome, ending.reason or ending.kind)
            return
        if not ending.told and outcome is not None:
            self._ledger.tell(outcome)
            record = self._ledger.note(record.having(
                ending=journal.Ending(
                    endings.WATCHED if done.verified else 'thawed',
                    outcomes.new_request_id(), ending.reason, clock.wall(),
                    told=True)))
        if not done.verified:
            LOG.error('Server %s may be frozen and could not be thawed '
                      '(%s); trying again in %.0f s', record.server_id,
                      done.trouble, wait)
        self._alarms.set('retry', record.server_id, clock.now() + wait,
                         self.retry, min(wait * 2, _RETRY_MOST))

    def is_same_run(self, record: journal.Record, guest: guest_.Guest,
                    run: guest_.Run) -> bool:
        """Tell whether what was frozen still runs (with the lock).

        A domain that was started anew has booted and is thawed, unless it
        was restored from a file: then it carries its lease and is as
        frozen as it was.

        :raises AgentTrouble: the domain cannot be asked.
        """
        if run.domain_id == record.domain_id or record.domain_id < 0:
            return True
        carried = guest.lease()
        if carried is None or carried.request_id != record.request_id:
            return False
        self._ledger.note(record.having(domain_id=run.domain_id))
        return True

    def gone(self, record: journal.Record, migrated: bool = False,
             reason: str = 'stopped') -> None:
        """Close the freeze of a guest that no longer runs here.

        :param migrated: it is known to have left for another host.
        """
        if migrated or self._ledger.has_moved(record.server_id, _WHITHER):
            # It is for the host on which the guest runs now.
            outcome = endings.moved(record)
            if outcome is not None:
                self._ledger.tell(outcome)
            self.close(record, None, 'moved')
        else:
            self.close(record, endings.stopped(record, reason), reason)

    def close(self, record: journal.Record,
              outcome: payloads.Outcome | None, reason: str) -> None:
        """Report, forget the record, and take the lease away."""
        self._ledger.end(record, outcome, reason)
        self._alarms.clear(record.server_id)
        if reason in ('moved', 'stopped', 'rebooted'):
            return
        try:
            self._host.guest(record.server_id).carry(None)
        except AgentTrouble as trouble:
            # A lease without a freeze is taken away where it is found.
            LOG.warning('The lease of %s stays in its domain: %s',
                        record.server_id, trouble)
