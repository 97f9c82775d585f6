# SPDX-License-Identifier: Apache-2.0
"""The clients of Nova, as they are: novaclient, openstacksdk, openstack.

The API is served by its own WSGI server on the loopback interface; the
place of the compute worker is taken by one that reports at once.
"""

import bcrypt
from keystoneauth1 import http_basic
from keystoneauth1 import noauth
from keystoneauth1 import session
from novaclient import exceptions as nova_exceptions
import novaclient.client
import openstack
import pytest

from stillframe.api import server
from stillframe.conf import CONF
from tests.functional import environment
from tests.functional import population

STRATEGIES = ('noauth', 'http_basic')


class Served:
    """An API that listens.

    :ivar url: of the compute endpoint.
    """

    def __init__(self, strategy, api, url):
        self.strategy = strategy
        self.api = api
        self.url = url

    def auth(self):
        """The plugin of keystoneauth."""
        if self.strategy == 'noauth':
            return noauth.NoAuth(endpoint=self.url)
        return http_basic.HTTPBasicAuth(
            endpoint=self.url, username='admin', password='secret')

    def nova(self, version):
        """A novaclient."""
        return novaclient.client.Client(
            version, session=session.Session(auth=self.auth()),
            endpoint_override=self.url)

    def sdk(self):
        """A connection of openstacksdk."""
        return openstack.connection.Connection(
            session=session.Session(auth=self.auth()),
            compute_endpoint_override=self.url, compute_api_version='2.1',
            region_name='', app_name='test')

    def configuration(self):
        """A clouds.yaml.

        ``server list`` asks for an identity and an image service before
        anything else; any version document will do.
        """
        cloud = {'auth_type': self.strategy.replace('noauth', 'none'),
                 'auth': {'endpoint': self.url}, 'region_name': ''}
        if self.strategy == 'http_basic':
            cloud['auth'].update(username='admin', password='secret')
        for service, version in (('compute', None), ('identity', '3'),
                                 ('image', '2')):
            cloud[f'{service}_endpoint_override'] = self.url
            if version:
                cloud[f'{service}_api_version'] = version
        return {'clouds': {'test': cloud}}


@pytest.fixture(scope='module', params=STRATEGIES)
def served(request, tmp_path_factory):
    """An API with each strategy in turn."""
    digest = bcrypt.hashpw(b'secret', bcrypt.gensalt(4)).decode()
    users = tmp_path_factory.mktemp('clients') / 'htpasswd'
    users.write_text(f'admin:{digest}\n')
    with environment.environment(
            api__auth_strategy=request.param, api__port=0,
            compute__default_project_id=population.PROJECT,
            http_basic__user_file=users) as api:
        listening = server.ApiServer(CONF, api.app)
        listening.start()
        try:
            yield Served(request.param, api, f'{listening.url}/v2.1')
        finally:
            listening.stop()


@pytest.mark.parametrize('version', ['2.1', '2.53', '2.88'])
def test_novaclient_reads(served, version):
    nova = served.nova(version)
    everywhere = {'all_tenants': 1}
    listed = nova.servers.list(search_opts=everywhere)
    assert len(listed) == 8
    assert nova.servers.list(search_opts={**everywhere, 'name': '^web$'}
                             )[0].id == population.WEB
    paged = nova.servers.list(search_opts=everywhere, limit=-1)
    assert [one.id for one in paged] == [one.id for one in listed]
    found = nova.servers.get(population.APP)
    assert found.status == 'QUIESCED'
    assert nova.servers.find(
        name='web', all_tenants=1).id == population.WEB
    volumes = nova.volumes.get_server_volumes(population.WEB)
    assert [one.volumeId for one in volumes] == list(
        population.VOLUMES[population.WEB])
    assert [one.host for one in nova.services.list()] == ['host-a']
    action = nova.instance_action.list(population.BROKEN)[0]
    assert action.message.startswith('The guest agent did not answer')
    shown = nova.instance_action.get(population.BROKEN, action.request_id)
    assert shown.events[0]['result'] == 'Error'


def test_novaclient_acts(served):
    nova = served.nova('2.89')
    web = nova.servers.get(population.WEB)
    nova.servers._action('quiesce', web, {'timeout': 20})
    with pytest.raises(nova_exceptions.Conflict) as caught:
        nova.servers._action('quiesce', web)
    assert str(caught.value).startswith(
        f"Cannot 'quiesce' instance {population.WEB} while it is in "
        'task_state quiescing')
    assert caught.value.request_id.startswith('req-')
    with pytest.raises(nova_exceptions.BadRequest) as refused:
        nova.servers._action('freeze', web)
    assert 'There is no such action: freeze' in str(refused.value)
    nova.servers.reset_state(population.OFF, 'error')
    assert nova.servers.get(population.OFF).status == 'ERROR'
    with pytest.raises(nova_exceptions.NotFound):
        nova.servers.get('nonsense')


def test_openstacksdk(served):
    compute = served.sdk().compute
    everywhere = {'all_projects': True}
    assert len(list(compute.servers(**everywhere))) == 8
    assert len(list(compute.servers(limit=3, **everywhere))) == 8
    assert len(list(compute.servers(details=False, **everywhere))) == 8
    shown = compute.get_server(population.APP)
    assert (shown.status, shown.vm_state, shown.task_state) == (
        'QUIESCED', 'quiesced', None)
    assert compute.find_server(
        'web', **everywhere).id == population.WEB
    assert compute.find_server('nobody', **everywhere) is None
    actions = list(compute.server_actions(population.BROKEN))
    assert [one.action for one in actions] == ['unquiesce', 'quiesce']
    shown = compute.get_server_action(actions[0].request_id,
                                      population.BROKEN)
    assert [one.result for one in shown.events] == ['Error']
    volumes = list(compute.volume_attachments(population.WEB))
    assert [one.volume_id for one in volumes] == list(
        population.VOLUMES[population.WEB])
    assert [one.state for one in compute.services()] == ['up']


@pytest.mark.parametrize('served', ['noauth'], indirect=True)
def test_openstack_command(served, command):
    """With one strategy; the command takes seconds to start."""
    listed = command('server', 'list', '--all-projects')
    assert {one['Name']: one['Status'] for one in listed}['app'] == (
        'QUIESCED')
    shown = command('server', 'show', population.APP)
    assert shown['status'] == 'QUIESCED'
    assert shown['OS-EXT-SRV-ATTR:host'] == 'host-a'
    events = command('server', 'event', 'list', population.BROKEN)
    assert [one['Action'] for one in events] == ['unquiesce', 'quiesce']
    event = command('server', 'event', 'show', population.BROKEN,
                    events[0]['Request ID'])
    assert event['message'].startswith('The guest agent did not answer')
    volumes = command('server', 'volume', 'list', population.WEB)
    assert [one['Device'] for one in volumes] == ['/dev/vda', '/dev/vdb']
    services = command('compute', 'service', 'list')
    assert [one['State'] for one in services] == ['up']
    command('server', 'set', '--auto-approve', '--state', 'error',
            population.LOST, form=())
    assert command('server', 'show', population.LOST)['status'] == 'ERROR'
