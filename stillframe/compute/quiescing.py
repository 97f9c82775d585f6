# SPDX-License-Identifier: Apache-2.0
"""Freezes a guest on request.

The order is what makes it safe: look, ask, write down, let the guard know,
and only then freeze. Until the freeze call nothing can have happened in the
guest, so every trouble before it is a *cannot*; after it only the guest's
own answer counts.
"""

from collections.abc import Callable

from oslo_config import cfg
from oslo_log import log

from stillframe.compute import clock
from stillframe.compute import guardian as guardian_
from stillframe.compute import journal
from stillframe.compute import ledger as ledger_
from stillframe.compute import outcomes
from stillframe.compute import thawing
from stillframe.compute.libvirt import freezing
from stillframe.compute.libvirt import guest as guest_
from stillframe.compute.libvirt import host as host_
from stillframe.compute.libvirt import lease
from stillframe.compute.libvirt.troubles import AgentTrouble
from stillframe.compute.libvirt.troubles import Trouble
from stillframe.states.servers import Result

LOG = log.getLogger(__name__)

# Seconds for which libvirt may hold a command back behind another one (30,
# and one for luck). A freeze call that was cut off, by the death of libvirt's
# client or of the connection, can reach the guest so much later. Once it is
# with the guest, what is asked after it is answered after it.
JOB_WAIT = 31.0


class Refused(Exception):
    """A quiesce that cannot be done; nothing was sent to the guest.

    :ivar reason: a stable word.
    """

    def __init__(self, reason: str, message: str, detail: str | None = None):
        super().__init__(message)
        self.reason = reason
        self.detail = detail


class Quiescer:
    """Freezes; see the module."""

    def __init__(self, conf: cfg.ConfigOpts, host: host_.Host,
                 ledger: ledger_.Ledger, guardian: guardian_.Guardian,
                 thawer: thawing.Thawer,
                 frozen: Callable[[journal.Record], None]):
        """Take what is needed.

        :param frozen: told of each freeze that is to be watched over.
        """
        self._conf = conf
        self._host = host
        self._ledger = ledger
        self._guardian = guardian
        self._thawer = thawer
        self._frozen = frozen

    def quiesce(self, request_id: str, server_id: str, timeout: float,
                mountpoints: list[str] | None) -> None:
        """Freeze a guest; ends in an outcome ``quiesce``.

        :param timeout: seconds from the freeze call to the deadline.
        :param mountpoints: only these; None: all that can be frozen.
        """
        started_at = clock.wall()
        if self._ledger.known(request_id):
            return
        timeout = min(timeout, self._conf.quiesce.max_timeout)
        with self._ledger.hold(server_id, self._thawer.longest()) as held:
            try:
                if not held:
                    raise Refused('busy', 'Other work on the server is not '
                                  'finished, so it was not quiesced. Try '
                                  'again.')
                guest, record = self.prepare(
                    request_id, server_id, timeout, started_at)
                self._freeze_or_undo(guest, record, mountpoints)
            except Refused as no:
                LOG.info('Server %s is not quiesced: %s (%s)', server_id,
                         no, no.detail)
                self._ledger.tell(outcomes.outcome(
                    'quiesce', server_id, request_id, Result.CANNOT,
                    str(no), reason=no.reason, detail=no.detail,
                    timeout=timeout, started_at=started_at))

    def prepare(self, request_id: str, server_id: str, timeout: float,
                started_at: str, brief: bool = False
                ) -> tuple[guest_.Guest, journal.Record]:
        """Do all that comes before a freeze call (with the lock).

        :param brief: see :class:`journal.Record`.
        :return: the guest, and the record that has been written.
        :raises Refused: the guest cannot be frozen.
        """
        guest, run = self._look(server_id)
        return guest, self._write_down(guest, journal.Record(
            server_id=server_id, request_id=request_id,
            connection_uri=self._host.uri, domain_id=run.domain_id,
            boot_id=clock.boot_id(), state=journal.FREEZING,
            timeout=timeout, deadline=clock.now() + timeout,
            called=clock.now(), started_at=started_at, brief=brief,
            may_freeze_until=clock.now() + JOB_WAIT))

    def _look(self, server_id: str) -> tuple[guest_.Guest, guest_.Run]:
        """Find out whether the guest can be frozen at all.

        :raises Refused: it cannot.
        """
        known = self._ledger.record(server_id)
        if known is not None and known.state == journal.FROZEN:
            raise Refused('already_frozen', 'The server is quiesced '
                          'already, so it was not quiesced again.')
        if known is not None:
            raise Refused('busy', 'The server is still being thawed after '
                          'an earlier freeze, so it was not quiesced. Try '
                          'again in a moment.')
        if self._host.missing:
            raise Refused('unsupported', 'The hypervisor cannot freeze '
                          f'servers: {self._host.missing[0]}.')
        try:
            guest = self._host.guest(server_id)
            run = guest.run()
            if run.off:
                raise guest_.gone(server_id)
            if run.halted:
                raise AgentTrouble(Trouble.NOT_RUNNING, 'halted')
            if guest.leaving():
                raise Refused('migrating', 'The server is being migrated or '
                              'saved, so it was not quiesced. Try again '
                              'when that is done.')
            self._guardian.ensure()
            if guest.agent.status() is freezing.Status.FROZEN:
                raise AgentTrouble(Trouble.FROZEN, 'frozen, and not by us')
        except AgentTrouble as trouble:
            raise _refused(trouble) from trouble
        except guardian_.GuardMissing as missing:
            raise Refused(
                'no_guard', 'The host cannot guarantee that the server is '
                'thawed in time, so it was not quiesced. An administrator '
                'has to see why its stillframe-guard does not run.',
                str(missing)) from missing
        return guest, run

    def _write_down(self, guest: guest_.Guest, record: journal.Record
                    ) -> journal.Record:
        """Make the freeze known to the guard and to the domain.

        :raises Refused: that did not work.
        """
        try:
            self._ledger.write(record)
        except OSError as exc:
            raise Refused(
                'no_journal', 'The host cannot write its freeze journal, '
                'so the server was not quiesced. An administrator has to '
                'make room in the state path.', str(exc)) from exc
        try:
            guest.carry(lease.Lease(
                record.request_id, clock.wall_at(record.deadline),
                record.timeout))
        except AgentTrouble as trouble:
            self._ledger.end(record, None, 'refused')
            raise _refused(trouble) from trouble
        return record

    def _freeze_or_undo(self, guest: guest_.Guest, record: journal.Record,
                        mountpoints: list[str] | None) -> None:
        """Freeze; whatever happens that nobody foresaw, thaw.

        :raises Refused: it had no effect.
        """
        try:
            self._freeze(guest, record, mountpoints)
        except Refused:
            raise
        except Exception as exc:
            # Whatever it is, the guest may be frozen by now: thaw, verify,
            # and say so in the outcome.
            LOG.exception('Quiescing server %s broke off', record.server_id)
            self._give_up(record, 'internal', 'An unexpected error happened '
                          'while the server was being quiesced.',
                          repr(exc))

    def _freeze(self, guest: guest_.Guest, record: journal.Record,
                mountpoints: list[str] | None) -> None:
        """Send the freeze, and see what came of it.

        :raises Refused: it had no effect.
        """
        budget = min(self._conf.compute.freeze_call_timeout,
                     record.remaining())
        called = clock.now()
        try:
            filesystems = guest.agent.freeze(mountpoints, budget)
        except AgentTrouble as trouble:
            if trouble.nothing_done:
                self._thawer.close(record, None, 'refused')
                raise _refused(trouble) from trouble
            self._failed(record, trouble, budget)
            return
        record = record.acknowledged(called, filesystems)
        if filesystems == 0:
            # The agent says so itself, and has left its frozen state.
            self._thawer.close(record, None, 'nothing_frozen')
            which = ('None of the named mount points is a mounted file '
                     'system' if mountpoints else
                     'The server has no mounted file system')
            raise Refused(
                'nothing_frozen', f'{which} that can be frozen, so it is '
                'not quiesced. File systems such as vfat, tmpfs and network '
                'shares cannot be frozen.')
        if record.remaining() <= 0:
            self._give_up(record, 'deadline', 'The server was frozen, but '
                          'not before its deadline. Quiesce it with a '
                          'longer timeout.')
            return
        record = self._ledger.note(record.having(state=journal.FROZEN))
        self._frozen(record)

    def _failed(self, record: journal.Record, trouble: AgentTrouble,
                budget: float) -> None:
        """Undo a freeze call whose effect is unknown."""
        if trouble.kind is not Trouble.CONNECTION:
            # It came back with an error; it will not be sent any more.
            record = record.having(may_freeze_until=0.0)
        message = _FAILED.get(trouble.kind, _FAILED[Trouble.REFUSED])
        self._give_up(record, str(trouble.kind), message.format(
            text=_agents_own_words(trouble), seconds=budget), str(trouble))

    def _give_up(self, record: journal.Record, reason: str, message: str,
                 detail: str | None = None) -> None:
        """Thaw again, and report that the quiesce failed."""
        LOG.error('Quiescing server %s failed: %s (%s)', record.server_id,
                  message, detail)
        self._thawer.begin(record, journal.Ending(
            'quiesce', record.request_id, reason, record.started_at,
            message=message, detail=detail))


_FAILED = {
    Trouble.SILENT:
        'The guest agent of the server did not finish the freeze within '
        '{seconds:.0f} seconds. A freeze hook or a busy disk may be slow.',
    Trouble.CONNECTION:
        'The connection to the hypervisor broke while the server was being '
        'frozen.',
    Trouble.REFUSED:
        'The guest agent of the server failed to freeze it: {text}.',
}


def _agents_own_words(trouble: AgentTrouble) -> str:
    """Give the part of an error's text that the agent itself said."""
    text = str(trouble).split("guest-fsfreeze-freeze': ")[-1]
    text = text.split("guest-fsfreeze-freeze-list': ")[-1]
    return ''.join(one for one in text if one.isprintable())[:200]


def _refused(trouble: AgentTrouble) -> Refused:
    return Refused(str(trouble.kind), outcomes.CANNOT_QUIESCE[trouble.kind],
                   str(trouble))
