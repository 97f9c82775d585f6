# SPDX-License-Identifier: Apache-2.0
"""Running a merge as a block job of a running guest.

What ends a job is told by events; a poll is the second line, since events
are lost with a connection. Neither is proof of anything: a job that failed,
was cancelled or was never started is as absent as one that did its work.
The proof is the live chain, and it alone decides.
"""

from collections.abc import Callable
from collections.abc import Iterator
import contextlib
import threading

from oslo_log import log

from stillframe.compute import clock
from stillframe.compute.libvirt import chains
from stillframe.compute.libvirt import disks
from stillframe.compute.libvirt.troubles import AgentTrouble
from stillframe.compute.libvirt.troubles import Trouble

LOG = log.getLogger(__name__)

#: Seconds between two looks at a job of which no event tells.
POLL = 1.0
# Seconds for which libvirt may take to show the chain after the job is
# gone; the job goes from QEMU before libvirt has done its part.
_GRACE = 5.0
# Seconds that a cancelled job gets to be gone.
_CANCEL = 30.0

COMPLETED = 'completed'
FAILED = 'failed'
CANCELED = 'canceled'
READY = 'ready'
_ENDED_BADLY = (FAILED, CANCELED)


class JobFailed(Exception):
    """The job did not do its work, and the chain is as it was before.

    :ivar reason: a stable word: ``failed``, ``canceled``, ``timeout``,
        ``refused``, ``vanished`` or ``stopped``.
    """

    def __init__(self, reason: str, message: str):
        super().__init__(message)
        self.reason = reason


class ChainUnclear(Exception):
    """The chain is neither as before nor as planned: touch nothing."""


class Interrupted(Exception):
    """This process is stopping; the job goes on without it."""


class Listener:
    """What is heard about the block job of one disk."""

    def __init__(self) -> None:
        self._event = threading.Event()
        #: The last status heard.
        self.status: str | None = None

    def tell(self, status: str) -> None:
        """Take in a status; called on libvirt's event thread."""
        self.status = status
        self._event.set()

    def wake(self) -> None:
        """Cut a wait short."""
        self._event.set()

    def wait(self, seconds: float) -> None:
        """Wait for news."""
        self._event.wait(seconds)
        self._event.clear()


class Hearing:
    """Passes the events of block jobs to who waits for them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listeners: dict[tuple[str, str], Listener] = {}

    @contextlib.contextmanager
    def listening(self, server_id: str, target: str) -> Iterator[Listener]:
        """Listen to a disk; at most one does at a time."""
        listener = Listener()
        with self._lock:
            self._listeners[server_id, target] = listener
        try:
            yield listener
        finally:
            with self._lock:
                del self._listeners[server_id, target]

    def heard(self, server_id: str, target: str, status: str) -> None:
        """Pass an event on; must not block."""
        with self._lock:
            listener = self._listeners.get((server_id, target))
        if listener is not None:
            listener.tell(status)

    def wake_all(self) -> None:
        """Cut every wait short: something has changed for all."""
        with self._lock:
            for listener in self._listeners.values():
                listener.wake()


class Merge:
    """One merge, from the request until the chain shows it."""

    def __init__(self, access: disks.DomainDisks, plan: chains.Plan,
                 target: str, listener: Listener, *, timeout: float,
                 bandwidth: int, stopping: threading.Event,
                 progress: Callable[[int], None],
                 follow_only: bool = False):
        """Take what is to be done.

        :param plan: made for the chain as it was before any of this; a
            restarted worker passes the one that it had written down.
        :param timeout: seconds after which the job is cancelled.
        :param bandwidth: MiB/s; 0 for no limit.
        :param stopping: set when this process is to end.
        :param progress: is told the percentage from time to time.
        :param follow_only: the job was started by an earlier life; one
            that is not there any more is not started again.
        """
        self._access = access
        self._plan = plan
        self._target = target
        self._listener = listener
        self._until = clock.now() + timeout
        self._timeout = timeout
        self._bandwidth = bandwidth
        self._stopping = stopping
        self._progress = progress
        self._idle_since: float | None = None
        self._started = follow_only
        self._cancelled = False
        self._refused: AgentTrouble | None = None

    def run(self) -> chains.Chain:
        """Do it, or follow a job that runs already.

        :return: the live chain, as planned.
        :raises JobFailed: it was not done; the chain is as before.
        :raises ChainUnclear: the chain is neither.
        :raises ChainError: the disk cannot be found any more.
        :raises Interrupted: see there.
        """
        while True:
            try:
                if not self._started:
                    self._start()
                live = self._look()
                if live is not None:
                    return live
            except AgentTrouble as exc:
                self._consider(exc)
            if self._stopping.is_set():
                raise Interrupted
            self._listener.wait(POLL)

    def _start(self) -> None:
        """Start the job, unless there is one or its work is done."""
        live = self._access.look()
        if (chains.is_done(self._plan, live)
                or self._access.job(self._target) is not None):
            self._started = True
            return
        if not chains.is_untouched(self._plan, live):
            raise ChainUnclear(_differs(self._plan, live))
        # libvirt's numbers for the layers are those of this run.
        plan = chains.replan(self._plan, live.chain)
        self._started = True
        try:
            self._access.start(plan, self._target, self._bandwidth)
        except AgentTrouble as exc:
            # It may have been started all the same; the next look tells.
            self._refused = exc

    def _look(self) -> chains.Chain | None:
        """Look how it is; give the chain once it is as planned."""
        job = self._access.job(self._target)
        overdue = clock.now() - self._until
        if job is not None:
            self._idle_since = None
            if job.total:
                self._progress(min(99, job.done * 100 // job.total))
            if overdue > _CANCEL:
                raise ChainUnclear('the block job does not end although it '
                                   'was cancelled')
            if overdue > 0:
                self._cancel()
            elif self._plan.kind == 'active-commit':
                self._pivot_if_ready()
            return None
        live = self._access.look()
        if chains.is_done(self._plan, live):
            return live.chain
        if live.job is None:
            self._judge_absent(live)
        return None

    def _pivot_if_ready(self) -> None:
        if not self._access.look().ready:
            return
        try:
            self._access.pivot(self._target)
        except AgentTrouble as exc:
            # Not quite ready, or done just now: the next look tells.
            LOG.info('Not pivoted yet: %s', exc)

    def _cancel(self) -> None:
        if not self._cancelled:
            LOG.error('The merge on %s takes longer than %g s; cancelling it',
                      self._target, self._timeout)
            self._cancelled = True
        self._access.cancel(self._target)

    def _judge_absent(self, live: chains.Disk) -> None:
        """No job, and the chain is not as planned: how long may that be?"""
        now = clock.now()
        if self._idle_since is None:
            self._idle_since = now
        told = self._listener.status in _ENDED_BADLY
        if not told and not self._refused and (
                now - self._idle_since < _GRACE):
            return
        if not chains.is_untouched(self._plan, live):
            if now - self._idle_since < _GRACE:
                return
            raise ChainUnclear(_differs(self._plan, live))
        if self._cancelled:
            raise JobFailed('timeout', 'The merge took longer than '
                            f'{self._timeout:g} s and was cancelled.')
        if self._refused is not None:
            raise JobFailed('refused', f'The hypervisor refused the merge: '
                            f'{self._refused}')
        if self._listener.status == CANCELED:
            raise JobFailed('canceled', 'The merge was cancelled by somebody '
                            'else.')
        if self._listener.status == FAILED:
            raise JobFailed('failed', 'The merge failed in the hypervisor; '
                            'its log says why. A full disk is the usual '
                            'reason.')
        raise JobFailed('vanished', 'The merge ended without having been '
                        'done.')

    def _consider(self, exc: AgentTrouble) -> None:
        """Decide whether it makes sense to go on after an error."""
        if exc.kind in (Trouble.GONE, Trouble.NOT_RUNNING):
            raise JobFailed('stopped', 'The server stopped while the merge '
                            'was running.') from exc
        if clock.now() > self._until + _CANCEL:
            raise ChainUnclear(
                f'the hypervisor could not be asked in time: {exc}') from exc
        LOG.warning('The merge on %s cannot be looked at, trying again: %s',
                    self._target, exc)


def _differs(plan: chains.Plan, live: chains.Disk) -> str:
    return ('the chain of the disk is neither as before nor as planned: '
            f'{chains.describe(live.chain)}; before: '
            f'{chains.describe(plan.before)}')
