# SPDX-License-Identifier: Apache-2.0
"""stillframe-guard: thaws what is overdue when nobody else does.

A process of its own on the hypervisor. It depends on the freeze journal and
libvirt, on nothing else. The main loop never calls libvirt, so that nothing
can hang it: for each overdue record it forks a child that thaws, and kills
a child that takes too long. Only children write results; nobody here
removes a record, since the worker has yet to report it.

All that a child runs is loaded before it is needed, so that an installation
may be replaced under a running guard.

The worker starts it and restarts it. It ends by itself when there is
neither a worker nor a freeze left to watch over.
"""

import argparse
import contextlib
import logging
import logging.handlers
import os
import pathlib
import selectors
import signal
import socket
import sys
import time

from stillframe.compute import clock
from stillframe.compute import guard_thaw
from stillframe.compute import journal
from stillframe.compute import pidlock

LOG = logging.getLogger('stillframe-guard')

GUARD_LOCK = 'guard.lock'
WORKER_LOCK = 'worker.lock'
SOCKET = 'guard.sock'
LOG_FILE = 'guard.log'
#: Sent to the socket, it comes back from a guard that watches.
ASK = b'?'

# The worker thaws at the deadline; the guard comes when it did not.
GRACE = 0.5
# A lost poke is made good by looking again after so many seconds. Deadlines
# are compared anew each time, so this also bounds how late a host that was
# asleep thaws.
_RESCAN = 1.0
_RESCAN_IDLE = 5.0
# Seconds that libvirt may make an agent command wait for another one.
_JOB_WAIT = 30.0
_BACKOFF = (0.5, 1.0, 2.0, 5.0)


class _Child:
    """A forked process that thaws one guest."""

    def __init__(self, server_id: str, pid: int, bound: float):
        self.server_id = server_id
        self.pid = pid
        self.handle = os.pidfd_open(pid)
        self.kill_at = clock.now() + bound

    def reap(self) -> None:
        os.waitpid(self.pid, 0)
        os.close(self.handle)

    def kill(self) -> None:
        signal.pidfd_send_signal(self.handle, signal.SIGKILL)


class Guard:
    """The main loop."""

    def __init__(self, state_path: pathlib.Path, connection_uri: str,
                 agent_timeout: float, stay: bool):
        self._journal = journal.Journal(state_path)
        self._uri = connection_uri
        self._agent_timeout = agent_timeout
        self._stay = stay
        self._worker = pidlock.PidLock(state_path / WORKER_LOCK)
        self._selector = selectors.DefaultSelector()
        self._children: dict[str, _Child] = {}
        self._tries: dict[str, tuple[int, float]] = {}
        self._stopping = False
        path = state_path / SOCKET
        path.unlink(missing_ok=True)
        self._socket = socket.socket(
            socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self._path = str(path)
        self._socket.bind(self._path)
        self._selector.register(self._socket, selectors.EVENT_READ)
        signal.signal(signal.SIGTERM, self._stop)
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    def close(self) -> None:
        """Close everything; the signals stay taken."""
        self._selector.close()
        self._socket.close()
        self._worker.close()

    def _stop(self, _number: int, _frame: object) -> None:
        self._stopping = True
        # Wakes the main loop, as a poke does.
        self._socket.sendto(b'.', self._path)

    def run(self) -> None:
        """Watch until there is nothing left to watch over.

        SIGTERM ends it at once only when no guest may be frozen: whoever
        stops a host's services does not thereby leave guests frozen.
        """
        while True:
            try:
                wait = self._look()
                if not self._needed():
                    return
            except OSError:
                # A host without memory, processes or file handles is one
                # whose worker has died: no time for the guard to do so.
                LOG.exception('cannot watch now; trying again')
                wait = _RESCAN
            for key, _events in self._selector.select(wait):
                if key.data is None:
                    self._drain()
                else:
                    self._finished(key.data)

    def _needed(self) -> bool:
        if self._children or any(self._open()):
            return True
        return not self._stopping and (
            self._stay or self._worker.holder() is not None)

    def _open(self):
        """Give the servers whose freeze nobody has ended yet."""
        for server_id in self._journal.servers():
            try:
                record = self._journal.read(server_id)
            except journal.Unreadable:
                found = self._journal.any_result(server_id)
                if found is None or found.request_id is not None:
                    # The result, if any, is about an earlier freeze.
                    yield server_id, None
                continue
            if record and self._journal.result(record) is None:
                yield server_id, record

    def _look(self) -> float:
        """Start what is due and kill what hangs.

        :return: seconds until the next look.
        """
        now = clock.now()
        wait = _RESCAN_IDLE
        for child in self._children.values():
            if child.kill_at <= now:
                LOG.error('thawing %s hangs; trying again', child.server_id)
                child.kill()
            wait = min(wait, _RESCAN)
        found = set()
        for server_id, record in self._open():
            found.add(server_id)
            wait = min(wait, _RESCAN)
            if server_id in self._children:
                continue
            late = -record.remaining() if record else GRACE
            _number, not_before = self._tries.get(server_id, (0, 0.0))
            left = max(GRACE - late, not_before - now)
            if left > 0:
                wait = min(wait, left)
            else:
                self._start(server_id)
        for server_id in self._tries.keys() - found:
            del self._tries[server_id]
        return wait

    def _start(self, server_id: str) -> None:
        number, _not_before = self._tries.get(server_id, (0, 0.0))
        delay = _BACKOFF[min(number, len(_BACKOFF) - 1)]
        self._tries[server_id] = (number + 1, clock.now() + delay)
        pid = os.fork()
        if pid == 0:
            self._in_child(server_id)
        LOG.warning('%s is overdue; thawing it (try %s)', server_id,
                    number + 1)
        child = _Child(server_id, pid, self._agent_timeout + _JOB_WAIT + 10)
        self._children[server_id] = child
        self._selector.register(child.handle, selectors.EVENT_READ, child)

    def _in_child(self, server_id: str) -> None:
        """Thaw, in the forked process, and end it."""
        status = 1
        try:
            os.setsid()
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            self._socket.close()
            status = thaw(self._journal, server_id, self._uri,
                          self._agent_timeout)
        except BaseException:
            # Whatever it was, the log alone outlives this process.
            LOG.exception('thawing %s failed', server_id)
        finally:
            # Whatever happened, the parent's loop must not run twice.
            os._exit(status)

    def _finished(self, child: _Child) -> None:
        self._selector.unregister(child.handle)
        child.reap()
        del self._children[child.server_id]

    def _drain(self) -> None:
        """Read the pokes, and answer those that ask for a sign of life."""
        while True:
            try:
                word, asker = self._socket.recvfrom(16)
            except BlockingIOError:
                return
            if word == ASK and asker:
                # Who asked may have gone, or asks faster than it reads.
                with contextlib.suppress(OSError):
                    self._socket.sendto(word, asker)


def thaw(journal_: journal.Journal, server_id: str, uri: str,
         agent_timeout: float) -> int:
    """Thaw one overdue guest and write down the result.

    :return: 0 when the guest was seen thawed or is gone; 1: try again.
    """
    try:
        record = journal_.read(server_id)
    except journal.Unreadable as exc:
        LOG.error('the record is unreadable, so it is overdue: %s', exc)
        record = None
    else:
        if record is None or record.remaining() > 0:
            return 0
    result = guard_thaw.thaw(server_id, record, uri, agent_timeout)
    if result is None:
        return 1
    journal_.write_result(result)
    LOG.warning('%s: %s', server_id, result)
    return 0


def _become_the_guard(state_path: pathlib.Path) -> pidlock.PidLock | None:
    """Take the lock that makes this the one guard of a state path."""
    lock = pidlock.PidLock(state_path / GUARD_LOCK)
    return lock if lock.acquire() else None


def main(argv: list[str] | None = None) -> int:
    """Run the guard; the entry point of ``stillframe-guard``."""
    parser = argparse.ArgumentParser(
        prog='stillframe-guard', description='Thaws frozen guests whose '
        'deadline has passed. stillframe-compute starts it by itself.')
    parser.add_argument('--state-path', type=pathlib.Path, required=True,
                        help='[DEFAULT]state_path of the compute worker')
    parser.add_argument('--connection-uri', default='qemu:///system',
                        help='libvirt, for records that do not name it')
    parser.add_argument('--agent-timeout', type=float, default=30.0,
                        help='seconds that the agent gets for a thaw')
    parser.add_argument('--stay', action='store_true',
                        help='run on without a worker (own service unit)')
    parser.add_argument('--ready-fd', type=int, help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    args.state_path.mkdir(mode=0o700, parents=True, exist_ok=True)
    log_file = logging.handlers.RotatingFileHandler(
        args.state_path / LOG_FILE, maxBytes=1_000_000, backupCount=1)
    formatter = logging.Formatter(
        '%(asctime)s %(process)d %(levelname)s %(message)s')
    formatter.converter = time.gmtime
    log_file.setFormatter(formatter)
    LOG.addHandler(log_file)
    LOG.setLevel(logging.INFO)
    lock = _become_the_guard(args.state_path)
    if lock is None:
        print('stillframe-guard: another one watches over '
              f'{args.state_path} already', file=sys.stderr)
        return 1
    watch = Guard(args.state_path, args.connection_uri, args.agent_timeout,
                  args.stay)
    journal.Journal(args.state_path).sweep_results()
    LOG.info('watching over %s', args.state_path)
    if args.ready_fd is not None:
        with contextlib.suppress(BrokenPipeError):
            # The worker that asked for it may have died by now.
            os.write(args.ready_fd, b'.')
        os.close(args.ready_fd)
    watch.run()
    watch.close()
    LOG.info('nothing left to watch over')
    return 0


if __name__ == '__main__':
    sys.exit(main())
