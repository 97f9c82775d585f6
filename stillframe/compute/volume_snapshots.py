# SPDX-License-Identifier: Apache-2.0
"""Takes up requests for volume snapshots, and sees each to its outcome.

The order that makes it safe: write the intent, claim the request (so that
one that was given up is never begun), change the chain, keep the outcome,
forget the intent. A worker that was killed takes its intents up again.
"""

from collections.abc import Callable
import concurrent.futures
import threading

import libvirt
from oslo_config import cfg
from oslo_log import log

from stillframe import context
from stillframe import exceptions
from stillframe.compute import brief as brief_
from stillframe.compute import clock
from stillframe.compute import intents as intents_
from stillframe.compute import outcomes
from stillframe.compute import volume_changes
from stillframe.compute import volume_creation
from stillframe.compute import volume_merge
from stillframe.compute.libvirt import blockjobs
from stillframe.compute.libvirt import host as host_
from stillframe.rpc import conductor_api
from stillframe.rpc import payloads
from stillframe.states import volume_snapshots as states
from stillframe.states.servers import Result

LOG = log.getLogger(__name__)

_STATUS = {
    libvirt.VIR_DOMAIN_BLOCK_JOB_COMPLETED: blockjobs.COMPLETED,
    libvirt.VIR_DOMAIN_BLOCK_JOB_FAILED: blockjobs.FAILED,
    libvirt.VIR_DOMAIN_BLOCK_JOB_CANCELED: blockjobs.CANCELED,
    libvirt.VIR_DOMAIN_BLOCK_JOB_READY: blockjobs.READY,
}

# Seconds between two tries to reach the conductor for a claim.
_CLAIM_WAIT = 0.5


class VolumeSnapshots:
    """The volume snapshots of this host."""

    def __init__(self, conf: cfg.ConfigOpts, host: host_.Host,
                 brief: brief_.BriefFreezer,
                 conductor: conductor_api.ConductorAPI,
                 tell: Callable[[payloads.Outcome], None]):
        """Take what is needed.

        :param tell: keeps an outcome durably until it is acknowledged.
        """
        self._conf = conf
        self._conductor = conductor
        self._tell = tell
        self._intents = intents_.Intents(conf.state_path)
        self._hearing = blockjobs.Hearing()
        self._stopping = threading.Event()
        # Merges take hours; they have threads of their own.
        self._pool = concurrent.futures.ThreadPoolExecutor(
            conf.compute.threads, thread_name_prefix='volume')
        self._progress = _Progress(conf, conductor)
        self._tools = volume_changes.Tools(
            conf, host, brief, self._intents, self._hearing,
            self._stopping, self._progress.note)
        self._lock = threading.Lock()
        self._active: set[str] = set()

    def stop(self) -> None:
        """Stop; block jobs go on and are taken up in the next life."""
        self._stopping.set()
        self._hearing.wake_all()
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._progress.stop()

    def heard(self, event: host_.Event) -> None:
        """Take in an event about a block job; must not block."""
        if event.device is not None and event.event in _STATUS:
            self._hearing.heard(event.server_id, event.device,
                                _STATUS[event.event])

    def connected(self) -> None:
        """libvirt is there again; must not block."""
        self._hearing.wake_all()

    # --- entrances ----------------------------------------------------------

    def knows(self, operation_id: str) -> bool:
        """Tell whether something of a request is on this host."""
        return self._intents.has(operation_id)

    def recover(self) -> None:
        """Take up what an earlier life left."""
        for intent in self._intents.all():
            LOG.warning('Taking up volume snapshot request %s (%s)',
                        intent.operation_id, intent.phase)
            self._submit(intent.operation_id, self._resume, intent)

    def take_up(self, snapshot: payloads.VolumeSnapshot) -> None:
        """Begin a request; one that is known already is left alone."""
        self._submit(snapshot['operation_id'], self._begin, snapshot)

    def _submit(self, operation_id: str, call: Callable[..., None],
                what: object) -> None:
        with self._lock:
            if operation_id in self._active:
                return
            self._active.add(operation_id)
        self._pool.submit(self._run, operation_id, call, what)

    def _run(self, operation_id: str, call: Callable[..., None],
             what: object) -> None:
        try:
            call(what)
        except blockjobs.Interrupted:
            LOG.info('Volume snapshot request %s goes on without this '
                     'worker', operation_id)
        except Exception:
            # Whatever it is: it ends in a future at which nobody looks. No
            # outcome is made up for it, since the chain may have changed.
            LOG.exception('Volume snapshot request %s failed; its intent '
                          'stays for the next start', operation_id)
            raise
        finally:
            with self._lock:
                self._active.discard(operation_id)

    # --- work ---------------------------------------------------------------

    def _begin(self, snapshot: payloads.VolumeSnapshot) -> None:
        # Before the claim: of one that is ours and not begun, the next life
        # must know.
        self._work_claimed(self._intents.write(intents_.Intent(
            snapshot, None, clock.wall())), resumed=False)

    def _resume(self, intent: intents_.Intent) -> None:
        if intent.claim is None:
            self._work_claimed(intent, resumed=True)
        else:
            self._work(intent, resumed=True)

    def _work_claimed(self, intent: intents_.Intent, resumed: bool) -> None:
        """Claim a request, and do its work if that may be."""
        claim = self._claim(intent.snapshot)
        if claim is not None and claim['go']:
            self._work(self._intents.write(intent.having(claim=claim)),
                       resumed)
            return
        if claim is None:
            self._conclude(intent.snapshot, intent.started_at,
                           volume_changes.End(
                               Result.CANNOT, 'The compute worker could not '
                               'reach a conductor, so nothing was begun.'))
        else:
            LOG.warning('Volume snapshot request %s is not ours any more',
                        intent.operation_id)
        self._intents.remove(intent)

    def _claim(self, snapshot: payloads.VolumeSnapshot
               ) -> payloads.VolumeSnapshotClaim | None:
        """Ask whether to begin; None when nobody answers for too long."""
        until = clock.now() + self._conf.volume_snapshots.claim_timeout
        while True:
            try:
                return self._conductor.claim_volume_snapshot(
                    context.system_context(), self._conf.compute.host,
                    snapshot['operation_id'])
            except exceptions.ServiceUnavailable as exc:
                LOG.warning('Volume snapshot request %s waits: %s',
                            snapshot['operation_id'], exc)
            if clock.now() > until:
                return None
            if self._stopping.wait(_CLAIM_WAIT):
                raise blockjobs.Interrupted

    def _work(self, intent: intents_.Intent, resumed: bool) -> None:
        change = (volume_creation.VolumeCreation
                  if intent.snapshot['operation'] == states.CREATE
                  else volume_merge.VolumeMerge)
        end = change(self._tools, intent, resumed).perform()
        self._conclude(intent.snapshot, intent.started_at, end)
        self._intents.remove(intent)

    def _conclude(self, snapshot: payloads.VolumeSnapshot, started_at: str,
                  end: volume_changes.End) -> None:
        log_ = LOG.info if end.result is Result.SUCCESS else LOG.error
        log_('Volume %s, %s of snapshot %s: %s (%s)',
             snapshot['volume_id'], snapshot['operation'],
             snapshot['snapshot_id'], end.message, end.detail)
        self._tell(outcomes.outcome(
            'volume_snapshot', snapshot['server_id'],
            snapshot['operation_id'], end.result, end.message,
            started_at=started_at, reason=end.reason, detail=end.detail,
            snapshot=end.special(snapshot['operation_id'])))


class _Progress:
    """Reports how far merges are; what cannot be reported is dropped."""

    def __init__(self, conf: cfg.ConfigOpts,
                 conductor: conductor_api.ConductorAPI):
        self._conf = conf
        self._conductor = conductor
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._latest: dict[str, int] = {}
        self._stopping = False
        self._thread = threading.Thread(
            target=self._report, name='volume-progress', daemon=True)
        self._thread.start()

    def note(self, operation_id: str, percent: int) -> None:
        """Report a figure soon; a later one replaces it."""
        with self._lock:
            self._latest[operation_id] = percent
        self._wake.set()

    def stop(self) -> None:
        """End."""
        self._stopping = True
        self._wake.set()
        self._thread.join(self._conf.compute.report_timeout + 1)

    def _report(self) -> None:
        while not self._stopping:
            self._wake.wait()
            self._wake.clear()
            with self._lock:
                latest, self._latest = self._latest, {}
            for operation_id, percent in latest.items():
                try:
                    self._conductor.report_volume_snapshot(
                        context.system_context(), self._conf.compute.host,
                        operation_id, percent)
                except exceptions.StillframeError as exc:
                    # A figure that is lost does no harm; later ones come.
                    LOG.info('Progress is not reported: %s', exc)
