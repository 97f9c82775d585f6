# SPDX-License-Identifier: Apache-2.0
"""Telling the API again and again that this agent is there.

Runs in the main thread, between signals. All pauses are drawn at random, so
that many agents do not call in one moment.
"""

from collections.abc import Callable
import logging
import random
import threading
import time

from stillframe.agent import api as bare_metal
from stillframe.agent import waking

LOG = logging.getLogger(__name__)

# Parts of the time-out after which the next one is sent.
_EARLIEST, _LATEST = 0.3, 0.6
# Seconds: between two heartbeats, whoever asks for one; after a failure.
_CLOSEST = 5.0
_AFTER_FAILURE = (5.0, 10.0)
# An agent that nobody has listened to for so long is of no use any more:
# a number of time-outs, and at least so many seconds.
_GIVE_UP_TIMEOUTS = 4
_GIVE_UP_LEAST = 3600.0


class Unheard(Exception):
    """No heartbeat was accepted for too long; the text has the reason."""


class Heartbeat:
    """Sends heartbeats until the agent is to end."""

    def __init__(self, send: Callable[[], None], timeout: float,
                 waker: waking.Waker, busy: Callable[[], bool],
                 clock: Callable[[], float] = time.monotonic):
        """Prepare; nothing is sent yet.

        :param send: sends one heartbeat.
        :param timeout: seconds of silence that the API puts up with.
        :param busy: whether a command is running.
        """
        self._send = send
        self._timeout = timeout
        self._waker = waker
        self._busy = busy
        self._clock = clock
        self._forced = threading.Event()
        self._heard = clock()
        self._sent = clock()
        self._pause = 0.0

    def force(self) -> None:
        """Send one soon, from any thread: a command has ended."""
        self._forced.set()
        self._waker.wake()

    def run(self) -> None:
        """Send heartbeats; the first at once.

        :raises Unheard: none was accepted for too long, and no command is
            running that a restarted API would ask about.
        """
        self.beat()
        while self._waker.wait(self.due_in()):
            if self.due_in() <= 0:
                self.beat()

    def due_in(self) -> float:
        """Give the seconds until the next one is to be sent."""
        pause = self._pause
        if self._forced.is_set():
            pause = min(pause, _CLOSEST)
        return max(0.0, self._sent + pause - self._clock())

    def beat(self) -> None:
        """Send one now and choose the time of the next.

        :raises Unheard: see :meth:`run`.
        """
        # Before sending: a command may end while it is on its way.
        self._forced.clear()
        try:
            self._send()
        except (bare_metal.Unreachable, bare_metal.Refused) as exc:
            # The next try comes soon, forced or not.
            self._failed(exc)
        else:
            LOG.debug('heartbeat accepted')
            self._heard = self._clock()
            self._pause = self._timeout * random.uniform(_EARLIEST, _LATEST)
        self._sent = self._clock()

    def _failed(self, exc: Exception) -> None:
        silent = self._clock() - self._heard
        limit = max(_GIVE_UP_LEAST, _GIVE_UP_TIMEOUTS * self._timeout)
        if silent > limit and not self._busy():
            raise Unheard(
                f'No heartbeat was accepted for {silent:.0f} s, lastly: '
                f'{exc}') from exc
        self._pause = random.uniform(*_AFTER_FAILURE)
        LOG.warning('heartbeat: %s; trying again in %.1f s', exc,
                    self._pause)
