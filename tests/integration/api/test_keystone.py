# SPDX-License-Identifier: Apache-2.0
"""The API behind a real Keystone, with the clients as they are."""

import json
import os
import pathlib
import subprocess
import sys

import openstack
import pytest

from stillframe.api import server
from stillframe.conf import CONF
from tests.functional import environment
from tests.functional import node_population
from tests.functional import population
from tests.lab import keystone as lab

ALICES = population.OFF


@pytest.fixture(scope='module')
def keystone():
    """A Keystone of this module's own, to be stopped."""
    with lab.Keystone() as running:
        yield running


def project_of(keystone, account):
    """The id of an account's project."""
    with keystone.connect(account) as cloud:
        return cloud.current_project_id


@pytest.fixture(scope='module')
def api(keystone):
    """An API in Keystone's catalog; one project of it owns the servers."""
    credentials = keystone.credentials(lab.SERVICE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(population, 'PROJECT',
                      project_of(keystone, lab.ALICE))
        patch.setattr(population, '_ON_HOST_UP', tuple(
            (one, name, project_of(keystone, lab.ALICE), *rest)
            for one, name, _, *rest in population._ON_HOST_UP))
        with environment.environment(
                nodes=True, api__auth_strategy='keystone', api__port=0,
                keystone_authtoken__auth_type='password',
                keystone_authtoken__www_authenticate_uri=keystone.url,
                **{f'keystone_authtoken__{key}': value
                   for key, value in credentials.items()}) as made:
            listening = server.ApiServer(CONF, made.app)
            listening.start()
            keystone.register('compute', 'stillframe',
                              f'{listening.url}/v2.1')
            keystone.register('baremetal', 'stillframe-baremetal',
                              f'{listening.url}/v1')
            try:
                yield made
            finally:
                listening.stop()


def test_the_owner_reads(api, keystone):
    with keystone.connect(lab.ALICE) as cloud:
        names = {one.name for one in cloud.compute.servers()}
        assert {'web', 'app', 'off', 'theirs'} <= names
        assert cloud.compute.get_server(ALICES).status == 'SHUTOFF'
        assert list(cloud.compute.volume_attachments(population.WEB))
        assert list(cloud.compute.server_actions(population.APP))


def test_another_project_sees_nothing(api, keystone):
    with keystone.connect(lab.BOB) as cloud:
        assert list(cloud.compute.servers()) == []
        with pytest.raises(openstack.exceptions.NotFoundException):
            cloud.compute.get_server(ALICES)


@pytest.mark.parametrize(('account', 'status'), [
    (lab.ALICE, 403), (lab.BOB, 404), (lab.SERVICE, 202)])
def test_quiesce(api, keystone, account, status):
    with keystone.connect(account) as cloud:
        answer = cloud.compute.post(
            f'/servers/{population.WEB}/action', json={'quiesce': None})
        assert answer.status_code == status


def test_without_a_token(api, keystone):
    with keystone.connect(lab.ALICE) as cloud:
        url = cloud.compute.get_endpoint()
        answer = cloud.session.get(f'{url}/servers', authenticated=False,
                                   raise_exc=False)
        assert answer.status_code == 401
        assert keystone.url in answer.headers['www-authenticate']


def test_openstack_command(api, keystone, tmp_path):
    variables = {f'OS_{key.upper()}': value for key, value in
                 keystone.credentials(lab.ADMIN).items()}

    def run(*words):
        done = subprocess.run(
            [pathlib.Path(sys.executable).parent / 'openstack', *words,
             '-f', 'json'],
            capture_output=True, text=True, timeout=120, check=False,
            env={'PATH': os.defpath, 'HOME': str(tmp_path),
                 'PYTHONWARNINGS': 'ignore',
                 'OS_IDENTITY_API_VERSION': '3', **variables})
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    assert run('baremetal', 'node', 'show', 'waiting')[
        'provision_state'] == 'snapshot wait'
    listed = run('server', 'list', '--all-projects', '--no-name-lookup')
    assert {one['Name'] for one in listed} >= {'web', 'far'}
    assert run('server', 'show', population.APP)['status'] == 'QUIESCED'
    assert [one['Action'] for one in run(
        'server', 'event', 'list', population.APP)] == ['quiesce']
    assert run('compute', 'service', 'list')[0]['State'] == 'up'


def test_bare_metal(api, keystone):
    with keystone.connect(lab.ADMIN) as cloud:
        assert len(list(cloud.baremetal.nodes(details=True))) == 12
        assert [one.hostname for one in cloud.baremetal.conductors()] == [
            node_population.CONDUCTOR]
    with keystone.connect(lab.ALICE) as cloud:
        assert cloud.baremetal.get_node('active').driver_info[
            'redfish_password'] == '******'
        assert 'resting' not in [
            one.name for one in cloud.baremetal.nodes()]
        with pytest.raises(openstack.exceptions.NotFoundException):
            cloud.baremetal.get_node('resting')
        with pytest.raises(openstack.exceptions.ForbiddenException):
            cloud.baremetal.create_node(driver='fake-hardware')
        url = cloud.baremetal.get_endpoint().rstrip('/')
        answer = cloud.session.get(f'{url}/nodes', authenticated=False,
                                   raise_exc=False)
        assert answer.status_code == 401
        answer = cloud.session.get(f'{url}/lookup', authenticated=False,
                                   raise_exc=False)
        assert answer.status_code == 404
    with keystone.connect(lab.BOB) as cloud:
        assert list(cloud.baremetal.nodes()) == []


def test_keystone_is_away(api, keystone):
    """Runs last of the module's: afterwards there is none."""
    with keystone.connect(lab.ALICE) as cloud:
        url = cloud.compute.get_endpoint()
        # A token that the API has not seen yet.
        token = cloud.session.get_token()
        keystone.stop()
        answer = cloud.session.get(
            f'{url}/servers', headers={'X-Auth-Token': token},
            authenticated=False, raise_exc=False)
        assert answer.status_code == 503
        answer = cloud.session.get(url, authenticated=False,
                                   raise_exc=False)
        assert answer.status_code == 200
