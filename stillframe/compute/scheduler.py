# SPDX-License-Identifier: Apache-2.0
"""Does things at moments of the boot-time clock, one thread for all."""

from collections.abc import Callable
import heapq
import itertools
import threading

from oslo_log import log

from stillframe.compute import clock

LOG = log.getLogger(__name__)

# The thread's waits run on a clock that stands still while the host
# sleeps, so it looks again at least this often (seconds).
_LONGEST = 5.0


class Scheduler:
    """Timers by key; a new timer for a key replaces the old one.

    What a timer calls must return at once: it hands work to a pool.
    """

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._heap: list[tuple[float, int, tuple]] = []
        self._timers: dict[tuple, tuple[int, Callable[[], object]]] = {}
        self._number = itertools.count()
        self._stopping = False
        self._thread = threading.Thread(
            target=self._run, name='scheduler', daemon=True)

    def start(self) -> None:
        """Begin to run timers."""
        self._thread.start()

    def stop(self) -> None:
        """End; timers that are not due yet never run."""
        with self._condition:
            self._stopping = True
            self._condition.notify()
        self._thread.join(10)

    def at(self, moment: float, key: tuple,
           call: Callable[[], object]) -> None:
        """Call something at a moment of :func:`clock.now`."""
        with self._condition:
            number = next(self._number)
            self._timers[key] = (number, call)
            heapq.heappush(self._heap, (moment, number, key))
            self._condition.notify()

    def after(self, seconds: float, key: tuple,
              call: Callable[[], object]) -> None:
        """Call something in so many seconds."""
        self.at(clock.now() + seconds, key, call)

    def cancel(self, key: tuple) -> None:
        """Drop a timer, if it has not run."""
        with self._condition:
            self._timers.pop(key, None)

    def _next(self) -> Callable[[], object] | None:
        """Wait for the next timer; None at the end."""
        with self._condition:
            while not self._stopping:
                left = _LONGEST
                if self._heap:
                    moment, number, key = self._heap[0]
                    if self._timers.get(key, (None,))[0] != number:
                        heapq.heappop(self._heap)
                        continue
                    left = moment - clock.now()
                    if left <= 0:
                        heapq.heappop(self._heap)
                        return self._timers.pop(key)[1]
                self._condition.wait(min(left, _LONGEST))
        return None

    def _run(self) -> None:
        while (call := self._next()) is not None:
            try:
                call()
            except Exception:  # noqa: BLE001
                # Whatever it is: the deadlines of other servers depend on
                # this thread.
                LOG.exception('A timer failed')


class Alarms:
    """Timers of servers, whose work is done on a pool."""

    _NAMES = ('deadline', 'check', 'retry')

    def __init__(self, scheduler: Scheduler,
                 submit: Callable[..., object]):
        self._scheduler = scheduler
        self._submit = submit

    def set(self, name: str, server_id: str, moment: float,
            call: Callable[..., object], *args: object) -> None:
        """Have something done at a moment of :func:`clock.now`.

        :param name: one alarm of each name a server.
        """
        self._scheduler.at(moment, (name, server_id),
                           lambda: self._submit(call, server_id, *args))

    def clear(self, server_id: str) -> None:
        """Drop all alarms of a server."""
        for name in self._NAMES:
            self._scheduler.cancel((name, server_id))
