# SPDX-License-Identifier: Apache-2.0
"""Stillframe as it runs for real: every program a process of its own.

API, conductor and a compute worker for each hypervisor, on RabbitMQ and
MariaDB. Each can be killed and started again, and their wall clock stepped.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
import subprocess
import sys
from typing import Any

import httpx

from tests.lab.clockstep import ClockStep
from tests.lab.libvirtd import Libvirtd
from tests.lab.mariadb import MariaDB
from tests.lab.processes import LabError
from tests.lab.processes import Process
from tests.lab.processes import free_port
from tests.lab.processes import state_dir
from tests.lab.processes import wait_until
from tests.lab.rabbit import Rabbit

ROOT = Path(__file__).parents[3]
#: The newest that the API speaks: events show host and details.
NEWEST = {'OpenStack-API-Version': 'compute 2.89'}

#: Short times, so that tests are short too.
SETTINGS: dict[str, dict[str, Any]] = {
    'DEFAULT': {'rpc_response_timeout': 10},
    'api': {'auth_strategy': 'noauth', 'service_down_time': 6},
    'compute': {'freeze_call_timeout': 6, 'query_timeout': 2,
                'settle_timeout': 4, 'report_interval': 1,
                'report_timeout': 5, 'keepalive_interval': 2,
                'verify_interval': 1, 'full_pass_interval': 10},
    'conductor': {'reap_interval': 0.5, 'transition_timeout': 16,
                  'overdue_grace': 3},
    'oslo_messaging_rabbit': {'rabbit_retry_interval': 1,
                              'rabbit_interval_max': 2,
                              'kombu_reconnect_delay': 0.5,
                              'heartbeat_timeout_threshold': 10},
}


class Cloud:
    """``with Cloud(broker, database, {'alpha': host}) as cloud:``.

    :param hosts: the hypervisors, by the name of their worker.
    :param clock: the wall clock that its processes follow.
    """

    def __init__(self, rabbit: Rabbit, mariadb: MariaDB, name: str,
                 hosts: dict[str, Libvirtd], clock: ClockStep | None = None):
        self._rabbit = rabbit
        self._mariadb = mariadb
        self._name = name
        self.hosts = hosts
        self._clock = clock
        self.port = free_port()
        self.path = Path()
        self._stack = contextlib.ExitStack()
        self._running: dict[str, Process] = {}
        # No connection is kept: the API closes one when it is stopped, or
        # when a stepped clock makes it look idle, and a request may just
        # be on its way then.
        self.http = httpx.Client(
            base_url=f'http://127.0.0.1:{self.port}/v2.1', headers=NEWEST,
            timeout=60, limits=httpx.Limits(max_keepalive_connections=0))

    def __enter__(self) -> Cloud:
        with self._stack:
            self.path = self._stack.enter_context(state_dir('cloud'))
            url = self._mariadb.create(self._name)
            self._stack.callback(self._mariadb.drop, self._name)
            self._stack.callback(self.http.close)
            self._stack.callback(self._stop_all)
            self._write(url)
            self._migrate()
            self.heal()
            self._stack = self._stack.pop_all()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._stack.close()

    # --- processes ----------------------------------------------------------

    def _write(self, database: str) -> None:
        common = {group: dict(values) for group, values in SETTINGS.items()}
        common['DEFAULT']['transport_url'] = self._rabbit.url
        # A corner of its own in the shared broker.
        common['DEFAULT']['control_exchange'] = self._name
        common['DEFAULT']['state_path'] = str(self.path)
        common['api']['port'] = self.port
        common['conductor']['host'] = 'brain'
        common['database'] = {'connection': database,
                              'max_retries': 2, 'retry_interval': 1}
        write_configuration(self.path / 'common', common)
        for name, host in self.hosts.items():
            state = self.path / name
            state.mkdir()
            write_configuration(self.path / f'{name}.conf', {
                'DEFAULT': {'state_path': state},
                'compute': {'host': name, 'connection_uri': host.uri}})

    def _command(self, module: str, *more: str) -> list[str | Path]:
        return [sys.executable, '-W', 'ignore', '-m',
                f'stillframe.cmd.{module}', '--config-file',
                self.path / 'common', *more]

    def _environment(self) -> dict[str, str]:
        environment = dict(os.environ)
        if self._clock is not None:
            environment.update(self._clock.environment)
        return environment

    def _migrate(self) -> None:
        subprocess.run(self._command('manage', 'db', 'upgrade'), cwd=ROOT,
                       check=True, timeout=120, capture_output=True)

    def start(self, *names: str) -> None:
        """Start programs: api, conductor, or a worker by its name."""
        for name in names:
            more = (['--config-file', str(self.path / f'{name}.conf')]
                    if name in self.hosts else [])
            module = 'compute' if name in self.hosts else name
            self._running[name] = Process(
                name, self._command(module, *more), cwd=ROOT,
                log=self.path / f'{name}.log',
                env=self._environment()).start()

    def heal(self) -> None:
        """Start what is not running, and wait until all is well."""
        self.start(*(name for name in ('conductor', *self.hosts, 'api')
                     if name not in self._running
                     or not self._running[name].running))
        self.wait(self.is_well, 'all services to be up', 90)

    def is_well(self) -> bool:
        """Tell whether the API answers and all others are up."""
        try:
            answer = self.http.get('/os-services')
        except httpx.TransportError:
            return False
        if answer.status_code != 200:
            return False
        up = {one['host'] for one in answer.json()['services']
              if one['state'] == 'up'}
        return up == {'brain', *self.hosts}

    def kill(self, *names: str) -> None:
        """Kill -9 programs; what they started otherwise goes on."""
        for name in names:
            self._running.pop(name).kill()

    def guard_pid(self, name: str) -> int | None:
        """Give the process id of a host's guard, None when there is none."""
        for entry in Path('/proc').glob('[0-9]*/cmdline'):
            with contextlib.suppress(OSError):
                words = entry.read_text().split('\0')
                if ('stillframe.compute.guard' in words
                        and str(self.path / name) in words):
                    return int(entry.parent.name)
        return None

    def _stop_all(self) -> None:
        for process in self._running.values():
            process.stop(30)
        for name in self.hosts:
            pid = self.guard_pid(name)
            if pid is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, 9)

    def logs(self) -> str:
        """Give the ends of all logs."""
        return '\n'.join(
            f'--- {path.name}\n' + path.read_text(errors='replace')[-3000:]
            for path in sorted(self.path.rglob('*.log')))

    def wait(self, question: Any, what: str, timeout: float = 30) -> Any:
        """Wait for something; the logs say why it did not come."""
        try:
            return wait_until(question, timeout, what, 0.1)
        except LabError as exc:
            raise AssertionError(f'{exc}\n{self.logs()}') from exc

    # --- what a user says and sees ------------------------------------------

    def act(self, server: str, **action: Any) -> httpx.Response:
        """POST an action."""
        return self.http.post(f'/servers/{server}/action', json=action)

    def act_soon(self, server: str, **action: Any) -> httpx.Response:
        """POST an action; as long as it says so, try again in a moment."""
        def answered() -> httpx.Response | None:
            answer = self.act(server, **action)
            return None if answer.status_code == 503 else answer
        return self.wait(answered, f'{action} to be answered')

    def wait_ended_early(self, server: str, reason: str) -> None:
        """Wait until unquiesce is refused, since the freeze ended so."""
        def so() -> bool:
            answer = self.act(server, unquiesce=None)
            message = answer.json()['conflictingRequest']['message']
            return 'ended early at 20' in message and reason in message
        self.wait(so, f'the freeze to have ended early: {reason}')

    def server(self, server: str) -> dict[str, Any]:
        """Give a server as shown."""
        answer = self.http.get(f'/servers/{server}')
        assert answer.status_code == 200, answer.text
        return answer.json()['server']

    def state(self, server: str) -> tuple[str, str | None]:
        """Give status and task_state."""
        shown = self.server(server)
        return shown['status'], shown['OS-EXT-STS:task_state']

    def wait_state(self, server: str, status: str,
                   timeout: float = 30) -> None:
        """Wait until a server has a status and no task."""
        def so() -> bool:
            try:
                return self.state(server) == (status, None)
            except (AssertionError, httpx.TransportError):
                return False
        self.wait(so, f'{server} to be {status}', timeout)

    def quiesce(self, server: str, timeout: float = 60) -> str:
        """Quiesce to the end; give the request id.

        What asks to be tried again in a moment is: after an interrupted
        freeze, a guest is watched for as long as the call may reach it.
        """
        def quiesced() -> str | None:
            answer = self.act_soon(server, quiesce={'timeout': timeout})
            assert answer.status_code == 202, answer.text
            assert answer.content == b''
            request_id = answer.headers['x-openstack-request-id']
            action = self.action(server, request_id)
            if action['events'][0]['result'] == 'Success':
                return request_id
            assert 'ry again in a moment' in action['message'], action
            return None
        request_id = self.wait(quiesced, f'{server} to be quiesced', 60)
        self.wait_state(server, 'QUIESCED')
        return request_id

    def unquiesce(self, server: str) -> dict[str, Any]:
        """Unquiesce to the end, with success; give the action.

        What asks to be tried again is: libvirt may not be back yet.
        """
        def thawed() -> dict[str, Any] | None:
            answer = self.act_soon(server, unquiesce=None)
            assert answer.status_code == 202, answer.text
            action = self.action(server,
                                 answer.headers['x-openstack-request-id'])
            if action['events'][0]['result'] == 'Success':
                return action
            assert 'ry again' in action['message'], action
            return None
        action = self.wait(thawed, f'{server} to be unquiesced')
        self.wait_state(server, 'ACTIVE')
        return action

    def action(self, server: str, request_id: str) -> dict[str, Any]:
        """Give an action once it has ended."""
        def ended() -> Any:
            answer = self.http.get(
                f'/servers/{server}/os-instance-actions/{request_id}')
            action = answer.json()['instanceAction']
            return (action['events'] and action['events'][0]['finish_time']
                    and action)
        return self.wait(ended, f'action {request_id} to end')

    def newest_action(self, server: str) -> dict[str, Any]:
        """Give the newest action of a server once it has ended."""
        listed = self.http.get(f'/servers/{server}/os-instance-actions')
        return self.action(
            server, listed.json()['instanceActions'][0]['request_id'])


def write_configuration(path: Path,
                        settings: dict[str, dict[str, Any]]) -> None:
    """Write a configuration file."""
    path.write_text(''.join(
        f'[{group}]\n' + ''.join(f'{key} = {value}\n' for key, value
                                 in values.items())
        for group, values in settings.items()))
