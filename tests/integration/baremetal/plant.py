# SPDX-License-Identifier: Apache-2.0
"""A site whose nodes are machines, with a real Glance for their images."""

import contextlib
import hashlib
import json
import pathlib
import subprocess

from tests.integration.baremetal.site import Site
from tests.lab import node_disk
from tests.lab.glance import Glance
from tests.lab.mariadb import MariaDB
from tests.lab.processes import state_dir
from tests.lab.rabbit import Rabbit
from tests.lab.rack import Rack

# Generous: the machines are emulated, and others may be at work beside.
_CONF = """\
store = glance
[glance]
auth_type = none
endpoint_override = {glance}
[api]
host = {address}
service_down_time = 20
[drivers]
enabled_hardware_types = redfish
[receiver]
host = {address}
[agent]
connect_timeout = 20
command_timeout = 60
"""
#: MiB a second: slow enough to meet a transfer on its way.
_BANDWIDTH = 8
PATIENCE = 300.0


class Plant:
    """A rack, an API, two conductors, a broker, a database and Glance.

    ``with Plant() as plant: ...``; all of it is in the rack's network.

    :ivar api: URL of the API, as machines see it.
    """

    def __init__(self):
        self._stack = contextlib.ExitStack()
        self._numbers = iter(range(10, 250))

    def __enter__(self):
        with contextlib.ExitStack() as stack:
            self.rack = stack.enter_context(Rack())
            self.folder = stack.enter_context(state_dir('plant'))
            self.glance = stack.enter_context(Glance())
            broker = stack.enter_context(Rabbit())
            database = stack.enter_context(MariaDB())
            network = self.rack.network
            address = network.listen
            self.site = stack.enter_context(Site(
                self.folder, database=database.create('plant'),
                transport=broker.url,
                images=_CONF.format(glance=self.glance.url, address=address),
                bandwidth=_BANDWIDTH, soft_power_off_timeout=20,
                heartbeat_timeout=10, boot_timeout=PATIENCE,
                handover_timeout=30))
            self.site.url = f'http://{address}:{self.site.port}'
            self.api = f'http://{network.address}:{self.site.port}'
            self.site.set_option('agent_api_url', self.api)
            port = 'port = {receiver_port}'
            self.site.replace(
                port, f'{port}\npublic_url = https://{network.address}:'
                '{receiver_port}')
            self.site.conductors('c1', 'c2')
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *exc):
        self._stack.__exit__(*exc)

    # --- nodes -------------------------------------------------------------

    def machine(self, begin=b'', **options):
        """Put in a machine that runs its own system; see Rack.machine.

        :param begin: what its disk begins with.
        :return: the machine, and its node's UUID.
        """
        machine = self.rack.machine(next(self._numbers), **options)
        with machine.disks[0].open('r+b') as file:
            file.write(begin)
        machine.power_on()
        machine.wait_disk_boots(1)
        made = self.site.request('POST', '/v1/nodes', {
            'name': machine.name, 'driver': 'redfish',
            'driver_info': self.rack.driver_info(
                machine, deploy_iso=self.rack.cd(machine, self.api)),
            'properties': {
                'root_device': {'serial': machine.serials[0]}}})['uuid']
        self.site.request('POST', '/v1/ports', {'node_uuid': made,
                                                'address': machine.mac})
        for target, state in (('manage', 'manageable'), ('adopt', 'active')):
            self.site.provision(made, target)
            found = self.settled(made)
            assert found['provision_state'] == state, found['last_error']
        return machine, made

    def settled(self, node):
        """Wait until nobody works on a node; give it."""
        return self.site.wait(lambda: self._resting(node),
                              f'node {node} to rest', PATIENCE)

    def switch(self, node, target):
        """Switch a node as a user."""
        self.site.request('PUT', f'/v1/nodes/{node}/states/power',
                          {'target': target})
        assert self.settled(node)['power_state'] == target

    def _resting(self, node):
        found = self.site.node(node)
        return (found if found['reservation'] is None
                and 'wait' not in found['provision_state'] else None)

    def until_bytes(self, node):
        """Wait until the image of a node is on its way."""
        def on_its_way():
            found = self.site.history(node)[0]
            assert found['outcome'] is None, found['reason']
            return (found['phase'] == 'streaming'
                    and (found['bytes_done'] or 0) > 4 << 20)

        self.site.wait(on_its_way, f'bytes of node {node}', PATIENCE)

    def check_as_before(self, node, machine, boots):
        """See that a machine runs its own system, and will again.

        :param boots: how often it came up from its disk by now.
        """
        assert self.site.node(node)['power_state'] == 'power on'
        machine.wait_disk_boots(boots)
        device = self.site.get(f'/v1/nodes/{node}/management/boot_device')
        assert device == {'boot_device': 'disk', 'persistent': True}
        assert machine.discs() == []

    # --- images ------------------------------------------------------------

    def queued(self):
        """Make an image without data; give its id."""
        return self.glance.client().images.create(name='metal')['id']

    def fetch(self, image_id, into):
        """Download an active image, which must be what Glance says of it."""
        client = self.glance.client()
        image = client.images.get(image_id)
        assert image['status'] == 'active'
        digest = hashlib.new(image['os_hash_algo'])
        with pathlib.Path(into).open('wb') as file:
            for piece in client.images.data(image_id):
                file.write(piece)
                digest.update(piece)
        assert digest.hexdigest() == image['os_hash_value']
        return image

    def left(self):
        """Name the files of images that are still with conductors."""
        return [path for path in self.folder.glob('c?/transfers/**/*')
                if path.is_file() and path.stat().st_size > 1 << 20]


def raw(image, disk):
    """Write a qcow2 image to a disk, after a look at it."""
    subprocess.run(['qemu-img', 'check', '-q', '-f', 'qcow2', image],
                   check=True)
    info = json.loads(subprocess.run(
        ['qemu-img', 'info', '--output=json', '-f', 'qcow2', image],
        check=True, capture_output=True).stdout)
    assert 'backing-filename' not in info
    subprocess.run(['qemu-img', 'convert', '-f', 'qcow2', '-O', 'raw', image,
                    disk], check=True)


def files(disk, scratch):
    """Read the files of a disk's root; give their paths and digests."""
    node_disk.check_root(disk)
    node_disk.unpack_root(disk, scratch)
    return {str(path.relative_to(scratch)):
            hashlib.sha256(path.read_bytes()).hexdigest()
            for path in scratch.rglob('*')
            if path.is_file() and not path.is_symlink()}
