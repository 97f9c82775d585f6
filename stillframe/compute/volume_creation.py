# SPDX-License-Identifier: Apache-2.0
"""A new snapshot of a volume: its disk is switched to a new file.

The guest is frozen for the switch, if that can be had.
"""

from oslo_log import log

from stillframe.compute import brief as brief_
from stillframe.compute import clock
from stillframe.compute import intents as intents_
from stillframe.compute import quiescing
from stillframe.compute.libvirt import blockjobs
from stillframe.compute.libvirt import chains
from stillframe.compute.libvirt import overlays
from stillframe.compute.libvirt.troubles import AgentTrouble
from stillframe.compute.libvirt.troubles import Trouble
from stillframe.compute.volume_changes import Change
from stillframe.compute.volume_changes import End
from stillframe.compute.volume_changes import Refused
from stillframe.states import volume_snapshots as states

LOG = log.getLogger(__name__)

# Seconds for which a chain may stay unseen after a switch, because the
# connection to libvirt broke under it: inside the freeze, and after it.
_SEE_FROZEN = 5.0
_SEE = 120.0
_SEE_PAUSE = 0.2


class VolumeCreation(Change):
    """One request for a new snapshot."""

    def _planned(self, before: chains.Chain) -> chains.Plan:
        return chains.plan_create(before, self._snapshot['new_file'])

    def _change(self) -> End:
        disk, running = self._look()
        plan = self._plan(disk)
        if plan.kind == 'nothing' or chains.is_done(plan, disk):
            return self._done(plan, disk.chain, 'The disk was on the new '
                              'file already.')
        if self._resumed:
            # Cinder may have given it up meanwhile, and would not know of
            # the file that the guest writes to.
            raise Refused('The compute worker was interrupted before the '
                          'disk was switched to the new file. Nothing was '
                          'changed.', 'interrupted')
        self._check_free(disk, running)
        overlays.check_new(plan.changed, plan.before[0],
                           self._access.size(disk.target) if running
                           else overlays.size(plan.before[0]))
        self._write(phase=intents_.CHANGING)
        if running:
            trouble = self._switch_frozen(plan, disk.target)
        else:
            trouble = self._switch(plan, disk.target)
            self._record(brief_.Moment(why_not='The server is not running.'))
        chain = self._see_switched(plan, trouble, _SEE)
        message = 'The disk was switched to the new file.'
        if self._intent.consistency == states.CRASH:
            message += ' The snapshot is as after a power cut.'
        return self._done(plan, chain, message)

    def _switch_frozen(self, plan: chains.Plan, target: str
                       ) -> AgentTrouble | None:
        """Switch the disk, with the guest frozen if that can be had.

        :return: the trouble that the switch itself had, if any.
        """
        server_id = self._snapshot['server_id']
        moment = brief_.Moment()
        trouble = None
        switched = False
        try:
            with self._tools.brief.frozen(
                    server_id, self._conf.freeze_timeout) as moment:
                if not moment.frozen:
                    self._check_not_required(moment)
                switched = True
                trouble = self._switch(plan, target)
        except quiescing.Refused as no:
            raise Refused(str(no), no.reason, no.detail) from no
        except brief_.NotThawed as exc:
            if not switched:
                moment.why_not = str(exc)
                self._check_not_required(moment)
                trouble = self._switch(plan, target)
        self._record(moment)
        return trouble

    def _check_not_required(self, moment: brief_.Moment) -> None:
        if (self._snapshot.get('require_quiesce')
                or self._access.requires_quiesce()):
            raise Refused(
                'The server must be frozen for a snapshot '
                '(os_require_quiesce), and could not be: '
                f'{moment.why_not}', 'not_frozen', moment.detail)

    def _switch(self, plan: chains.Plan, target: str
                ) -> AgentTrouble | None:
        try:
            self._access.switch(target, plan.changed)
        except AgentTrouble as trouble:
            # It may have been done all the same; what counts is the chain.
            LOG.warning('Switching %s: %s', target, trouble)
            try:
                self._see_switched(plan, trouble, _SEE_FROZEN)
            except (blockjobs.JobFailed, blockjobs.ChainUnclear) as exc:
                LOG.warning('Not seen switched while frozen: %s', exc)
            return trouble
        return None

    def _record(self, moment: brief_.Moment) -> None:
        """Keep how the guest was frozen for the switch."""
        by = None
        if moment.frozen:
            by = 'quiesce' if moment.quiesced else 'snapshot'
        self._write(
            consistency=states.FILESYSTEM if moment.held else states.CRASH,
            freeze={'by': by, 'window': moment.window,
                    'reason': moment.why_not, 'detail': moment.detail,
                    'verified_thawed': moment.verified_thawed})

    def _see_switched(self, plan: chains.Plan, trouble: AgentTrouble | None,
                      seconds: float) -> chains.Chain:
        """Wait until the chain can be read, and judge it.

        :raises JobFailed: the disk was not switched.
        :raises ChainUnclear: neither, or it cannot be read.
        """
        until = clock.now() + seconds
        while True:
            try:
                disk, _ = self._look()
            except AgentTrouble as blind:
                if (blind.kind is Trouble.CONNECTION
                        and clock.now() < until
                        and not self._tools.stopping.wait(_SEE_PAUSE)):
                    continue
                if self._tools.stopping.is_set():
                    raise blockjobs.Interrupted from blind
                raise blockjobs.ChainUnclear(str(blind)) from blind
            self._after = disk.chain
            if chains.is_done(plan, disk):
                return disk.chain
            if chains.is_untouched(plan, disk):
                raise blockjobs.JobFailed(
                    'refused', 'The hypervisor did not switch the disk to '
                    f'the new file: {trouble}')
            raise blockjobs.ChainUnclear(
                f'{chains.describe(disk.chain)} after the switch')
