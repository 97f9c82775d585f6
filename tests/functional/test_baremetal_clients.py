# SPDX-License-Identifier: Apache-2.0
"""The clients of Ironic, as they are: ironicclient, openstacksdk, openstack.

The API is served by its own WSGI server on the loopback interface, and a
real conductor looks after nodes that have fake hardware: they are moved,
switched and snapshotted, and the images are made up.
"""

import functools
import http.client
import json
import uuid

import bcrypt
from ironicclient import exc as ironic_exceptions
import ironicclient.client
from keystoneauth1 import discover
from keystoneauth1 import http_basic
from keystoneauth1 import noauth
from keystoneauth1 import session
import openstack
from openstack import exceptions as sdk_exceptions
import pytest

from stillframe.api import server
from stillframe.clients import images
from stillframe.conductor import service
from stillframe.conf import CONF
from tests.functional import environment
from tests.functional import population

STRATEGIES = ('noauth', 'http_basic')


class Served:
    """An API that listens, with a conductor behind it.

    :ivar url: of the bare-metal endpoint.
    """

    def __init__(self, strategy, url):
        self.strategy = strategy
        self.url = url

    def session(self):
        """A session of keystoneauth."""
        if self.strategy == 'noauth':
            return session.Session(auth=noauth.NoAuth(endpoint=self.url))
        return session.Session(auth=http_basic.HTTPBasicAuth(
            endpoint=self.url, username='admin', password='secret'))

    def ironic(self, **version):
        """An ironicclient."""
        return ironicclient.client.Client(
            1, session=self.session(), endpoint_override=self.url,
            max_retries=50, retry_interval=0.1, **version)

    def sdk(self):
        """A connection of openstacksdk."""
        return openstack.connection.Connection(
            session=self.session(),
            # Of several versions at the root it would take the highest.
            baremetal_endpoint_override=f'{self.url}/v1',
            compute_endpoint_override=f'{self.url}/v2.1',
            compute_api_version='2.1', region_name='', app_name='test')

    def configuration(self):
        """A clouds.yaml."""
        cloud = {'auth_type': self.strategy.replace('noauth', 'none'),
                 'auth': {'endpoint': self.url}, 'region_name': '',
                 'baremetal_endpoint_override': self.url}
        if self.strategy == 'http_basic':
            cloud['auth'].update(username='admin', password='secret')
        return {'clouds': {'test': cloud}}


@pytest.fixture(scope='module', params=STRATEGIES)
def served(request, tmp_path_factory):
    """An API with each strategy in turn."""
    digest = bcrypt.hashpw(b'secret', bcrypt.gensalt(4)).decode()
    folder = tmp_path_factory.mktemp('bm')
    users = folder / 'htpasswd'
    users.write_text(f'admin:{digest}\n')
    with environment.environment(
            conductor=False, api__auth_strategy=request.param, api__port=0,
            compute__default_project_id=population.PROJECT,
            http_basic__user_file=users, state_path=folder,
            conductor__host='conductor-a', baremetal__ring_interval=0.1,
            baremetal__agent_api_url='http://127.0.0.1') as api:
        conductor = service.Conductor(CONF)
        conductor.start()
        listening = server.ApiServer(CONF, api.app)
        listening.start()
        try:
            yield Served(request.param, listening.url)
        finally:
            listening.stop()
            conductor.stop()


def make_image():
    """Make an image that is queued; give its id."""
    image = str(uuid.uuid4())
    images.connect(CONF).create(images.Record(
        id=image, name='golden', owner=population.PROJECT))
    return image


def test_ironicclient(served):
    ironic = served.ironic(os_ironic_api_version='latest')
    name = f'node-{uuid.uuid4()}'
    node = ironic.node.create(
        name=name, driver='fake-hardware', properties={'cpus': 4},
        driver_info={'password': 'secret'})
    assert node.provision_state == 'enroll'
    assert ironic.http_client.os_ironic_api_version == '1.115'
    port = ironic.port.create(node_uuid=node.uuid,
                              address='52:54:00:01:00:01')
    assert [one.uuid for one in ironic.node.list_ports(name)] == [port.uuid]
    assert [one.uuid for one in ironic.port.list(node=name, detail=True)
            ] == [port.uuid]
    with pytest.raises(ironic_exceptions.Conflict,
                       match='already exists'):
        served.ironic(os_ironic_api_version='1.115').port.create(
            node_uuid=node.uuid, address='52:54:00:01:00:01')
    node = ironic.node.update(name, [
        {'op': 'add', 'path': '/extra/rack', 'value': 7},
        {'op': 'remove', 'path': '/properties/cpus'}])
    assert (node.extra, node.properties) == ({'rack': 7}, {})
    assert node.driver_info == {'password': '******'}
    for target, state in (('manage', 'manageable'), ('provide', 'available'),
                          ('active', 'active')):
        ironic.node.set_provision_state(name, target)
        ironic.node.wait_for_provision_state(
            name, state, timeout=60, poll_interval=0.1)
    ironic.node.set_power_state(name, 'off')
    assert ironic.node.states(name).to_dict()['target_power_state'] in (
        'power off', None)
    assert ironic.node.validate(name).power == {'result': True}
    assert ironic.node.get_boot_device(name)['boot_device'] == 'disk'
    assert 'pxe' in ironic.node.get_supported_boot_devices(name)[
        'supported_boot_devices']
    ironic.node.set_boot_device(name, 'pxe', persistent=False)
    assert ironic.node.get_boot_device(name) == {
        'boot_device': 'pxe', 'persistent': False}
    ironic.node.set_maintenance(name, True, maint_reason='fans')
    assert ironic.node.get(name).maintenance_reason == 'fans'
    ironic.node.set_maintenance(name, False)
    ironic.node.set_provision_state(name, 'deleted')
    ironic.node.wait_for_provision_state(
        name, 'available', timeout=60, poll_interval=0.1)
    assert name in [one.name for one in ironic.node.list(limit=0)]
    ironic.node.delete(name)
    with pytest.raises(ironic_exceptions.NotFound, match='could not be f'):
        ironic.node.get(name)


def test_ironicclient_with_its_oldest_habits(served):
    """Without a version the library asks for 1.9."""
    ironic = served.ironic()
    node = ironic.node.create(driver='fake-hardware')
    # Such clients expect a node that can be used at once.
    assert node.provision_state == 'available'
    assert ironic.node.get(node.uuid).to_dict().keys() >= {
        'uuid', 'driver', 'links'}
    assert ironic.driver.get('fake-hardware').hosts == ['conductor-a']
    assert 'fake_delays' in ironic.driver.properties('fake-hardware')
    with pytest.raises(ironic_exceptions.BadRequest,
                       match='can not be performed'):
        ironic.node.set_provision_state(node.uuid, 'provide')
    ironic.node.delete(node.uuid)


def test_openstacksdk(served):
    connection = served.sdk()
    baremetal = connection.baremetal
    name = f'node-{uuid.uuid4()}'
    node = baremetal.create_node(
        name=name, driver='fake-hardware', provision_state='manageable',
        extra={'a': 1})
    assert node.provision_state == 'manageable'
    port = baremetal.create_port(node_id=node.id,
                                 address='52:54:00:02:00:01')
    assert [one.id for one in baremetal.ports(node=node.id)] == [port.id]
    assert [one.address for one in baremetal.ports(
        details=True, node=node.id)] == ['52:54:00:02:00:01']
    node = baremetal.update_node(node, extra={'a': 1, 'b': 2},
                                 resource_class='gold')
    node = baremetal.get_node(name)
    assert (node.extra, node.resource_class) == ({'a': 1, 'b': 2}, 'gold')
    assert [one.name for one in baremetal.nodes(
        details=True, resource_class='gold')] == [name]
    assert [one.name for one in baremetal.nodes(limit=1)].count(name) == 1
    node = baremetal.set_node_provision_state(name, 'adopt', wait=True,
                                              timeout=60)
    assert node.provision_state == 'active'
    baremetal.set_node_power_state(name, 'power on', wait=True, timeout=60)
    assert baremetal.validate_node(name)['power'].result
    image = make_image()
    # As users do it: the call itself does not know an image_ref.
    answer = baremetal.put(
        f'/nodes/{name}/states/provision', microversion='1.116',
        json={'target': 'snapshot', 'image_ref': image})
    assert answer.status_code == 202
    baremetal.wait_for_nodes_provision_state([name], 'active', timeout=60)
    assert images.connect(CONF).status(image) == 'active'
    done = baremetal.get(f'/nodes/{name}/snapshot',
                         microversion='1.116').json()
    assert done['outcome'] == 'done'
    baremetal.set_node_maintenance(name, 'fans')
    assert baremetal.get_node(name).is_maintenance
    baremetal.unset_node_maintenance(name)
    assert [one.name for one in baremetal.drivers()] == ['fake-hardware']
    assert baremetal.get_driver(
        'fake-hardware').default_power_interface == 'fake'
    assert [one.alive for one in baremetal.conductors()] == [True]
    with pytest.raises(sdk_exceptions.BadRequestException,
                       match='can not be performed'):
        baremetal.set_node_provision_state(name, 'provide')
    with pytest.raises(sdk_exceptions.NotFoundException):
        baremetal.get_node('nobody')
    baremetal.delete_port(port)
    baremetal.set_node_provision_state(name, 'deleted', wait=True,
                                       timeout=60)
    baremetal.delete_node(name)
    # The same endpoint has the other dialect too.
    assert len(list(connection.compute.servers(all_projects=True))) == 8


@pytest.mark.parametrize('served', ['noauth'], indirect=True)
def test_discovery_at_the_root(served):
    """A client that says which major version it can finds it there."""
    found = discover.Discover(served.session(), served.url)
    for least, most, url, largest in (
            ('1', '1.latest', '/v1/', (1, 116)),
            ('2', '2.latest', '/v2.1/', (2, 89))):
        data = found.versioned_data_for(min_version=least, max_version=most)
        assert data['url'] == served.url + url
        assert data['max_microversion'] == largest


@pytest.fixture
def baremetal(command):
    """Runs a command about bare metal; see command."""
    return functools.partial(command, 'baremetal')


@pytest.mark.parametrize('served', ['http_basic'], indirect=True)
def test_openstack_command(served, baremetal):
    """With one strategy; the command takes seconds to start."""
    node = baremetal('node', 'create', '--driver', 'fake-hardware', '--name',
                     'cli', '--network-interface', 'noop', '--property',
                     'cpus=4')
    assert node['provision_state'] == 'enroll'
    baremetal('node', 'manage', 'cli', '--wait', '60', form=())
    baremetal('node', 'set', 'cli', '--extra', 'a=b', '--instance-info',
              'root_device={"serial": "x"}', form=())
    baremetal('node', 'adopt', 'cli', '--wait', '60', form=())
    baremetal('port', 'create', '52:54:00:03:00:01', '--node', node['uuid'])
    assert [one['address'] for one in baremetal(
        'port', 'list', '--node', 'cli')] == ['52:54:00:03:00:01']
    assert baremetal('node', 'show', 'cli')['extra'] == {'a': 'b'}
    image = make_image()
    snapshot = baremetal('node', 'snapshot', 'cli', '--image', image,
                         '--skip-free-space', '--wait', '60')
    assert snapshot['outcome'] == 'done'
    assert snapshot['image_ref'] == image
    assert images.connect(CONF).status(image) == 'active'
    (event,) = baremetal('node', 'history', 'list', 'cli')
    assert event['severity'] == 'INFO'
    assert [one['name'] for one in baremetal('driver', 'list')] == [
        'fake-hardware']
    assert [one['alive'] for one in baremetal('conductor', 'list')] == [True]
    baremetal('node', 'undeploy', 'cli', '--wait', '60', form=())
    baremetal('node', 'delete', 'cli', form=())
    assert 'cli' not in [one['name'] for one in baremetal('node', 'list')]


@pytest.mark.parametrize('served', ['noauth'], indirect=True)
def test_as_curl_does_it(served):
    """A request by hand, with nothing that a library would add."""
    host = served.url.removeprefix('http://')
    connection = http.client.HTTPConnection(host, timeout=60)
    connection.request('GET', '/', headers={'Host': host})
    answer = json.loads(connection.getresponse().read())
    assert answer['default_version']['version'] == '1.116'
    connection.request(
        'POST', '/v1/nodes', b'{"driver": "fake-hardware"}',
        {'Host': host, 'Content-Type': 'application/json'})
    answer = connection.getresponse()
    body = json.loads(answer.read())
    assert answer.status == 201
    location = answer.headers['Location']
    assert location == f'{served.url}/v1/nodes/{body["uuid"]}'
    connection.request('DELETE', location.removeprefix(served.url),
                       headers={'Host': host})
    answer = connection.getresponse()
    assert (answer.status, answer.read()) == (204, b'')
    connection.close()
