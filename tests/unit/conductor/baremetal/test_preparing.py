# SPDX-License-Identifier: Apache-2.0
"""What would fail in the end is found before a machine is switched off."""

import pytest

from stillframe.conductor import receiver
from stillframe.conductor.baremetal import preparing
from stillframe.conductor.baremetal import tasks
from stillframe.conf import CONF
from stillframe.db import node_moves
from stillframe.db import nodes
from stillframe.drivers import fake
from tests.unit.db import node_scenes as scenes


@pytest.fixture
def folder(tools, tmp_path):
    """Where images may go."""
    made = tmp_path / 'images'
    made.mkdir()
    (made / 'taken.qcow2').write_text('precious')
    CONF.set_override('url_prefixes', [f'file://{made}'], 'images')
    CONF.set_override('agent_api_url', 'https://api.test', 'baremetal')
    yield made
    CONF.clear_override('url_prefixes', 'images')
    CONF.clear_override('agent_api_url', 'baremetal')


@pytest.fixture
def switched(monkeypatch):
    """What machines are told."""
    told = []
    monkeypatch.setattr(
        fake.FakePower, 'set_power_state',
        lambda self, node, target, timeout=None: told.append(target))
    return told


def begin(tools, image_ref, options=(), disk_format='qcow2', **values):
    """Begin the snapshot of a machine that is on; gives the node after."""
    node = node_moves.begin(
        scenes.node('active', power_state='power on',
                    snapshot_interface='agent', **values),
        'snapshot', scenes.HOST, {**scenes.REQUEST, 'image_ref': image_ref,
                                  'options': dict(options),
                                  'disk_format': disk_format})
    preparing.begin(tasks.Task(tools, node))
    return nodes.get(node['uuid'])


@pytest.mark.parametrize('name, said', [
    ('taken.qcow2', 'there is a file of that name'),
    ('missing/x.qcow2', 'its folder is not there')])
def test_no_place_for_the_image(tools, folder, switched, name, said):
    node = begin(tools, f'file://{folder}/{name}')
    assert node['provision_state'] == 'snapshot failed'
    assert said in node['last_error']
    assert not switched


def test_a_place_for_the_image(tools, folder, switched):
    node = begin(tools, f'file://{folder}/x.qcow2')
    assert node['provision_state'] == 'snapshot wait', node['last_error']
    assert switched


@pytest.mark.parametrize('properties, device, said', [
    ({'root_device': 'the first'}, 'root', 'root_device'),
    ({'root_device': {'colour': 'red'}}, 'root', "'colour' is not known"),
    ({'root_device': {'size': '>= much'}}, 'root', 'size'),
    ({'skip_block_devices': 5}, 'root', 'no list'),
    ({'skip_block_devices': ['/dev/sda']}, 'root', 'skip_block_devices'),
    ({}, {'size': '<in> 10'}, 'size')])
def test_hints_that_are_none(tools, folder, switched, properties, device,
                             said):
    node = begin(tools, f'file://{folder}/x.qcow2', {'device': device},
                 properties=properties)
    assert node['provision_state'] == 'snapshot failed'
    assert 'cannot be ordered' in node['last_error']
    assert said in node['last_error']
    assert not switched


@pytest.mark.parametrize('transport', ['webdav', 'davfs'])
def test_hints_that_agents_know(tools, folder, switched, transport):
    node = begin(
        tools, f'file://{folder}/x.qcow2',
        {'transport': transport, 'device': 'root'},
        properties={'root_device': {'size': '>= 10', 'rotational': True},
                    'skip_block_devices': [{'name': '/dev/sdb'}]})
    assert node['provision_state'] == 'snapshot wait', node['last_error']


def test_no_hints_at_all(tools, folder, switched):
    node = begin(tools, f'file://{folder}/x.qcow2',
                 properties={'root_device': {}})
    assert node['provision_state'] == 'snapshot wait', node['last_error']


@pytest.mark.parametrize('disk_format, options, properties, said', [
    ('qcow2', {'transport': 'nfs'}, {}, 'nfs needs share_url'),
    # A raw image is as large as its disk.
    ('raw', {}, {'local_gb': 1 << 20}, f'it needs {1 << 50} bytes'),
    ('raw', {}, {'local_gb': str(1 << 20)}, f'it needs {1 << 50} bytes')])
def test_an_image_that_could_not_be_received(
        tools, folder, switched, disk_format, options, properties, said):
    node = begin(tools, f'file://{folder}/x', options, disk_format,
                 properties=properties)
    assert node['provision_state'] == 'snapshot failed'
    assert said in node['last_error']
    assert not switched


def test_a_store_that_is_full(tools, folder, switched):
    tools.receiver.stop()
    CONF.set_override('min_free', 1 << 40, 'receiver')
    try:
        tools.receiver = receiver.Receiver(CONF)
    finally:
        CONF.clear_override('min_free', 'receiver')
    tools.receiver.start()
    node = begin(tools, f'file://{folder}/x.qcow2')
    assert node['provision_state'] == 'snapshot failed'
    assert '0 are free beside the reserve' in node['last_error']
    assert not switched


@pytest.mark.parametrize('disk_format, options, properties', [
    ('raw', {}, {'local_gb': 1}), ('raw', {}, {'local_gb': 'much'}),
    ('raw', {}, {}), ('qcow2', {}, {'local_gb': 1 << 20}),
    # It may be another disk.
    ('raw', {'device': {'size': 10}}, {'local_gb': 1 << 20}),
    ('raw', {}, {'local_gb': 1 << 20, 'root_device': {'size': 10}})])
def test_what_is_not_known_is_no_reason(tools, folder, switched, disk_format,
                                        options, properties):
    node = begin(tools, f'file://{folder}/x', options, disk_format,
                 properties=properties)
    assert node['provision_state'] == 'snapshot wait', node['last_error']
