# SPDX-License-Identifier: Apache-2.0
"""Freezes a guest for one step of the worker's own, such as a snapshot.

The same safety as of a freeze that a user asks for: journal, guard, and a
deadline of its own. The difference is that the worker ends it itself, at
once, and that nobody is told of it. A server that is quiesced already is
left as it is.
"""

from collections.abc import Iterator
import contextlib
import dataclasses

from oslo_config import cfg
from oslo_log import log

from stillframe.compute import clock
from stillframe.compute import endings
from stillframe.compute import journal
from stillframe.compute import ledger as ledger_
from stillframe.compute import outcomes
from stillframe.compute import quiescing
from stillframe.compute import thawing
from stillframe.compute.libvirt import freezing
from stillframe.compute.libvirt import guest as guest_
from stillframe.compute.libvirt import host as host_
from stillframe.compute.libvirt.troubles import AgentTrouble
from stillframe.compute.libvirt.troubles import Trouble

LOG = log.getLogger(__name__)


class NotThawed(Exception):
    """The freeze went wrong, and the guest was not seen thawed since.

    Thawing it goes on behind.
    """


@dataclasses.dataclass
class Moment:
    """What is known of a guest while one step is done, and afterwards.

    :ivar frozen: it is frozen now.
    :ivar quiesced: it was frozen before, by a request of a user's.
    :ivar why_not: when it is not frozen: the reason, as a sentence.
    :ivar detail: the same for administrators.
    :ivar held: afterwards: it was frozen from the step's beginning to its
        end, so what was done in between is consistent.
    :ivar window: afterwards: seconds from the freeze call until the thaw
        was acknowledged; None when nothing was frozen here.
    :ivar verified_thawed: afterwards: it was seen thawed; None when nothing
        was frozen here.
    """

    frozen: bool = False
    quiesced: bool = False
    why_not: str | None = None
    detail: str | None = None
    held: bool = False
    window: float | None = None
    verified_thawed: bool | None = None


class BriefFreezer:
    """Freezes for a step; see the module."""

    def __init__(self, conf: cfg.ConfigOpts, host: host_.Host,
                 ledger: ledger_.Ledger, quiescer: quiescing.Quiescer,
                 thawer: thawing.Thawer):
        self._conf = conf
        self._host = host
        self._ledger = ledger
        self._quiescer = quiescer
        self._thawer = thawer

    @contextlib.contextmanager
    def frozen(self, server_id: str, timeout: float) -> Iterator[Moment]:
        """Freeze a guest, if that can be had, while the block runs.

        Other work on the server waits meanwhile. The block is to look at
        ``frozen`` and to decide whether to go on without; it is to be
        short, and what it calls bounded.

        :param timeout: seconds after which the guest is thawed whatever
            the block is doing.
        :raises quiescing.Refused: other work on the server is not
            finished.
        :raises NotThawed: see there.
        """
        with self._held(server_id):
            record = self._ledger.record(server_id)
            if record is not None and record.state == journal.FROZEN:
                yield from self._quiesced(record)
            else:
                yield from self._brief(server_id, timeout)

    @contextlib.contextmanager
    def frozen_openly(self, server_id: str, timeout: float
                      ) -> Iterator[Moment]:
        """Freeze a guest while the block runs, and let others work on it.

        For a step that has others do something here: to them the server
        is quiesced. The rest is as with :meth:`frozen`, but the block may
        take its time, up to the deadline.
        """
        moment = Moment()
        with self._held(server_id):
            record = self._ledger.record(server_id)
            if record is not None and record.state == journal.FROZEN:
                moment.frozen = moment.quiesced = True
            else:
                record = self._begin(server_id, timeout, moment)
                if moment.frozen and record is not None:
                    self._ledger.write(record)
        try:
            yield moment
        finally:
            if moment.frozen and record is not None:
                self._end(record, moment)

    def _end(self, record: journal.Record, moment: Moment) -> None:
        """End a freeze that others could see, if it is still that one."""
        with self._held(record.server_id):
            found = self._ledger.record(record.server_id)
            if found is None or found.request_id != record.request_id:
                # Something else has ended it, and seen to the thaw.
                return
            if moment.quiesced:
                moment.held = found.remaining() > 0 and self._is_frozen(
                    record.server_id)
            else:
                self._thaw(found, moment)

    @contextlib.contextmanager
    def _held(self, server_id: str) -> Iterator[None]:
        """Hold a server's lock.

        :raises quiescing.Refused: somebody else has it for too long.
        """
        with self._ledger.hold(server_id, self._thawer.longest()) as held:
            if not held:
                raise quiescing.Refused(
                    'busy', 'Other work on the server is not finished. Try '
                    'again.')
            yield

    def _begin(self, server_id: str, timeout: float, moment: Moment
               ) -> journal.Record | None:
        """Freeze, if that can be had; the moment says whether it was.

        :raises NotThawed: see there.
        """
        try:
            guest, record = self._quiescer.prepare(
                outcomes.new_request_id(), server_id, timeout,
                clock.wall(), brief=True)
            return self._freeze(guest, record, moment)
        except quiescing.Refused as no:
            moment.why_not, moment.detail = str(no), no.detail
            return None

    def _quiesced(self, record: journal.Record) -> Iterator[Moment]:
        """Run the block in a freeze that stands already."""
        moment = Moment(frozen=True, quiesced=True)
        yield moment
        moment.held = record.remaining() > 0 and self._is_frozen(
            record.server_id)

    def _is_frozen(self, server_id: str) -> bool:
        try:
            agent = self._host.guest(server_id).agent
            return agent.status() is freezing.Status.FROZEN
        except AgentTrouble as trouble:
            LOG.warning('Server %s was not seen frozen: %s', server_id,
                        trouble)
            return False

    def _brief(self, server_id: str, timeout: float) -> Iterator[Moment]:
        """Run the block in a freeze of its own."""
        moment = Moment()
        record = self._begin(server_id, timeout, moment)
        if not moment.frozen or record is None:
            yield moment
            return
        try:
            yield moment
        finally:
            self._thaw(record, moment)

    def _freeze(self, guest: guest_.Guest, record: journal.Record,
                moment: Moment) -> journal.Record:
        """Send the freeze, and see what came of it.

        :raises NotThawed: see there.
        """
        called = clock.now()
        try:
            count = guest.agent.freeze(
                None, min(self._conf.compute.freeze_call_timeout,
                          record.remaining()))
        except AgentTrouble as trouble:
            moment.detail = str(trouble)
            if trouble.nothing_done:
                moment.why_not = outcomes.CANNOT_QUIESCE[trouble.kind]
                self._thawer.close(record, None, 'refused')
                return record
            moment.why_not = ('The guest agent of the server failed to '
                              'freeze it.')
            if trouble.kind is not Trouble.CONNECTION:
                record = record.having(may_freeze_until=0.0)
            self._thaw(record, moment)
            if not moment.verified_thawed:
                raise NotThawed(
                    f'{moment.why_not} {outcomes.STILL_TRYING}') from trouble
            return record
        record = record.acknowledged(called, count).having(
            state=journal.FROZEN)
        if not count:
            moment.why_not = 'The server has no file system to freeze.'
            self._thawer.close(record, None, 'nothing_frozen')
            return record
        # Memory will do: to the guard a freezing guest is a frozen one,
        # and every sync of the journal would be time in which it stands.
        moment.frozen = True
        return record

    def _thaw(self, record: journal.Record, moment: Moment) -> None:
        in_time = record.remaining() > 0
        done = self._thawer.begin(record, endings.unreported(record))
        if done is None:
            # The guest is off, and with it whatever was frozen.
            moment.verified_thawed = True
            return
        moment.verified_thawed = done.verified
        if done.acknowledged is not None and moment.frozen:
            moment.window = done.acknowledged - record.called
        moment.held = (
            in_time and done.clean
            and done.before is freezing.Status.FROZEN
            and (done.count or 0) >= (record.filesystems or 0))
