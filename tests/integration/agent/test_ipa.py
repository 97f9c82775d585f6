# SPDX-License-Identifier: Apache-2.0
"""The real ironic-python-agent with our extension."""

import contextlib
import hashlib
import os
import urllib.error

import pytest

from tests.integration.agent import ipa
from tests.lab import taker
from tests.lab.network import TapNetwork
from tests.lab.processes import state_dir

MIB = 1 << 20
MAC = '52:54:00:1b:a0:01'
# As much of one as that agent wants to see.
NODE = {'uuid': '11111111-2222-3333-4444-555555555555', 'properties': {},
        'instance_info': {}, 'driver_internal_info': {}}

pytestmark = pytest.mark.skipif(bool(ipa.why_not()), reason=ipa.why_not())


@pytest.fixture(scope='module')
def network():
    """A network namespace that the tests of this file are in."""
    with TapNetwork() as made, made.entered():
        yield made


@pytest.fixture(scope='module')
def alone(network):
    """An agent that no API knows: it takes commands."""
    with state_dir('ipa') as folder:
        disk = folder / 'S1.disk'
        with disk.open('wb') as file:
            file.truncate(5 << 30)
            file.write(os.urandom(9 * MIB))
        ramdisk = ipa.Ramdisk(folder, MAC)
        ramdisk.disk = disk
        ramdisk.start(disk, '--agent_token', ipa.TOKEN)

        def answers():
            with contextlib.suppress(urllib.error.URLError):
                return ramdisk.call('/v1/status')[0] == 200

        try:
            ramdisk.process.wait_ready(answers, 120)
            yield ramdisk
        finally:
            ramdisk.stop()


def order(server, **more):
    return {'name': 'snapshot.stream_image', 'params': {
        'version': 1, 'url': server.url, 'username': 'one',
        'password': 'secret-of-the-order', 'timeout': 20.0, **more}}


def run(ramdisk, what):
    """Have a command carried out; give its end."""
    status, told = ramdisk.call('/v1/commands/', what, wait='true')
    assert status == 200, told
    return told


def test_the_extension_is_there(alone):
    told = run(alone, {'name': 'snapshot.ping', 'params': {}})
    assert told['command_status'] == 'SUCCEEDED'
    assert told['command_result']['transports'] == ['davfs', 'nfs', 'webdav']


def test_the_hardware_manager_is_there(alone):
    told = run(alone, {'name': 'service.get_service_steps', 'params': {
        'node': NODE, 'ports': []}})
    assert told['command_result']['hardware_manager_version'][
        'StillframeHardwareManager'] == '1'


def test_a_disk_is_sent(alone, tmp_path):
    with taker.Taker(tmp_path / 'received') as server:
        told = run(alone, order(server))
    assert told['command_error'] is None
    assert told['command_name'] == 'stream_image'
    result = told['command_result']
    assert result['sha256'] == server.digest == hashlib.sha256(
        server.path.read_bytes()).hexdigest()
    assert result['disk']['serial'] == 'S1'


def test_an_order_that_cannot_be_carried_out(alone):
    status, told = alone.call('/v1/commands/', {
        'name': 'snapshot.stream_image', 'params': {'version': 7}})
    assert status == 400
    assert 'orders of version 1, not 7' in told['faultstring']


def test_a_failure_says_its_kind(alone, tmp_path):
    with taker.Taker(tmp_path / 'received') as server:
        told = run(alone, order(server, root_device={'serial': 'other'}))
    assert told['command_status'] == 'FAILED'
    assert told['command_error']['type'] == 'NoDisk'
    assert told['command_error']['message'] == 'Command execution failed'
    assert 'serial S1' in told['command_error']['details']


def test_a_stream_that_hangs_ends_by_itself(alone, tmp_path):
    """Nothing else could end it: this agent is busy meanwhile."""
    manners = taker.Manners(stall_after=MIB)
    with taker.Taker(tmp_path / 'received', manners) as server:
        status, running = alone.call(
            '/v1/commands/', order(server, timeout=5.0))
        assert (status, running['command_status']) == (200, 'RUNNING')
        assert server.stalled.wait(60)
        status, told = alone.call('/v1/commands/', {
            'name': 'snapshot.ping', 'params': {}})
        assert (status, told['faultstring']) == (
            409, 'Agent is busy: executing command stream_image')
        _, ended = alone.call(f'/v1/commands/{running["id"]}', wait='true')
    assert ended['command_status'] == 'FAILED'
    assert ended['command_error']['type'] == 'SendFailed'
    assert 'took nothing for 5 s' in ended['command_error']['details']


def test_there_is_nothing_to_stop(alone):
    told = run(alone, {'name': 'snapshot.stop', 'params': {}})
    assert told['command_result'] == {'stopping': False}


def test_a_stream_that_is_cut_ends(alone, tmp_path):
    """As the receiver does it for a snapshot that is aborted."""
    manners = taker.Manners(cut_after=MIB)
    with taker.Taker(tmp_path / 'received', manners) as server:
        told = run(alone, order(server, timeout=3600.0))
    assert told['command_error']['type'] == 'SendFailed'
