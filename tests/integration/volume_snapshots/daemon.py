# SPDX-License-Identifier: Apache-2.0
"""A whole Stillframe in one process, as the embedded default runs it."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
import sys
from typing import Any
from urllib.parse import quote

import httpx

from tests.lab.libvirtd import Libvirtd
from tests.lab.processes import Process
from tests.lab.processes import free_port
from tests.lab.processes import state_dir
from tests.lab.processes import wait_until

ROOT = Path(__file__).parents[3]
ADMIN = {'X-Auth-Token': 'admin:0123456789abcdef0123456789abcdef'}

#: Short times, so that tests are short too.
SETTINGS: dict[str, dict[str, Any]] = {
    'DEFAULT': {'debug': 'true'},
    'compute': {'freeze_call_timeout': 5, 'query_timeout': 2,
                'settle_timeout': 5, 'report_interval': 1,
                'keepalive_interval': 1, 'report_timeout': 5},
    'conductor': {'reap_interval': 0.5},
    'cinder': {'timeout': 5, 'retry_wait': 0.2, 'retry_wait_max': 1},
    'volume_snapshots': {},
}


def open_cinder(endpoint: str, project: str) -> dict[str, Any]:
    """Give settings of [cinder] for one that asks nobody who is who."""
    return {'auth_type': 'noauth', 'user_id': 'stillframe',
            'project_id': project, 'endpoint': endpoint}


class Stillframe:
    """One daemon: ``with Stillframe(host, cinder={...}) as stillframe:``.

    :param host: the hypervisor that its worker serves.
    :param settings: by group, over SETTINGS.
    """

    def __init__(self, host: Libvirtd, **settings: dict[str, Any]):
        self.host = host
        self.port = free_port()
        self.path = Path()
        self.settings = {group: {**SETTINGS.get(group, {}),
                                 **settings.get(group, {})}
                         for group in {*SETTINGS, *settings}}
        self._stack = contextlib.ExitStack()
        self._processes: list[Process] = []
        self.http = httpx.Client(
            base_url=f'http://127.0.0.1:{self.port}/v2.1', headers=ADMIN,
            timeout=40)

    def __enter__(self) -> Stillframe:
        self.path = self._stack.enter_context(state_dir('sf'))
        self._stack.callback(self.http.close)
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

    # --- life -------------------------------------------------------------

    def start(self, mine: str | None = None) -> None:
        """Start it; return when it answers.

        :param mine: have it killed when it comes to this step of
            tests.integration.volume_snapshots.mined.
        """
        program = (['stillframe.cmd.allinone'] if mine is None else
                   ['tests.integration.volume_snapshots.mined', mine])
        process = Process(
            'stillframe', [sys.executable, '-m', *program,
                           '--config-file', self._configuration()],
            log=self.path / 'log', cwd=ROOT,
            env={**os.environ, 'PYTHONWARNINGS': 'ignore'})
        self._processes.append(process.start())
        process.wait_ready(self._answers, 120)

    def _answers(self) -> bool:
        with contextlib.suppress(httpx.TransportError):
            services = self.http.get('/os-services').json()['services']
            return any(one['binary'] == 'stillframe-compute'
                       and one['state'] == 'up' for one in services)
        return False

    def _configuration(self) -> Path:
        settings = {**self.settings}
        settings['DEFAULT'] = {**settings['DEFAULT'],
                               'state_path': self.path / 'state'}
        settings['api'] = {'port': self.port, **settings.get('api', {})}
        settings['compute'] = {'connection_uri': self.host.uri,
                               'host': 'here', **settings['compute']}
        path = self.path / 'conf'
        path.write_text('\n'.join(
            f'[{group}]\n' + '\n'.join(f'{key} = {value}' for key, value
                                       in values.items())
            for group, values in settings.items()))
        return path

    @property
    def process(self) -> Process:
        """The present life."""
        return self._processes[-1]

    def kill(self) -> None:
        """Crash it; guests, block jobs and the guard go on."""
        self.process.kill()

    def restart(self, mine: str | None = None) -> None:
        """Stop it as systemd would, and start it; see :meth:`start`."""
        self.process.terminate(60)
        self.start(mine)

    @property
    def log(self) -> str:
        """All that its lives logged."""
        return (self.path / 'log').read_text(errors='replace')

    # --- what a test says and sees ----------------------------------------

    def wait_server(self, server_id: str) -> None:
        """Wait until it knows a server and its volumes."""
        wait_until(
            lambda: self.http.get(f'/servers/{server_id}').status_code
            == 200, 60, f'server {server_id} to be known', 0.1)

    def server(self, server_id: str) -> dict[str, Any]:
        """Give a server as the API shows it."""
        return self.http.get(f'/servers/{server_id}').json()['server']

    def act(self, server_id: str, **action: Any) -> None:
        """POST an action; it must be taken."""
        answer = self.http.post(f'/servers/{server_id}/action', json=action)
        assert answer.status_code == 202, answer.text

    def wait_status(self, server_id: str, status: str) -> None:
        """Wait until a server is in a state and nothing moves it."""
        def so() -> bool:
            shown = self.server(server_id)
            return (shown['status'] == status
                    and shown['OS-EXT-STS:task_state'] is None)
        wait_until(so, 60, f'{server_id} to be {status}', 0.05)

    def create(self, volume_id: str, snapshot_id: str, new_file: str
               ) -> httpx.Response:
        """Ask for a new snapshot, as Cinder does."""
        return self.http.post('/os-assisted-volume-snapshots', json={
            'snapshot': {'volume_id': volume_id, 'create_info': {
                'snapshot_id': snapshot_id, 'type': 'qcow2',
                'new_file': new_file}}})

    def delete(self, volume_id: str, snapshot_id: str,
               file_to_merge: str | None, merge_target_file: str | None
               ) -> httpx.Response:
        """Ask for a merge, as Cinder does."""
        info = json.dumps({
            'volume_id': volume_id, 'type': 'qcow2',
            'file_to_merge': file_to_merge,
            'merge_target_file': merge_target_file})
        return self.http.delete(
            f'/os-assisted-volume-snapshots/{snapshot_id}'
            f'?delete_info={quote(info)}')

    def shown(self, snapshot_id: str) -> dict[str, Any]:
        """Give what it shows of a snapshot's latest request."""
        answer = self.http.get(
            f'/os-assisted-volume-snapshots/{snapshot_id}')
        assert answer.status_code == 200, answer.text
        return answer.json()['snapshot']

    def wait_shown(self, snapshot_id: str, timeout: float = 120,
                   **wanted: Any) -> dict[str, Any]:
        """Wait until what is shown has these values; give it."""
        def so() -> dict[str, Any] | None:
            shown = self.shown(snapshot_id)
            return shown if all(shown[key] == value for key, value
                                in wanted.items()) else None
        try:
            return wait_until(so, timeout, f'{snapshot_id}: {wanted}', 0.05)
        except Exception as exc:
            raise AssertionError(
                f'{self.shown(snapshot_id)}\n{self.log[-4000:]}') from exc
