# SPDX-License-Identifier: Apache-2.0
"""One place to wait in: for time to pass, for a call, for the end.

The main thread waits here: that of the agent between two heartbeats, that of
a service for its end. Python runs a handler between two steps of the main
thread; a signal that comes just before that thread begins to wait for a lock
is dealt with when the wait is over, which may be never. A byte in a pipe is
not missed: the interpreter writes it the moment the signal comes.
"""

import os
import select
import signal
from typing import Self

_ENDING = (signal.SIGTERM, signal.SIGINT)
_CALL = b'\0'


class Waker:
    """Catches SIGTERM and SIGINT, as a context manager in the main thread.

    :ivar ending: whether one of them came. Seen after a :meth:`wait`.
    """

    def __init__(self) -> None:
        self.ending = False

    def __enter__(self) -> Self:
        self._read, self._write = os.pipe()
        os.set_blocking(self._read, False)
        os.set_blocking(self._write, False)
        self._before = {one: signal.signal(one, lambda *_: None)
                        for one in _ENDING}
        self._fd_before = signal.set_wakeup_fd(
            self._write, warn_on_full_buffer=False)
        return self

    def __exit__(self, *_exc: object) -> None:
        signal.set_wakeup_fd(self._fd_before)
        for number, handler in self._before.items():
            signal.signal(number, handler)
        os.close(self._read)
        os.close(self._write)

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until somebody calls, the end is near, or time is up.

        :param seconds: None: time is never up.
        :return: whether to go on: no signal to end has come.
        """
        if not self.ending:
            ready, _, _ = select.select(
                [self._read], [], [],
                None if seconds is None else max(0.0, seconds))
            if ready:
                got = os.read(self._read, 4096)
                self.ending = any(number in got for number in _ENDING)
        return not self.ending

    def wake(self) -> None:
        """End a wait, from any thread."""
        try:
            os.write(self._write, _CALL)
        except BlockingIOError:
            # The pipe is full of calls that nobody has read yet: whoever
            # waits wakes anyway.
            return
