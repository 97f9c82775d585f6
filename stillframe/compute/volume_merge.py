# SPDX-License-Identifier: Apache-2.0
"""The end of a volume's snapshot: two files of its chain are merged.

By a block job in a running guest, else by qemu-img.
"""

from stillframe.compute import intents as intents_
from stillframe.compute import qemu_img
from stillframe.compute.libvirt import blockjobs
from stillframe.compute.libvirt import chains
from stillframe.compute.libvirt import overlays
from stillframe.compute.volume_changes import Change
from stillframe.compute.volume_changes import End
from stillframe.compute.volume_changes import Refused


class VolumeMerge(Change):
    """One request for a merge."""

    def _planned(self, before: chains.Chain) -> chains.Plan:
        return chains.plan_delete(
            before, self._snapshot['file_to_merge'],
            self._snapshot['merge_target_file'],
            self._claim['merged_before'])

    def _change(self) -> End:
        disk, running = self._look()
        plan = self._plan(disk)
        if plan.kind == 'nothing' or chains.is_done(plan, disk):
            return self._merged(plan, disk.chain,
                                'The files were merged already.')
        if not self._begun:
            overlays.check_chain(plan.before)
            self._check_free(disk, running)
            self._write(phase=intents_.CHANGING)
        if running:
            chain = self._merge_live(plan, disk.target)
        else:
            chain = self._merge_offline(plan, disk.target)
        return self._merged(plan, chain, 'The files were merged.')

    def _merged(self, plan: chains.Plan, chain: chains.Chain,
                message: str) -> End:
        """Make sure that a cold start would see what the guest sees."""
        self._after = chain
        overlays.check_chain(chains.with_known(
            chain, chains.formats(plan.after)))
        return self._done(plan, chain, message)

    def _merge_live(self, plan: chains.Plan, target: str) -> chains.Chain:
        try:
            return self._follow(plan, target)
        except blockjobs.JobFailed as failed:
            if failed.reason != 'stopped':
                raise
            # The guest stopped: before or after its merge was done?
            disk, _ = self._look()
            if not chains.is_done(plan, disk):
                raise
            return disk.chain

    def _follow(self, plan: chains.Plan, target: str) -> chains.Chain:
        server_id = self._snapshot['server_id']
        with self._tools.hearing.listening(server_id, target) as listener:
            return blockjobs.Merge(
                self._access, plan, target, listener,
                timeout=self._conf.merge_timeout,
                bandwidth=self._conf.merge_bandwidth,
                stopping=self._tools.stopping, progress=self._percent,
                follow_only=self._begun).run()

    def _percent(self, percent: int) -> None:
        self._tools.progress(self._intent.operation_id, percent)

    def _merge_offline(self, plan: chains.Plan, target: str) -> chains.Chain:
        tool = qemu_img.ImageTool(self._conf.merge_timeout,
                                  self._tools.stopping, self._percent)
        try:
            tool.merge(plan)
        except qemu_img.ImageToolStopped as exc:
            if self._tools.stopping.is_set():
                raise blockjobs.Interrupted from exc
            raise blockjobs.JobFailed(
                'timeout', 'The merge took longer than '
                f'{self._conf.merge_timeout:g} s.') from exc
        except qemu_img.ImageToolFailed as exc:
            raise Refused('The merge failed. The data of the volume is '
                          'complete in its present files.', 'failed',
                          str(exc)) from exc
        # The definition may name files below the active one, too.
        self._access.define(target, plan.after[0])
        disk, _ = self._look()
        if not chains.is_done(plan, disk):
            raise blockjobs.ChainUnclear(
                f'{chains.describe(disk.chain)} after the merge')
        return disk.chain
