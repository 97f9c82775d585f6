# SPDX-License-Identifier: Apache-2.0
"""The worker's side of the guard: starts it, wakes it, replaces it."""

import os
import pathlib
import selectors
import signal
import socket
import subprocess
import sys
import threading

from oslo_log import log

from stillframe.compute import guard
from stillframe.compute import pidlock

LOG = log.getLogger(__name__)

# Seconds that a new guard gets until it watches.
_START_TIMEOUT = 10.0
# Seconds in which a guard gives a sign of life; its loop waits for nothing.
_ANSWER_TIMEOUT = 3.0
# Seconds between two questions for it.
_ASK_INTERVAL = 5.0
_BACKOFF = (0.0, 0.5, 1.0, 2.0, 5.0)


class GuardMissing(Exception):
    """There is no guard and none could be started."""


class Guardian:
    """Sees to it that exactly one guard is alive."""

    def __init__(self, state_path: str, connection_uri: str,
                 agent_timeout: float):
        self._state_path = pathlib.Path(state_path)
        self._command = [
            sys.executable, '-m', guard.__name__,
            '--state-path', str(self._state_path),
            '--connection-uri', connection_uri,
            '--agent-timeout', str(agent_timeout)]
        self._lock = pidlock.PidLock(self._state_path / guard.GUARD_LOCK)
        self._starting = threading.Lock()
        self._child: subprocess.Popen | None = None
        self._socket = socket.socket(
            socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self._stop_read, self._stop_write = os.pipe()
        self._thread = threading.Thread(
            target=self._watch, name='guardian', daemon=True)

    def start(self) -> None:
        """Start a guard if there is none, and watch over it."""
        self._thread.start()

    def stop(self) -> None:
        """End the watch; the guard stays while there is a freeze."""
        os.write(self._stop_write, b'.')
        self._thread.join(_START_TIMEOUT + 1)

    def close(self) -> None:
        """Let the guard find that it is alone, and close everything."""
        self.poke()
        self._socket.close()
        self._lock.close()
        os.close(self._stop_read)
        os.close(self._stop_write)
        if self._child is not None:
            # Not waited for: it may have a freeze to watch over. A child
            # that outlives us belongs to init.
            self._child.poll()
            self._child.returncode = self._child.returncode or 0

    def pid(self) -> int | None:
        """Give the process id of the guard, or None."""
        return self._lock.holder()

    def ensure(self) -> None:
        """Return when a guard is alive and watches.

        :raises GuardMissing: none does, and none could be started.
        """
        pid = self._lock.holder()
        if pid is not None and self._answers():
            return
        with self._starting:
            if pid is not None and self._lock.holder() == pid:
                self._end(pid)
            if self._lock.holder() is None:
                self._start()

    def _answers(self) -> bool:
        """Ask the guard for a sign of life.

        A process that was stopped, or hangs, holds its lock as well as one
        that watches.
        """
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as asker:
                # Linux gives it a name of its own, which leaves no file.
                asker.bind('')
                asker.settimeout(_ANSWER_TIMEOUT)
                asker.sendto(guard.ASK, str(self._state_path / guard.SOCKET))
                return asker.recv(16) == guard.ASK
        except OSError as exc:
            LOG.debug('The guard does not answer: %s', exc)
            return False

    def _end(self, pid: int) -> None:
        """Kill a guard that does not watch; it keeps nothing in memory.

        :raises GuardMissing: it does not die.
        """
        LOG.error('The guard, process %s, gives no sign of life; replacing '
                  'it', pid)
        handle = -1
        try:
            handle = os.pidfd_open(pid)
            if self._lock.holder() != pid:
                return
            signal.pidfd_send_signal(handle, signal.SIGKILL)
            with selectors.DefaultSelector() as selector:
                selector.register(handle, selectors.EVENT_READ)
                if not selector.select(_START_TIMEOUT):
                    raise GuardMissing(f'process {pid} hangs in the kernel')
        except ProcessLookupError:
            return
        except OSError as exc:
            raise GuardMissing(
                f'process {pid} gives no sign of life and cannot be '
                f'replaced: {exc}') from exc
        finally:
            if handle >= 0:
                os.close(handle)

    def poke(self) -> None:
        """Tell the guard that the journal changed.

        A poke that is lost does no harm: the guard looks by itself.
        """
        try:
            self._socket.sendto(b'.', str(self._state_path / guard.SOCKET))
        except OSError as exc:
            LOG.debug('The guard was not poked: %s', exc)

    def _start(self) -> None:
        ready, given = os.pipe()
        try:
            if self._child is not None:
                self._child.poll()
            with open(self._state_path / guard.LOG_FILE, 'ab') as errors:
                self._child = subprocess.Popen(
                    [*self._command, '--ready-fd', str(given)],
                    stdin=subprocess.DEVNULL, stdout=errors, stderr=errors,
                    pass_fds=(given,), start_new_session=True)
            os.close(given)
            given = -1
            with selectors.DefaultSelector() as selector:
                selector.register(ready, selectors.EVENT_READ)
                alive = (selector.select(_START_TIMEOUT)
                         and os.read(ready, 1))
        except OSError as exc:
            raise GuardMissing(f'it could not be started: {exc}') from exc
        finally:
            os.close(ready)
            if given >= 0:
                os.close(given)
        if not alive and self._lock.holder() is None:
            raise GuardMissing(
                f'it did not come up; see {guard.LOG_FILE} in the state '
                'path')
        LOG.info('The guard runs as process %s', self._lock.holder())

    def _watch(self) -> None:
        failures = 0
        while True:
            try:
                self.ensure()
                failures = 0
                if self._wait_for_end():
                    return
                if self._lock.holder() is None:
                    LOG.error('The guard has died; starting another')
                else:
                    # Time to ask it again.
                    continue
            except GuardMissing as exc:
                LOG.error('There is no guard, so no server can be '
                          'quiesced: %s', exc)
                failures += 1
            except Exception:  # noqa: BLE001
                # Whatever it is, it is no reason to leave the guard alone:
                # without one, no freeze has a second keeper.
                LOG.exception('Watching over the guard failed')
                failures += 1
            if self._stopped(_BACKOFF[min(failures, len(_BACKOFF) - 1)]):
                return

    def _stopped(self, wait: float | None) -> bool:
        with selectors.DefaultSelector() as selector:
            selector.register(self._stop_read, selectors.EVENT_READ)
            return bool(selector.select(wait))

    def _wait_for_end(self) -> bool:
        """Wait until the guard dies, or is to be asked again.

        :return: True when it was the watch that was ended.
        """
        pid = self._lock.holder()
        if pid is None:
            return self._stopped(0)
        try:
            handle = os.pidfd_open(pid)
        except ProcessLookupError:
            return self._stopped(0)
        try:
            if self._lock.holder() != pid:
                # It died meanwhile; the number may be another's by now.
                return self._stopped(0)
            with selectors.DefaultSelector() as selector:
                selector.register(handle, selectors.EVENT_READ)
                selector.register(self._stop_read, selectors.EVENT_READ)
                ready = [key.fd for key, _ in selector.select(_ASK_INTERVAL)]
        finally:
            os.close(handle)
        if self._child is not None:
            self._child.poll()
        return self._stop_read in ready
