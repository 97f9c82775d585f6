# SPDX-License-Identifier: Apache-2.0
"""Threads that work on nodes, one piece of work a node at a time.

Nothing is ever refused for want of a thread: what cannot run yet waits. The
same work asked for again while it waits is one piece of work, so a node
that reports often cannot fill the queue.
"""

import collections
from collections.abc import Callable
import threading
import time

from oslo_log import log

LOG = log.getLogger(__name__)

Job = Callable[[], None]


class Workers:
    """A pool of threads, made as they are needed.

    :param name: of the threads.
    :param most: threads at once.
    """

    def __init__(self, name: str, most: int):
        self._name = name
        self._most = most
        self._changed = threading.Condition()
        self._waiting: dict[str, dict[str, Job]] = {}
        self._ready: collections.deque[str] = collections.deque()
        self._running: set[str] = set()
        self._threads: list[threading.Thread] = []
        self._idle = 0
        self._stopping = False

    def submit(self, key: str, what: str, job: Job) -> None:
        """Have work done; when it raises, that is logged.

        :param key: of the node: work with the same key comes one after the
            other.
        :param what: the kind of work: the same that waits already is
            replaced by this.
        """
        with self._changed:
            if self._stopping:
                return
            waits = key in self._waiting
            self._waiting.setdefault(key, {})[what] = job
            if waits or key in self._running:
                return
            self._ready.append(key)
            if (len(self._ready) > self._idle
                    and len(self._threads) < self._most):
                thread = threading.Thread(
                    target=self._work, daemon=True,
                    name=f'{self._name}-{len(self._threads)}')
                self._threads.append(thread)
                thread.start()
            self._changed.notify()

    def has(self, key: str) -> bool:
        """Tell whether work for a node waits or runs."""
        with self._changed:
            return key in self._running or key in self._waiting

    def stop(self, timeout: float) -> None:
        """End: what waits is dropped, what runs is waited for.

        :param timeout: seconds. What still runs then ends with the
            process.
        """
        with self._changed:
            self._stopping = True
            self._waiting.clear()
            self._ready.clear()
            self._changed.notify_all()
            threads = list(self._threads)
        until = time.monotonic() + timeout
        for thread in threads:
            thread.join(max(0.0, until - time.monotonic()))

    def _work(self) -> None:
        while True:
            with self._changed:
                while not self._ready:
                    if self._stopping:
                        return
                    self._idle += 1
                    self._changed.wait()
                    self._idle -= 1
                key = self._ready.popleft()
                queue = self._waiting[key]
                what, job = next(iter(queue.items()))
                del queue[what]
                if not queue:
                    del self._waiting[key]
                self._running.add(key)
            try:
                job()
            except Exception:
                # The thread has further jobs; what this one left undone is
                # found by recovery.
                LOG.exception('%s of %s failed', what, key)
            finally:
                with self._changed:
                    self._running.discard(key)
                    if key in self._waiting:
                        self._ready.append(key)
                        self._changed.notify()
