# SPDX-License-Identifier: Apache-2.0
"""Stillframe as it is measured: its processes, their sizes and their CPU."""

from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import contextlib
import os
import pathlib
import subprocess
import sys
from types import TracebackType
from typing import Self

from stillframe.compute import guard
from stillframe.compute import pidlock
from tests.lab import processes

PROJECT = '0' * 32
HOST = 'bench'
#: All in one, or one of its own: the module of each program.
PROGRAMS = {
    'stillframe': 'stillframe.cmd.allinone',
    'api': 'stillframe.cmd.api',
    'conductor': 'stillframe.cmd.conductor',
    'compute': 'stillframe.cmd.compute',
}

_TOP = pathlib.Path(__file__).parents[2]
#: A configuration: sections, each with its options.
Settings = Mapping[str, Mapping[str, object]]


class Stack:
    """Some of the programs with one configuration.

    ``with Stack(['stillframe'], {...}) as stack: stack.port``.

    :param programs: keys of :data:`PROGRAMS`, in the order of their start.
    :param settings: what differs from the defaults.
    :param database: URL; None: the SQLite file of the embedded default.
    """

    def __init__(self, programs: Sequence[str], settings: Settings,
                 database: str | None = None):
        self.port = processes.free_port()
        self._programs = programs
        self._settings = settings
        self._database = database
        self._stack = contextlib.ExitStack()
        self._running: dict[str, processes.Process] = {}
        self.path = pathlib.Path()

    def __enter__(self) -> Self:
        with self._stack:
            self.path = self._stack.enter_context(
                processes.state_dir('bench'))
            self._write_config()
            if self._database is not None:
                self.run('stillframe.cmd.manage', 'db', 'upgrade')
            for name in self._programs:
                self._start(name)
            self._stack = self._stack.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None,
                 value: BaseException | None,
                 trace: TracebackType | None) -> None:
        if value is not None:
            for name, process in self._running.items():
                value.add_note(f'the end of the log of {name}:\n'
                               f'{process.tail(1500)}')
        self._stack.close()

    @property
    def config(self) -> pathlib.Path:
        """The file that all programs read."""
        return self.path / 'stillframe.conf'

    @property
    def database(self) -> str:
        """URL of the database."""
        return (self._database
                or f'sqlite:///{self.path}/state/stillframe.sqlite')

    def _write_config(self) -> None:
        settings: dict[str, dict[str, object]] = {
            'DEFAULT': {'state_path': self.path / 'state'},
            'api': {'port': self.port, 'auth_strategy': 'noauth'},
            'compute': {'host': HOST}, 'conductor': {'host': HOST}}
        if self._database is not None:
            settings['database'] = {'connection': self._database}
        for section, options in self._settings.items():
            settings.setdefault(section, {}).update(options)
        lines = []
        for section, options in settings.items():
            lines.append(f'[{section}]')
            lines += [f'{key} = {value}' for key, value in options.items()]
        self.config.write_text('\n'.join(lines) + '\n')
        (self.path / 'state').mkdir()

    def run(self, module: str, *arguments: str) -> None:
        """Run a program with this configuration to its end.

        :raises LabError: it failed.
        """
        done = subprocess.run(
            self._command(module, *arguments), cwd=_TOP, timeout=120,
            capture_output=True, text=True, check=False)
        if done.returncode:
            raise processes.LabError(
                f'{module} failed: {done.stdout}{done.stderr}')

    @contextlib.contextmanager
    def talk(self, module: str) -> Iterator['Talk']:
        """Run a program with this configuration, and talk with it."""
        log = self.path / f'{module}.log'
        with log.open('w') as errors, subprocess.Popen(
                self._command(module, '--log-file', str(log)), cwd=_TOP,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=errors, text=True) as process:
            yield Talk(module, process)

    def _command(self, module: str, *arguments: str) -> list[str]:
        return [sys.executable, '-m', module, '--config-file',
                str(self.config), *arguments]

    def _start(self, name: str) -> None:
        process = processes.Process(
            name, [*self._command(PROGRAMS[name])],
            log=self.path / f'{name}.log', cwd=_TOP)
        self._stack.callback(process.stop)
        self._running[name] = process.start()
        if name in ('stillframe', 'api'):
            process.wait_ready(lambda: processes.port_open(self.port), 60)

    def rss(self, name: str) -> float:
        """Give the resident memory of a program in MB."""
        return rss(self._running[name].pid)

    def guard_rss(self) -> float:
        """Give the resident memory of the worker's guard in MB."""
        lock = pidlock.PidLock(self.path / 'state' / guard.GUARD_LOCK)
        try:
            pid = lock.holder()
        finally:
            lock.close()
        if pid is None:
            raise processes.LabError('there is no guard')
        return rss(pid)

    def cpu(self, name: str) -> float:
        """Give the seconds of CPU that a program has used."""
        return cpu(self._running[name].pid)


class Talk:
    """A program that says a line when it has something to say."""

    def __init__(self, name: str, process: subprocess.Popen[str]):
        self._name = name
        self._process = process

    def hear(self) -> str:
        """Give its next line.

        :raises LabError: it has ended.
        """
        line = (self._process.stdout.readline()
                if self._process.stdout else '')
        if not line:
            raise processes.LabError(f'{self._name} has ended')
        return line.strip()

    def say(self, line: str = '') -> None:
        """Give it a line."""
        if self._process.stdin:
            self._process.stdin.write(line + '\n')
            self._process.stdin.flush()


def rss(pid: int) -> float:
    """Give the resident memory of a process in MB (10^6 bytes)."""
    for line in pathlib.Path(f'/proc/{pid}/status').read_text().splitlines():
        key, _, value = line.partition(':')
        if key == 'VmRSS':
            return int(value.split()[0]) * 1024 / 1e6
    raise ValueError(f'process {pid} has no memory')


def cpu(pid: int) -> float:
    """Give the seconds of CPU that all threads of a process have used."""
    # The name of the program is in brackets and may hold spaces.
    fields = pathlib.Path(f'/proc/{pid}/stat').read_text().rpartition(
        ')')[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf('SC_CLK_TCK')
