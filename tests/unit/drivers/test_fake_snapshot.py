# SPDX-License-Identifier: Apache-2.0
"""The image of a disk that does not exist."""

import base64
import hashlib
import http.server
import subprocess
import threading

import pytest

from stillframe.drivers import base
from stillframe.drivers import errors
from stillframe.drivers import factory
from stillframe.drivers import fake_machines
from tests.unit.drivers.nodes import UUID
from tests.unit.drivers.nodes import configuration
from tests.unit.drivers.nodes import make_node


class Store(http.server.BaseHTTPRequestHandler):
    """Keeps what is PUT."""

    # Whoever PUTs asks first whether it may.
    protocol_version = 'HTTP/1.1'

    def do_PUT(self):
        length = int(self.headers['Content-Length'])
        self.server.who = base64.b64decode(
            self.headers['Authorization'].partition(' ')[2])
        self.server.got = self.rfile.read(length)
        self.send_response(self.server.status)
        self.send_header('Content-Length', '0')
        self.end_headers()

    def log_message(self, *_args):
        """Nobody reads it."""


@pytest.fixture
def store():
    with http.server.HTTPServer(('127.0.0.1', 0), Store) as server:
        server.status, server.got = 201, None
        thread = threading.Thread(target=server.serve_forever,
                                  args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def drivers():
    conf = configuration(enabled_hardware_types=['fake-hardware'])
    with factory.Factory(conf) as made:
        yield made


def order(store, **changes):
    return {'version': 1, 'username': 'u', 'password': 'geheim',
            'url': f'http://127.0.0.1:{store.server_port}/transfers/x',
            **changes}


@pytest.mark.parametrize('disk_format', ['qcow2', 'raw'])
def test_a_real_image_arrives(drivers, store, tmp_path, disk_format):
    node = make_node(driver_info={'fake_disk_mib': 3})
    snapshot = drivers.build(node).snapshot
    assert not snapshot.needs_ramdisk
    command_id = snapshot.start(node, order(store, disk_format=disk_format))
    end = snapshot.poll(node, command_id)
    assert isinstance(end, base.Done)
    assert store.who == b'u:geheim'
    assert end.result['sha256'] == hashlib.sha256(store.got).hexdigest()
    assert end.result['size'] == len(store.got)
    assert end.result['disk']['serial'] == UUID
    assert end.result['virtual_size'] == 3 << 20
    image, raw = tmp_path / 'image', tmp_path / 'raw'
    image.write_bytes(store.got)
    if disk_format == 'qcow2':
        subprocess.run(['qemu-img', 'check', '-q', '-f', 'qcow2', image],
                       check=True)
        subprocess.run(['qemu-img', 'convert', '-f', 'qcow2', '-O', 'raw',
                        image, raw], check=True)
    else:
        raw = image
    content = raw.read_bytes()
    stamp = hashlib.sha256(UUID.encode()).digest()
    assert content == (bytes(1 << 20) + stamp * (1 << 15) + bytes(1 << 20))


@pytest.mark.parametrize('size', [1, 2])
def test_small_disks(drivers, store, size):
    node = make_node(driver_info={'fake_disk_mib': size})
    snapshot = drivers.build(node).snapshot
    snapshot.poll(node, snapshot.start(
        node, order(store, disk_format='raw')))
    stamp = hashlib.sha256(UUID.encode()).digest()
    gap = bytes((size - 1) << 19)
    assert store.got == gap + stamp * (1 << 15) + gap


def test_it_takes_as_long_as_wished(drivers, store):
    node = make_node(driver_info={'fake_delays': {'snapshot.transfer': 3600}})
    snapshot = drivers.build(node).snapshot
    command_id = snapshot.start(node, order(store))
    assert snapshot.poll(node, command_id) == base.Progress()
    snapshot.stop(node, command_id)
    snapshot.stop(node, command_id)
    assert isinstance(snapshot.poll(node, command_id), base.Failed)
    assert store.got is None


def test_an_unwilling_receiver(drivers, store):
    store.status = 507
    node = make_node()
    snapshot = drivers.build(node).snapshot
    end = snapshot.poll(node, snapshot.start(node, order(store)))
    assert isinstance(end, base.Failed)
    assert '507' in end.reason
    assert 'geheim' not in end.reason


def test_a_new_order_replaces_the_old(drivers, store):
    node = make_node()
    snapshot = drivers.build(node).snapshot
    old = snapshot.start(node, order(store))
    new = snapshot.start(node, order(store))
    assert isinstance(snapshot.poll(node, old), base.Failed)
    assert isinstance(snapshot.poll(node, new), base.Done)
    assert isinstance(snapshot.poll(node, new), base.Failed)


def test_another_process_knows_nothing(drivers, store):
    node = make_node()
    command_id = drivers.build(node).snapshot.start(node, order(store))
    conf = configuration(enabled_hardware_types=['fake-hardware'])
    with factory.Factory(conf) as other:
        assert isinstance(other.build(node).snapshot.poll(node, command_id),
                          base.Failed)


def test_an_order_that_is_none(drivers):
    node = make_node()
    with pytest.raises(errors.AgentRefused):
        drivers.build(node).snapshot.start(node, {'version': 7})


@pytest.mark.parametrize('size', [0, -1, 65537, 1.5, True, '4'])
def test_a_disk_that_cannot_be(drivers, size):
    found = drivers.validate(make_node(driver_info={'fake_disk_mib': size}))
    assert 'fake_disk_mib' in found['snapshot']
    assert found['power'] is None


def test_work_is_forgotten_in_the_end(drivers, store):
    node = make_node()
    snapshot = drivers.build(node).snapshot
    snapshot.poll(node, snapshot.start(node, order(store)))
    machines = drivers._shared.get(fake_machines.Machines)
    assert machines.work(UUID) is None
