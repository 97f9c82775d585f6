# SPDX-License-Identifier: Apache-2.0
"""Ends freezes on request: unquiesce and reset."""

from stillframe.compute import clock
from stillframe.compute import journal
from stillframe.compute import ledger as ledger_
from stillframe.compute import outcomes
from stillframe.compute import thawing
from stillframe.compute.libvirt import freezing
from stillframe.compute.libvirt import guest as guest_
from stillframe.compute.libvirt import host as host_
from stillframe.compute.libvirt.troubles import AgentTrouble
from stillframe.compute.libvirt.troubles import Trouble
from stillframe.states.servers import Result


class Unquiescer:
    """Decides whether there is something to thaw; the thawer does it."""

    def __init__(self, host: host_.Host, ledger: ledger_.Ledger,
                 thawer: thawing.Thawer):
        self._host = host
        self._ledger = ledger
        self._thawer = thawer

    def unquiesce(self, request_id: str, server_id: str,
                  freeze_id: str) -> None:
        """Thaw a guest that a user had quiesced."""
        started_at = clock.wall()
        if self._ledger.known(request_id):
            return
        with self._ledger.hold(server_id, self._thawer.longest()) as held:
            record = self._ledger.record(server_id)
            if not held:
                self._decline(request_id, server_id, freeze_id, started_at,
                              'busy', 'Other work on the server is not '
                              'finished.')
            elif (record is not None and record.request_id == freeze_id
                    and record.ending is not None and record.ending.told):
                # Its deadline has passed and it could not be thawed: it is
                # as frozen as before, and now there is somebody to tell.
                self._thawer.begin(record, journal.Ending(
                    'unquiesce', request_id, None, started_at))
            elif (record is None or record.request_id != freeze_id
                    or record.state != journal.FROZEN):
                self._nothing_to_thaw(request_id, server_id, freeze_id,
                                      started_at)
            else:
                self._unquiesce(record, request_id, started_at)

    def _unquiesce(self, record: journal.Record, request_id: str,
                   started_at: str) -> None:
        ask = (request_id, record.server_id, record.request_id, started_at)
        try:
            run = self._host.guest(record.server_id).run()
        except AgentTrouble as trouble:
            if trouble.kind is not Trouble.GONE:
                self._decline(*ask, 'hypervisor_lost',
                              'The hypervisor does not answer.')
                return
        else:
            if run.halted and run.domain_id == record.domain_id:
                self._decline(*ask, 'not_running', 'The server is paused '
                              'and cannot thaw; resume it first.')
                return
        self._thawer.begin(record, journal.Ending(
            'unquiesce', request_id, None, started_at))

    def _decline(self, *what: str) -> None:
        """Report that an unquiesce did nothing."""
        self._ledger.tell(outcomes.declined(*what))

    def _nothing_to_thaw(self, request_id: str, server_id: str,
                         freeze_id: str, started_at: str) -> None:
        """Report that the freeze to be ended is over."""
        ended = self._ledger.recall(server_id, freeze_id)
        if ended is None:
            message = ('The freeze was over before this request, when and '
                       f'why is not known any more. {outcomes.AGAIN}')
        else:
            message = (f'The freeze was over before this request. '
                       f'{ended.message}')
        self._ledger.tell(outcomes.outcome(
            'unquiesce', server_id, request_id, Result.LOST, message,
            reason=ended.reason if ended else 'lost', freeze_id=freeze_id,
            ended_at=ended.ended_at if ended else None,
            started_at=started_at))

    def reset(self, request_id: str, server_id: str, state: str) -> None:
        """Thaw a guest whose state an administrator resets."""
        ending = journal.Ending('reset', request_id, None, clock.wall(),
                                state=state)
        if self._ledger.known(request_id):
            return
        with self._ledger.hold(server_id, self._thawer.longest()) as held:
            if not held:
                self._reset_without_thaw(
                    server_id, ending, False, 'Other work on the server is '
                    'not finished, so it was not seen thawed.')
                return
            record = self._ledger.record(server_id)
            if record is None:
                record = self._unrecorded(server_id, ending)
            if record is not None:
                self._thawer.begin(record, ending)

    def _unrecorded(self, server_id: str, ending: journal.Ending
                    ) -> journal.Record | None:
        """Look at a guest that is to be reset and has no record.

        :return: a record when it has to be thawed; else the reset has been
            reported.
        """
        try:
            guest = self._host.guest(server_id)
            run = guest.run()
            if run.off:
                raise guest_.gone(server_id)
            if guest.agent.status() is freezing.Status.THAWED:
                self._reset_without_thaw(
                    server_id, ending, True, 'The server was seen thawed.')
                return None
        except AgentTrouble as trouble:
            if trouble.kind is Trouble.GONE:
                self._reset_without_thaw(
                    server_id, ending, None, 'The server is not running, '
                    'so it is not frozen.')
                return None
            if trouble.kind is not Trouble.SILENT:
                self._reset_without_thaw(
                    server_id, ending, None, 'No freeze of the server is '
                    'known, and its guest agent cannot be asked.')
                return None
        now = clock.now()
        return journal.Record(
            server_id=server_id, request_id=ending.request_id,
            connection_uri=self._host.uri, domain_id=run.domain_id,
            boot_id=clock.boot_id(), state=journal.THAWING, timeout=0.0,
            deadline=now, called=0.0, started_at=ending.started_at,
            told=True)

    def _reset_without_thaw(self, server_id: str, ending: journal.Ending,
                            verified: bool | None, message: str) -> None:
        self._ledger.tell(outcomes.reset_without_thaw(
            server_id, ending, verified, message))
