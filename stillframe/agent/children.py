# SPDX-License-Identifier: Apache-2.0
"""Programs that the agent runs, each with a bound.

A program that copies a disk may run for hours; what is bounded is the time
in which nothing moves. A program that can be told how long it may take is
bounded by that.
"""

from collections.abc import Callable
import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import threading
import time

from stillframe.agent import failures

# Seconds between two looks whether something moves.
_LOOK = 0.5
# Seconds for the kernel to end what was killed.
_LAST = 10.0
# Of what a program printed, in an error.
_MOST_WORDS = 300


def moved(pid: int) -> int:
    """Count the bytes that a process has read and written so far.

    :return: 0 for one that is gone.
    """
    try:
        lines = pathlib.Path(f'/proc/{pid}/io').read_text().split()
    except OSError:
        return 0
    return int(lines[1]) + int(lines[3])


def _path() -> str:
    """Give the folders of programs; an init may name too few."""
    return os.environ.get('PATH', '') + ':/usr/sbin:/sbin:/usr/bin:/bin'


def need(*programs: str) -> None:
    """See that programs are there.

    :raises BadOrder: one is not; the text names it.
    """
    for program in programs:
        if shutil.which(program, path=_path()) is None:
            raise failures.BadOrder(
                f'This ramdisk has no {program}, which the ordered '
                'transport needs.')


class Children:
    """Runs one program after the other, until told to stop.

    :ivar stopped: whether :meth:`stop` was called.
    """

    def __init__(self) -> None:
        self.stopped = False
        self._lock = threading.Lock()
        self._child: subprocess.Popen | None = None

    def stop(self) -> None:
        """End the program that runs, and begin none; from any thread."""
        with self._lock:
            self.stopped = True
            if self._child is not None:
                _kill(self._child)

    def check(self) -> None:
        """Raise Stopped if :meth:`stop` was called."""
        if self.stopped:
            raise failures.Stopped('The stream was stopped.')

    def run(self, *argv: str, limit: float = 0.0, silence: float = 0.0,
            watch: Callable[[int], int] = moved) -> None:
        """Run a program to its end.

        :param limit: seconds that it may take; 0 for no limit.
        :param silence: seconds in which nothing needs to move; 0 for no
            limit.
        :param watch: counts what has moved, given the program's process.
        :raises SendFailed: it failed, or was killed since it hung.
        :raises Stopped: :meth:`stop` was called.
        """
        with self._lock:
            self.check()
            try:
                child = self._child = subprocess.Popen(
                    argv, env={**os.environ, 'PATH': _path()},
                    stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT, start_new_session=True)
            except OSError as exc:
                raise failures.SendFailed(
                    f'{argv[0]} cannot be run: {exc.strerror}.') from exc
        try:
            output = self._watched(child, argv[0], limit, silence, watch)
        finally:
            with self._lock:
                self._child = None
        self.check()
        if child.returncode:
            raise failures.SendFailed(
                f'{argv[0]} failed ({child.returncode}): '
                f'{_words(output, argv)}.')

    def _watched(self, child: subprocess.Popen, name: str, limit: float,
                 silence: float, watch: Callable[[int], int]) -> bytes:
        began = heard = time.monotonic()
        seen = -1
        while True:
            try:
                return child.communicate(timeout=_LOOK)[0]
            except subprocess.TimeoutExpired:
                now = time.monotonic()
            if self.stopped:
                # Killed already; who does not end then hangs in the kernel.
                _end(child)
                return b''
            if (count := watch(child.pid)) != seen:
                seen, heard = count, now
            if limit and now - began > limit:
                _end(child)
                raise failures.SendFailed(
                    f'{name} took more than {limit:g} s and was ended.')
            if silence and now - heard > silence:
                _end(child)
                raise failures.SendFailed(
                    f'{name} did nothing for {silence:g} s and was ended.')


def _kill(child: subprocess.Popen) -> None:
    if child.poll() is None:
        # All of its session: mount has helpers. Another thread may just be
        # waiting for it, and have reaped it since.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)


def _end(child: subprocess.Popen) -> None:
    _kill(child)
    try:
        child.communicate(timeout=_LAST)
    except subprocess.TimeoutExpired:
        # It hangs in the kernel, and ends when that lets go of it.
        return


def _words(output: bytes, argv: tuple[str, ...]) -> str:
    """Say what a program printed, without what it was called with."""
    text = output.decode(errors='replace')
    for word in argv[1:]:
        if '/' in word:
            text = text.replace(word, '...')
    text = ' '.join(text.split())
    return text[-_MOST_WORDS:].rstrip('.') or 'it said nothing'
