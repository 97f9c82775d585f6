# SPDX-License-Identifier: Apache-2.0
"""A test's side of a worker program."""

import contextlib
import json
import os
from pathlib import Path
import queue
import socket
import sys
import threading
import time
import uuid

from tests.lab.libvirtd import Libvirtd
from tests.lab.processes import LabError
from tests.lab.processes import Process
from tests.lab.processes import state_dir
from tests.lab.processes import wait_until

ROOT = Path(__file__).parents[3]

#: Short times, so that tests are short too.
SETTINGS = {
    'freeze_call_timeout': 3, 'query_timeout': 1, 'settle_timeout': 3,
    'verify_interval': 0.5, 'full_pass_interval': 5, 'report_interval': 1,
    'report_timeout': 2, 'keepalive_interval': 1, 'threads': 8,
}


class Worker:
    """One worker beside a hypervisor: ``with Worker(host) as worker:``.

    All reports of all its lives are kept.
    """

    def __init__(self, host: Libvirtd, name: str = 'w', **settings: object):
        self.host = host
        self.name = name
        self.settings = {**SETTINGS, **settings}
        self.outcomes: list[dict] = []
        self.services: list[dict] = []
        self.images: list[dict] = []
        self.servers: dict[str, dict] = {}
        self.gone: list[str] = []
        self._changed = threading.Condition()
        self._pongs: queue.SimpleQueue = queue.SimpleQueue()
        self._started = threading.Event()
        self._stack = contextlib.ExitStack()
        self._processes: list[Process] = []
        self._connection: socket.socket | None = None
        self.path = Path()

    def __enter__(self) -> 'Worker':
        self.path = self._stack.enter_context(state_dir(self.name))
        self._stack.callback(self._stop_all)
        try:
            self.start()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_exc: object) -> None:
        self._stack.close()

    def _stop_all(self) -> None:
        for process in reversed(self._processes):
            process.stop()
        if self._connection is not None:
            self._connection.close()

    def write_configuration(self) -> Path:
        """Write the configuration file; return its path."""
        lines = ['[DEFAULT]', f'state_path = {self.path}/state',
                 'transport_url = inproc://', 'debug = true', '[compute]',
                 f'host = {self.name}', f'connection_uri = {self.host.uri}']
        sections = {key: value for key, value in self.settings.items()
                    if isinstance(value, dict)}
        lines += [f'{key} = {value}' for key, value in self.settings.items()
                  if key not in sections]
        for section, settings in sections.items():
            lines.append(f'[{section}]')
            lines += [f'{key} = {value}' for key, value in settings.items()]
        path = self.path / 'conf'
        path.write_text('\n'.join(lines))
        return path

    @property
    def process(self) -> Process:
        """The present life of the program."""
        return self._processes[-1]

    @property
    def log(self) -> str:
        """All that its lives logged."""
        return (self.path / 'log').read_text(errors='replace')

    def start(self, wait: bool = True, **answers: object) -> None:
        """Start the program; return once the worker has started.

        :param answers: of the stand-in, from the beginning; see
            :meth:`answer`.
        """
        self._started.clear()
        door = self.path / f'door{len(self._processes)}'
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(door))
            listener.listen(1)
            listener.settimeout(60)
            process = Process(
                f'worker {self.name}',
                [sys.executable, '-m',
                 'tests.integration.compute.worker_program', door,
                 '--config-file', self.write_configuration()],
                log=self.path / 'log', cwd=ROOT,
                env={**os.environ, 'PYTHONWARNINGS': 'ignore',
                     'STAND_IN_ANSWERS': json.dumps(answers)})
            self._processes.append(process.start())
            try:
                self._connection = listener.accept()[0]
            except TimeoutError:
                raise LabError(process.tail()) from None
        threading.Thread(target=self._listen, daemon=True,
                         args=(self._connection,)).start()
        if wait and not self._started.wait(60):
            raise LabError(f'the worker did not start: {process.tail()}')

    def kill(self) -> None:
        """Kill the program like a crash; the guard lives on."""
        self.process.kill()

    def terminate(self) -> None:
        """Stop the program as systemd would."""
        self.process.terminate(20)

    def _listen(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError):
            for line in connection.makefile():
                self._take(json.loads(line))

    def _take(self, message: dict) -> None:
        with self._changed:
            if message.get('report') == 'outcomes':
                self.outcomes += message['outcomes']
            elif message.get('report') == 'service':
                self.services.append(message)
            elif message.get('report') == 'servers':
                if message['full']:
                    self.servers = {}
                for server in message['servers']:
                    self.servers[server['uuid']] = server
                for server_id in message['gone']:
                    self.servers.pop(server_id, None)
                    self.gone.append(server_id)
            elif message.get('report') == 'image':
                self.images.append(message)
            elif 'ping' in message:
                self._pongs.put(message['ping'])
            elif 'started' in message:
                self._started.set()
            self._changed.notify_all()

    def wait(self, question, timeout: float, what: str):
        """Wait for a report that makes the answer true."""
        deadline = time.monotonic() + timeout
        with self._changed:
            while not (answer := question()):
                left = deadline - time.monotonic()
                if left <= 0:
                    raise LabError(f'waited {timeout} s in vain for {what}; '
                                   f'outcomes: {self.outcomes}\n'
                                   + self.log[-3000:])
                self._changed.wait(left)
            return answer

    # --- what a test says ---------------------------------------------------

    def _send(self, message: dict) -> None:
        assert self._connection is not None
        self._connection.sendall(json.dumps(message).encode() + b'\n')

    def answer(self, **answers: object) -> None:
        """Tell the stand-in how to answer from now on."""
        self._send({'answers': answers})

    def cast(self, method: str, request_id: str | None = None,
             **arguments: object) -> str:
        """Hand work to the worker; return the request's id."""
        request_id = request_id or f'req-{uuid.uuid4()}'
        self._send({'method': method, 'request_id': request_id,
                    'arguments': arguments})
        return request_id

    def quiesce(self, server_id: str, timeout: float = 30,
                mountpoints: list[str] | None = None) -> str:
        """Ask for a freeze; return the request's id."""
        return self.cast('quiesce_server', server_id=server_id,
                         timeout=timeout, mountpoints=mountpoints)

    def unquiesce(self, server_id: str, freeze_id: str) -> str:
        """Ask for a thaw; return the request's id."""
        return self.cast('unquiesce_server', server_id=server_id,
                         freeze_id=freeze_id)

    def reset(self, server_id: str, state: str = 'active') -> str:
        """Ask for a reset; return the request's id."""
        return self.cast('reset_server', server_id=server_id, state=state)

    def ping(self) -> dict:
        """Ask how it is."""
        self._send({'method': 'ping', 'request_id': 'req-ping'})
        return self._pongs.get(timeout=10)

    def outcome(self, timeout: float = 15, **wanted: object) -> dict:
        """Wait for the first outcome with these values."""
        def find():
            return next((one for one in self.outcomes if all(
                one[key] == value for key, value in wanted.items())), None)
        return self.wait(find, timeout, f'an outcome with {wanted}')

    def frozen(self, server_id: str, timeout: float = 30) -> str:
        """Freeze a guest for certain; return the freeze's id."""
        freeze_id = self.quiesce(server_id, timeout)
        outcome = self.outcome(request_id=freeze_id)
        assert outcome['result'] == 'success', outcome
        return freeze_id

    # --- what a test sees ---------------------------------------------------

    @property
    def records(self) -> list[Path]:
        """The records in its journal."""
        return list((self.path / 'state/freezes').glob('*.freeze.json'))

    def wait_no_record(self, timeout: float = 10) -> None:
        """Wait until its journal is empty."""
        wait_until(lambda: not self.records, timeout, 'an empty journal')

    def wait_guard(self, other_than: int | None = None) -> int:
        """Wait for a guard that watches; return its process id."""
        def guard() -> int | None:
            pid = self.guard_pid()
            watches = (self.path / 'state/guard.sock').is_socket()
            return pid if watches and pid != other_than else None
        return wait_until(guard, 20, 'a guard')

    def guard_pid(self) -> int | None:
        """The process id of its guard."""
        for entry in Path('/proc').glob('[0-9]*/cmdline'):
            with contextlib.suppress(OSError):
                words = entry.read_bytes().split(b'\0')
                if (b'stillframe.compute.guard' in words
                        and f'{self.path}/state'.encode() in words
                        and self._leads(entry.parent)):
                    return int(entry.parent.name)
        return None

    @staticmethod
    def _leads(process: Path) -> bool:
        """Tell the guard from a child that it forked."""
        parent = int((process / 'stat').read_text().rsplit(') ', 1)[1]
                     .split()[1])
        words = Path(f'/proc/{parent}/cmdline').read_bytes().split(b'\0')
        return b'stillframe.compute.guard' not in words
