# SPDX-License-Identifier: Apache-2.0
"""The frame of a long-running process: settings, signals, start and stop.

A process is a list of services, started in order and stopped in reverse.
A service owns its threads: they have begun when :meth:`Service.start`
returns and have ended when :meth:`Service.stop` returns.
"""

from collections.abc import Callable
from collections.abc import Sequence
import ctypes
import logging as std_logging
import os
import sys
import threading
from typing import Protocol

from oslo_config import cfg
from oslo_log import log
from oslo_service import systemd

from stillframe import conf as stillframe_conf
from stillframe import exceptions
from stillframe.agent import version
from stillframe.agent import waking

LOG = log.getLogger(__name__)

PROJECT = 'stillframe'

# Seconds that a start gets to end when the process is to stop.
_START_TIMEOUT = 3.0

# Settings of glibc's malloc, by their numbers in malloc.h.
_MALLOC = {
    -8: 2,            # M_ARENA_MAX: heaps
    -3: 128 * 1024,   # M_MMAP_THRESHOLD: bytes of what gets its own memory
    -1: 128 * 1024,   # M_TRIM_THRESHOLD: bytes kept at the end of a heap
}

# What fills a log at INFO and says nothing about our work.
_QUIET = ('alembic=WARNING',)


class Service(Protocol):
    """One part of a process."""

    #: For the log.
    name: str

    def start(self) -> None:
        """Begin; on an exception, nothing is left running."""

    def stop(self) -> None:
        """End, within seconds; called once, after start."""


def prepare(argv: Sequence[str] | None = None, prog: str | None = None,
            description: str | None = None) -> cfg.ConfigOpts:
    """Read the command line and the configuration, and begin to log.

    :param argv: arguments without the program's name; None: sys.argv.
    :param prog: the program's name; None: from sys.argv.
    :param description: of the program, for its help.
    :return: the global configuration.
    :raises SystemExit: the command line or a file is wrong.
    """
    _save_memory()
    conf = stillframe_conf.CONF
    log.register_options(conf)
    log.set_defaults(default_log_levels=[
        *log.get_default_log_levels(), *_QUIET])
    try:
        conf(sys.argv[1:] if argv is None else argv, project=PROJECT,
             prog=prog, version=version.VERSION, description=description)
    except cfg.Error as exc:
        # Also what argparse does for an unknown argument.
        sys.exit(f'{prog or sys.argv[0]}: {exc}')
    if not (conf.log_file or conf.log_dir or conf.use_syslog
            or conf.use_journal):
        # oslo.log's own choice is stdout, among what commands print.
        conf.set_default('use_stderr', True)
    log.setup(conf, PROJECT)
    return conf


def _save_memory() -> None:
    """Keep glibc from holding on to what large answers took for a moment.

    By itself it gives each thread a heap of its own, and takes a block of a
    size that was freed once from there, for ever. Does nothing where the C
    library is another, or the environment sets how it allocates.
    """
    mallopt = getattr(ctypes.CDLL(None), 'mallopt', None)
    if mallopt is None or any(
            name.startswith('MALLOC_') for name in os.environ):
        return
    for parameter, value in _MALLOC.items():
        mallopt(parameter, value)


def main(prog: str, build: Callable[[cfg.ConfigOpts], Sequence[Service]],
         started: Callable[[Sequence[Service]], None] | None = None,
         description: str | None = None) -> int:
    """Be a process: read the configuration, build the services, run them.

    :param prog: the name of the command.
    :param build: makes the services, and says by an exception why not.
    :param started: called when all of them run.
    :param description: of the program, for its help.
    :return: the exit status: 0 after a signal, 1 when a start failed.
    """
    conf = prepare(prog=prog, description=description)
    try:
        services = build(conf)
    except exceptions.StillframeError as exc:
        problem = exc
    else:
        return run(services, started)
    # Not in the handler: oslo.log would add the same words once more.
    LOG.error('%s cannot start: %s', prog, problem)
    return 1


def run(services: Sequence[Service],
        started: Callable[[Sequence[Service]], None] | None = None) -> int:
    """Run services until SIGTERM or SIGINT; call it in the main thread.

    They are started in a thread of their own, so that a signal is heard
    while one of them waits for a broker that is not there.

    :return: as :func:`main`.
    """
    with waking.Waker() as waker:
        start = _Start(services, waker.wake)
        try:
            start.begin()
            while not start.ended and waker.wait():
                pass
            if start.failed:
                return 1
            if not waker.ending:
                systemd.notify_once()
                if started is not None:
                    started(services)
            while waker.wait():
                pass
            return 0
        finally:
            stop(start.give_up())
            std_logging.shutdown()


class _Start:
    """Starts services, one after the other, in a thread.

    :param wake: called at the end.
    """

    def __init__(self, services: Sequence[Service],
                 wake: Callable[[], None]):
        self.ended = False
        self.failed = False
        self._services = services
        self._given_up = threading.Event()
        self._wake = wake
        self._running: list[Service] = []
        self._thread = threading.Thread(
            target=self._run, name='start', daemon=True)

    def begin(self) -> None:
        """Begin to start them."""
        self._thread.start()

    def give_up(self) -> Sequence[Service]:
        """Start no more; give those that run.

        One that does not come to the end of its start is left to the end
        of the process.
        """
        self._given_up.set()
        self._thread.join(_START_TIMEOUT)
        if not self.ended:
            LOG.warning('%s was still starting',
                        self._services[len(self._running)].name)
        return list(self._running)

    def _run(self) -> None:
        for one in self._services:
            if self._given_up.is_set():
                break
            LOG.debug('Starting %s', one.name)
            problem = None
            try:
                one.start()
            except exceptions.StillframeError as exc:
                problem = exc
            except Exception:
                # Whatever it is, the parts that run have to be stopped,
                # and the process to end with a status that says so.
                LOG.exception('%s cannot start', one.name)
                self.failed = True
                break
            if problem is not None:
                # See main.
                LOG.error('%s cannot start: %s', one.name, problem)
                self.failed = True
                break
            self._running.append(one)
        self.ended = True
        if not self._given_up.is_set():
            self._wake()


def stop(running: Sequence[Service]) -> None:
    """Stop services in reverse; one that fails does not keep the rest."""
    for one in reversed(running):
        LOG.debug('Stopping %s', one.name)
        try:
            one.stop()
        except Exception:  # noqa: BLE001
            # Whatever it is, the others have work to put away.
            LOG.exception('%s did not stop cleanly', one.name)


class Periodic:
    """A thread that does something again and again.

    :param name: of the thread, and for the log.
    :param work: what to do; an exception is logged, the next turn comes.
    :param interval: gives the seconds between the end of one turn and the
        next, each time anew.
    """

    def __init__(self, name: str, work: Callable[[], None],
                 interval: Callable[[], float]):
        self.name = name
        self._work = work
        self._interval = interval
        self._asked = threading.Event()
        self._thread = threading.Thread(
            target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin; the first turn comes at once."""
        self._thread.start()

    def stop(self) -> None:
        """End; a turn that runs is waited for, 10 s at most."""
        self._asked.set()
        self._thread.join(10.0)

    def _run(self) -> None:
        while not self._asked.is_set():
            try:
                self._work()
            except Exception:  # noqa: BLE001
                # Whatever it is, the next turn may go well; a thread that
                # ended would be missed by nobody.
                LOG.exception('%s failed; it is tried again in %g s',
                              self.name, self._interval())
            self._asked.wait(self._interval())
