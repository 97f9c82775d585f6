# SPDX-License-Identifier: Apache-2.0
"""A site: API, conductors, agents; processes to talk to, and to kill."""

import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import urllib.error
import urllib.request

from tests.lab.processes import Process
from tests.lab.processes import free_port
from tests.lab.processes import wait_until

ROOT = pathlib.Path(__file__).parents[3]
MICROVERSION = '1.116'
# Seconds for anything to happen; machines of tests may be slow.
PATIENCE = 120.0
RESTING = frozenset(('enroll', 'manageable', 'available', 'active',
                     'adopt failed', 'snapshot failed', 'error'))

_CONF = """\
[DEFAULT]
state_path = {folder}/{name}
transport_url = {transport}
debug = true
[database]
connection = {database}
[api]
port = {port}
auth_strategy = noauth
service_down_time = 6
[compute]
connection_uri = qemu:///session?socket=/none
[conductor]
host = {name}
report_interval = 0.5
reap_interval = 0.5
[drivers]
enabled_hardware_types = fake-hardware
[images]
url_prefixes = file://{folder}/images/
{images}
[agent]
connect_timeout = 3
command_timeout = 10
attempts = 2
retry_wait = 0.2
[receiver]
port = {receiver_port}
min_free = 1
[baremetal]
agent_api_url = http://127.0.0.1:{port}
watch_interval = 0.2
ring_interval = 0.2
retry_wait = 0.1
heartbeat_timeout = 3
handover_timeout = 5
soft_power_off_timeout = 2
{options}
"""


class Refused(Exception):
    """The API did not do it.

    :ivar status: of HTTP.
    """

    def __init__(self, status, text):
        super().__init__(f'{status}: {text}')
        self.status = status


def _serial(mac):
    return mac.replace(':', '')


class Site:
    """Processes with a folder, a database and a broker in common."""

    def __init__(self, folder, database=None, transport='inproc://',
                 images='', **options):
        self.folder = folder
        self.port = free_port()
        #: Of the API.
        self.url = f'http://127.0.0.1:{self.port}'
        self._values = {
            'folder': folder, 'port': self.port, 'transport': transport,
            'database': database or f'sqlite:///{folder}/site.sqlite',
            'images': images}
        self._options = options
        self._agent_ports = {}
        # One that is killed has to get its port again.
        self._receiver_ports = {}
        self._template = _CONF
        self._processes = {}
        #: Of processes that start from now on, beside our own.
        self.environment = {}
        (folder / 'images').mkdir()

    def __enter__(self):
        return self

    def __exit__(self, *_exc):
        # How they end when they are asked to is not what is tried here.
        for process in self._processes.values():
            if process.running:
                process.kill()
            process.stop()

    # --- processes ---------------------------------------------------------

    def _config(self, name):
        path = self.folder / f'{name}.conf'
        path.write_text(self._template.format(
            name=name, **self._values,
            receiver_port=self._receiver_ports.setdefault(name, free_port()),
            options='\n'.join(
                f'{key} = {value}' for key, value in self._options.items())))
        return path

    def run(self, name, command):
        """Start a process of the site, again if it was there before."""
        old = self._processes.pop(name, None)
        if old is not None:
            old.stop()
        process = Process(name, [str(word) for word in command],
                          self.folder / f'{name}.log', cwd=ROOT,
                          env={**os.environ, **self.environment})
        self._processes[name] = process
        process.start()
        return process

    def program(self, module, name):
        """Start one of Stillframe's processes."""
        return self.run(name, [sys.executable, '-m', module,
                               '--config-file', self._config(name)])

    def upgrade(self):
        """Make the tables."""
        subprocess.run(
            [sys.executable, '-m', 'stillframe.cmd.manage', '--config-file',
             str(self._config('manage')), 'db', 'upgrade'], check=True,
            cwd=ROOT, capture_output=True)

    def all_in_one(self, name='one'):
        """Start everything in one process, and wait for it."""
        self.program('stillframe.cmd.allinone', name)
        self.wait_ready()

    def wait_ready(self, conductors=1):
        """Wait for the API and for conductors."""
        def there():
            with contextlib.suppress(OSError, Refused):
                found = self.get('/v1/conductors')['conductors']
                return sum(one['alive'] for one in found) >= conductors
            return False

        self.wait(there, 'the site')

    def process(self, name):
        """Give a process of the site."""
        return self._processes[name]

    def kill(self, name):
        """Kill a process, as a power failure would."""
        self._processes[name].kill()

    def log(self, name):
        """What a process logged."""
        return (self.folder / f'{name}.log').read_text()

    def set_option(self, name, value):
        """Set an option of [baremetal] for what starts from now on."""
        self._options[name] = value

    def replace(self, line, by):
        """Replace a line of the configuration."""
        assert line in self._template
        self._template = self._template.replace(line, by)

    def hold_verification(self):
        """Keep conductors that start from now on in their verification.

        :return: a file: when it is removed, they go on.
        """
        hold = self.folder / 'hold'
        hold.touch()
        tools = self.folder / 'tools'
        tools.mkdir(exist_ok=True)
        program = tools / 'qemu-img'
        program.write_text(
            f'#!/bin/sh\nwhile [ -e {hold} ]; do sleep 0.1; done\n'
            f'exec {shutil.which("qemu-img")} "$@"\n')
        program.chmod(0o755)
        self.environment['PATH'] = f'{tools}:{os.environ["PATH"]}'
        return hold

    # --- the API -----------------------------------------------------------

    def request(self, method, path, body=None):
        """Ask the API; give the answer's document.

        :raises Refused: it did not do it.
        """
        request = urllib.request.Request(
            f'{self.url}{path}', method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={'X-OpenStack-Ironic-API-Version': MICROVERSION,
                     'Content-Type': 'application/json'})
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                text = answer.read()
        except urllib.error.HTTPError as exc:
            with exc:
                raise Refused(exc.code, exc.read().decode()) from None
        return json.loads(text) if text else None

    def get(self, path):
        """Read something."""
        return self.request('GET', path)

    def node(self, node):
        """Read a node."""
        return self.get(f'/v1/nodes/{node}')

    def provision(self, node, target, **options):
        """Ask for a move of a node."""
        self.request('PUT', f'/v1/nodes/{node}/states/provision',
                     {'target': target, **options})

    def history(self, node):
        """The snapshots of a node, the newest first."""
        found = self.get(f'/v1/nodes/{node}/history?detail=true')
        return [one['snapshot'] for one in found['history']]

    # --- nodes -------------------------------------------------------------

    def make_node(self, mac, snapshot_interface='agent', **driver_info):
        """Make a node and bring it to active, switched on.

        Its root disk is the one that disk() makes for its address.
        """
        made = self.request('POST', '/v1/nodes', {
            'driver': 'fake-hardware', 'driver_info': driver_info,
            'properties': {'root_device': {'serial': _serial(mac)}},
            'snapshot_interface': snapshot_interface})['uuid']
        self.request('POST', '/v1/ports', {'node_uuid': made,
                                           'address': mac})
        for target, state in (('manage', 'manageable'),
                              ('provide', 'available'),
                              ('active', 'active')):
            self.provision(made, target)
            assert self.settled(made)['provision_state'] == state
        return made

    def change(self, node, **columns):
        """Change fields of a node."""
        self.request('PATCH', f'/v1/nodes/{node}', [
            {'op': 'add', 'path': f'/{key}', 'value': value}
            for key, value in columns.items()])

    def conductors(self, *names):
        """Start API and conductors, each a process, and wait for them."""
        self.upgrade()
        self.program('stillframe.cmd.api', 'api')
        for name in names:
            self.program('stillframe.cmd.conductor', name)
        self.wait_ready(len(names))

    def snapshot(self, node, image='disk.img', **options):
        """Ask for a snapshot into a file; give the file's path."""
        path = self.folder / 'images' / image
        self.provision(node, 'snapshot', image_ref=f'file://{path}',
                       **options)
        return path

    def wait(self, question, what, timeout=PATIENCE):
        """Wait until the answer to a question is true."""
        return wait_until(question, timeout, what, 0.1)

    def settled(self, node):
        """Wait until nobody works on a node; give it."""
        def rests():
            found = self.node(node)
            return (found if found['reservation'] is None
                    and found['provision_state'] in RESTING else None)

        return self.wait(rests, f'node {node} to rest')

    def in_phase(self, node, *phases):
        """Wait until a snapshot is in one of some phases.

        A node that boots is switched on first, which is another step: here
        it waits.
        """
        def reached():
            found = self.history(node)
            phase = found[0]['phase'] if found else None
            return phase in phases and (
                phase != 'booting'
                or self.node(node)['provision_state'] == 'snapshot wait')

        self.wait(reached, f'phase {phases} of node {node}')

    # --- agents ------------------------------------------------------------

    def disk(self, mac, size=8 << 20):
        """Make a disk for the agent of a node."""
        path = self.folder / f'{_serial(mac)}.disk'
        data = os.urandom(1 << 20)
        with path.open('wb') as file:
            file.truncate(size)
            for offset in (0, size // 2):
                file.seek(offset)
                file.write(data)
        return path

    def agent(self, mac, disk, *arguments):
        """Boot a ramdisk: start an agent."""
        name = f'agent-{_serial(mac)}'
        state = self.folder / f'{name}-state'
        return self.run(name, [
            sys.executable, '-m', 'tests.integration.baremetal.agent_program',
            mac, disk, '--api-url', self.url,
            '--listen-host', '127.0.0.1', '--advertise-host', '127.0.0.1',
            '--listen-port', self._agent_ports.setdefault(mac, free_port()),
            '--lookup-interval', '0.1',
            '--state-path', state, *arguments])
