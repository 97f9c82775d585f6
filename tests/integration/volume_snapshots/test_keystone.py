# SPDX-License-Identifier: Apache-2.0
"""A Cinder and a Stillframe that both ask a real Keystone who is who."""

import contextlib

import pytest

from tests.integration.images.test_volumes import ended
from tests.integration.images.test_volumes import order
from tests.integration.images.test_volumes import record
from tests.integration.volume_snapshots.daemon import Stillframe
from tests.integration.volume_snapshots.scene import Scene
from tests.lab import keystone as lab
from tests.lab.domain_xml import nova_metadata
from tests.lab.processes import wait_until
from tests.lab.volumes import Volumes
from tests.lab.volumes import client

pytestmark = pytest.mark.timeout(900)

#: Whose credentials Stillframe has for Cinder.
TELLER = lab.Account('teller', 'tellerpw', 'service', ('admin', 'service'))


def project_of(keystone, account):
    with keystone.connect(account) as cloud:
        return cloud.current_project_id


def set_password(keystone, account):
    """Give an account the password that it has: its tokens are void then."""
    with keystone.connect() as cloud:
        user = cloud.identity.find_user(account.user)
        cloud.identity.update_user(user, password=account.password)


@pytest.fixture(scope='module')
def teller(cloud_keystone):
    """An account of which no other service has tokens."""
    with cloud_keystone.connect() as cloud:
        identity = cloud.identity
        user = identity.create_user(name=TELLER.user,
                                    password=TELLER.password,
                                    domain_id='default')
        project = identity.find_project(TELLER.project)
        for name in TELLER.roles:
            identity.assign_project_role_to_user(
                project.id, user.id, identity.find_role(name).id)
    return TELLER


@pytest.fixture
def new_scene(cloud_keystone, cloud_cinder, host_a, teller):
    """Put a guest of Alice's on a volume of hers."""
    service = {'auth_type': 'password',
               **cloud_keystone.credentials(lab.SERVICE)}
    with contextlib.ExitStack() as stack:
        def make(**settings):
            volumes = stack.enter_context(Volumes(cloud_cinder, lab.ALICE))
            stillframe = Stillframe(host_a, **{
                **settings,
                'DEFAULT': {'default_log_levels': 'keystoneauth=DEBUG'},
                'api': {'auth_strategy': 'keystone'},
                'keystone_authtoken': {
                    **service, 'www_authenticate_uri': cloud_keystone.url},
                'cinder': {
                    **service, **cloud_keystone.credentials(teller),
                    'region_name': lab.REGION, 'timeout': 60}})
            stillframe.http.headers['X-Auth-Token'] = (
                cloud_keystone.token())
            stack.enter_context(stillframe)
            return stack.enter_context(Scene(
                host_a, volumes, stillframe, metadata=nova_metadata(
                    'web', project_of(cloud_keystone, lab.ALICE), 'f' * 32)))

        yield make


def test_a_token_is_void_when_the_outcome_is_to_be_told(
        new_scene, cloud_keystone, cloud_cinder):
    scene = new_scene(volume_snapshots={'merge_bandwidth': 1})
    volumes, stillframe = scene.volumes, scene.stillframe
    scene.write('a', 4)
    first = volumes.snapshot(scene.volume)
    scene.write('b', 12)
    second = volumes.snapshot(scene.volume)
    # It has told Cinder of two, so it has a token.
    assert 'RESP: [401]' not in stillframe.log
    volumes.begin_delete(first)
    scene.wait_job(first)
    set_password(cloud_keystone, TELLER)
    # Cinder knows for a while which tokens were good.
    cloud_cinder.stop(['api'])
    cloud_cinder.start(['api'])
    scene.guest.domain.blockJobSetSpeed('vda', 0, 0)
    volumes.wait_snapshot(first, 'gone')
    shown = stillframe.wait_shown(first, operation='delete', state='done')
    assert shown['cinder']['delivery'] == 'delivered'
    assert 'RESP: [401]' in stillframe.log
    assert 'X-Service-Token' in stillframe.log
    scene.check_chain(scene.file(second), scene.base)
    scene.cold_start()


def test_snapshots_for_an_image_belong_to_whoever_asked(
        new_scene, cloud_keystone, cloud_cinder):
    scene = new_scene(images={'volume_freeze_timeout': 300})
    stillframe = scene.stillframe
    scene.write('a')
    admin = stillframe.http.headers['X-Auth-Token']
    stillframe.http.headers['X-Auth-Token'] = cloud_keystone.token(lab.ALICE)
    image_id = order(scene)
    stillframe.http.headers['X-Auth-Token'] = admin
    action = ended(scene)
    assert action['events'][0]['result'] == 'Success', (
        action['message'], action['events'][0]['details'])
    image = record(scene, image_id)
    alice = project_of(cloud_keystone, lab.ALICE)
    assert (image['owner'], image['status']) == (alice, 'active')

    def listed(account):
        return client(cloud_cinder, account).volume_snapshots.list(
            search_opts={'volume_id': scene.volume})

    snapshot, = listed(lab.ALICE)
    assert snapshot.id in image['block_device_mapping']
    told = client(cloud_cinder).volume_snapshots.get(snapshot.id).to_dict()
    assert told['os-extended-snapshot-attributes:project_id'] == alice
    assert listed(lab.BOB) == []
    # Hers to delete.
    client(cloud_cinder, lab.ALICE).volume_snapshots.delete(snapshot.id)
    scene.volumes.wait_snapshot(snapshot.id, 'gone')
    assert not scene.guest.frozen()


def test_snapshots_of_an_image_that_failed_are_removed_for_its_owner(
        new_scene, cloud_keystone):
    """By our own account: the owner's token is kept nowhere."""
    scene = new_scene(images={'volume_freeze_timeout': 1})
    scene.volumes.cinder.compute.point_at(None)
    admin = scene.stillframe.http.headers['X-Auth-Token']
    token = cloud_keystone.token(lab.ALICE)
    scene.stillframe.http.headers['X-Auth-Token'] = token
    image_id = order(scene)
    scene.stillframe.http.headers['X-Auth-Token'] = admin
    assert ended(scene)['events'][0]['result'] == 'Error'
    wait_until(lambda: not scene.volumes.client.volume_snapshots.list(
        search_opts={'volume_id': scene.volume}), 240,
        'the snapshot to be removed', 0.5)
    wait_until(lambda: record(scene, image_id) is None, 60,
               'the image to be removed', 0.2)
    found = [path for path in scene.stillframe.path.rglob('*')
             if path.is_file() and token.encode() in path.read_bytes()]
    assert found == []
