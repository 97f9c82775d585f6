# SPDX-License-Identifier: Apache-2.0
"""A change of the chain of a volume's disk, and how it ended.

Whatever happens, the live chain is read before anything is done, and read
again before anything is called done. Work that an earlier life of the
worker began is judged by the same look. What is changed is said by
:mod:`stillframe.compute.volume_creation` and
:mod:`stillframe.compute.volume_merge`.
"""

import abc
from collections.abc import Callable
import dataclasses
import threading
from typing import Any

from oslo_config import cfg

from stillframe.compute import brief as brief_
from stillframe.compute import intents as intents_
from stillframe.compute.libvirt import blockjobs
from stillframe.compute.libvirt import chains
from stillframe.compute.libvirt import disks as disks_
from stillframe.compute.libvirt import domain_xml
from stillframe.compute.libvirt import host as host_
from stillframe.compute.libvirt import overlays
from stillframe.compute.libvirt.troubles import AgentTrouble
from stillframe.compute.libvirt.troubles import Trouble
from stillframe.rpc import payloads
from stillframe.states.servers import Result


@dataclasses.dataclass(frozen=True)
class End:
    """How a request ended.

    :ivar formats: of the file that changed.
    :ivar before, after: the chain.
    """

    result: Result
    message: str
    reason: str | None = None
    detail: str | None = None
    formats: dict[str, str] = dataclasses.field(default_factory=dict)
    before: chains.Chain | None = None
    after: chains.Chain | None = None
    consistency: str | None = None
    freeze: dict[str, Any] | None = None

    def special(self, operation_id: str) -> payloads.VolumeSnapshotEnd:
        """Give what the outcome says beyond any other."""
        seen = self.after or self.before
        return {
            'operation_id': operation_id, 'formats': self.formats,
            'learned': chains.formats(seen) if seen else {},
            'chain_before': (None if self.before is None
                             else chains.to_data(self.before)),
            'chain_after': (None if self.after is None
                            else chains.to_data(self.after)),
            'consistency': self.consistency, 'freeze': self.freeze}


class Refused(Exception):
    """It was not done, and the chain is as before."""

    def __init__(self, message: str, reason: str,
                 detail: str | None = None):
        super().__init__(message)
        self.reason = reason
        self.detail = detail


@dataclasses.dataclass(frozen=True)
class Tools:
    """What changes are made with.

    :ivar stopping: the worker stops.
    :ivar progress: told the id of a request, and its percentage.
    """

    conf: cfg.ConfigOpts
    host: host_.Host
    brief: brief_.BriefFreezer
    intents: intents_.Intents
    hearing: blockjobs.Hearing
    stopping: threading.Event
    progress: Callable[[str, int], None]


class Change(abc.ABC):
    """One request."""

    def __init__(self, tools: Tools, intent: intents_.Intent,
                 resumed: bool):
        """Take what it is about.

        :param intent: claimed.
        :param resumed: an earlier life of the worker had taken it up.
        """
        self._tools = tools
        self._conf = tools.conf.volume_snapshots
        self._intent = intent
        if intent.claim is None:
            raise ValueError('the request is not claimed')
        self._claim = intent.claim
        self._snapshot = intent.snapshot
        server_id = self._snapshot['server_id']
        self._access = disks_.DomainDisks(
            lambda: tools.host.domain(server_id),
            self._snapshot['volume_id'])
        self._resumed = resumed
        self._begun = resumed and intent.phase == intents_.CHANGING
        self._before: chains.Chain | None = (
            None if intent.chain_before is None
            else chains.from_data(intent.chain_before))
        self._after: chains.Chain | None = None

    @abc.abstractmethod
    def _change(self) -> End:
        """Do what the request says.

        :raises: what :meth:`perform` turns into an end.
        """

    @abc.abstractmethod
    def _planned(self, before: chains.Chain) -> chains.Plan:
        """Plan what the request says for a chain."""

    def perform(self) -> End:
        """Do what the request says; what goes wrong is an end, too.

        :raises blockjobs.Interrupted: the worker is stopping.
        """
        try:
            return self._change()
        except Refused as no:
            return self._failed(str(no), no.reason, no.detail)
        except blockjobs.JobFailed as failed:
            return self._failed(
                f'{failed} The files are as they were before.',
                failed.reason)
        except blockjobs.ChainUnclear as unclear:
            return self._failed(
                'What became of the disk is not clear; an administrator has '
                'to compare its chain with what Cinder has on record before '
                'the volume is used for snapshots again.', 'unclear',
                str(unclear))
        except chains.ChainError as wrong:
            return self._failed(
                f'The disk does not allow it: {wrong}.', 'chain')
        except domain_xml.BadXML as wrong:
            return self._failed('The definition of the server cannot be '
                                'read.', 'xml', str(wrong))
        except AgentTrouble as trouble:
            return self._failed(
                'The server is not on its host.' if trouble.kind is
                Trouble.GONE else 'The hypervisor could not be asked.',
                str(trouble.kind), str(trouble))

    def _failed(self, message: str, reason: str,
                detail: str | None = None) -> End:
        return End(Result.FAILED, message, reason, detail,
                   before=self._before, after=self._after,
                   consistency=None, freeze=self._intent.freeze)

    def _write(self, **changes: Any) -> None:
        """Keep what is known of the request now."""
        self._intent = self._tools.intents.write(
            self._intent.having(**changes))

    # --- looking ------------------------------------------------------------

    def _look(self) -> tuple[chains.Disk, bool]:
        """Look at the disk, with its chain to the end.

        :return: the disk, and whether the guest is running.
        """
        running = self._access.running()
        disk = self._access.look()
        known = self._claim['formats']
        chain = chains.with_known(disk.chain, known)
        if not running:
            walked = overlays.walk(chain[0])
            if not chains.same_files(walked[:len(chain)], chain):
                raise chains.ChainError(
                    'the definition of the server names other files '
                    f'({chains.describe(chain)}) than their headers '
                    f'({chains.describe(walked)})')
            chain = chains.with_known(walked, known)
        elif not disk.complete:
            raise chains.ChainError('the hypervisor does not show the whole '
                                    'chain')
        return dataclasses.replace(disk, chain=chain, complete=True), running

    def _plan(self, disk: chains.Disk) -> chains.Plan:
        """Plan for the chain as it was before this request."""
        self._check_strays(disk.chain)
        if self._before is None:
            self._before = disk.chain
            self._write(chain_before=chains.to_data(disk.chain))
        self._after = disk.chain
        return self._planned(self._before)

    def _check_strays(self, chain: chains.Chain) -> None:
        """Refuse a disk that is on a file of which Cinder does not know.

        What Cinder asks for is meant for another chain then. Merging that
        very file down is what helps.
        """
        strays = {*self._claim.get('strays', ())} & {
            layer.name for layer in chain}
        strays.discard(self._snapshot.get('new_file') or '')
        if self._snapshot.get('merge_target_file'):
            strays.discard(self._snapshot.get('file_to_merge') or '')
        if strays:
            raise Refused(
                f'The server writes to the file {min(strays)}, of which '
                'Cinder does not know, since it had given that snapshot up. '
                'It has to be merged down first; see the operator\'s '
                'guide.', 'stray')

    def _done(self, plan: chains.Plan, chain: chains.Chain,
              message: str) -> End:
        return End(Result.SUCCESS, message, before=plan.before, after=chain,
                   formats=chains.changed_format(plan, chain),
                   consistency=self._intent.consistency,
                   freeze=self._intent.freeze)

    def _check_free(self, disk: chains.Disk, running: bool) -> None:
        """Refuse a disk on which something else is at work."""
        if disk.job or (running and self._access.job(disk.target)):
            raise Refused('Another block job is running on the disk.',
                          'busy')
