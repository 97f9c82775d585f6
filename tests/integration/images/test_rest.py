# SPDX-License-Identifier: Apache-2.0
"""createImage over REST, by the clients that people use."""

import json
import subprocess
import urllib.error
import urllib.request

from keystoneauth1 import noauth
from keystoneauth1 import session
from novaclient import client
import pytest

from tests.integration.volume_snapshots.daemon import Stillframe
from tests.lab import disks
from tests.lab.processes import LabError
from tests.lab.processes import wait_until


class Room:
    """A Stillframe with a Glance behind it."""

    def __init__(self, stillframe, glance):
        self.stillframe = stillframe
        self.glance = glance

    def image(self, image_id):
        """Give what Glance says of an image; None when it is not there."""
        try:
            with urllib.request.urlopen(
                    f'{self.glance.url}/v2/images/{image_id}',
                    timeout=10) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as exc:
            if exc.code == 404:
                return None
            raise

    def clear(self):
        """Delete all images; give what Glance said of them."""
        listed = json.load(urllib.request.urlopen(
            f'{self.glance.url}/v2/images', timeout=10))['images']
        for one in listed:
            urllib.request.urlopen(urllib.request.Request(
                f'{self.glance.url}/v2/images/{one["id"]}',
                method='DELETE'), timeout=10)
        return listed

    def action(self, server):
        """Give the newest action of a server once it has ended."""
        def ended():
            listed = self.stillframe.http.get(
                f'/servers/{server}/os-instance-actions').json()
            newest = self.stillframe.http.get(
                f'/servers/{server}/os-instance-actions/'
                + listed['instanceActions'][0]['request_id'],
                headers={'OpenStack-API-Version': 'compute 2.84'}).json()
            action = newest['instanceAction']
            return action['events'][0]['finish_time'] and action
        try:
            return wait_until(ended, 60, 'the action to end', 0.1)
        except LabError as exc:
            raise AssertionError(self.stillframe.log[-6000:]) from exc


@pytest.fixture(scope='module')
def room(host, glance):
    with Stillframe(
            host,
            images={'store': 'glance', 'retry_wait': 0.2,
                    'silence_timeout': 10},
            glance={'auth_type': 'none', 'endpoint_override': glance.url,
                    }) as stillframe:
        yield Room(stillframe, glance)
        assert glance.files() == []


def order(room, server, name='picture', minor='2.45', **more):
    return room.stillframe.http.post(
        f'/servers/{server}/action',
        json={'createImage': {'name': name, **more}},
        headers={'OpenStack-API-Version': f'compute {minor}'})


def test_an_image_in_glance(room, guest, tmp_path):
    room.stillframe.wait_server(guest.uuid)
    answer = order(room, guest.uuid, metadata={'os_distro': 'debian'})
    assert answer.status_code == 202, answer.text
    image_id = answer.json()['image_id']
    # It can be looked at from the answer on.
    image = room.image(image_id)
    assert image['status'] in ('queued', 'saving', 'active')
    assert order(room, guest.uuid).status_code == 409
    action = room.action(guest.uuid)
    assert action['action'] == 'createImage'
    assert action['events'][0]['result'] == 'Success', action
    assert 'complete and was verified' in action['message']
    room.stillframe.wait_status(guest.uuid, 'ACTIVE')
    image = room.image(image_id)
    assert image['status'] == 'active'
    assert image['disk_format'] == 'qcow2'
    assert image['stillframe_consistency'] == 'filesystem'
    assert image['os_distro'] == 'debian'
    assert image['instance_uuid'] == guest.uuid
    assert float(image['stillframe_freeze_window']) < 5
    raw = tmp_path / 'raw'
    subprocess.run(['qemu-img', 'convert', '-f', 'qcow2', '-O', 'raw',
                    room.glance.path / 'images' / image_id, raw], check=True)
    assert not disks.needs_recovery(raw)
    assert {one['stillframe_disk'] for one in room.clear()} == {
        'vda', 'vdb'}


def test_an_old_client_gets_a_location(room, guest):
    answer = order(room, guest.uuid, minor='2.1')
    assert answer.status_code == 202
    assert answer.content == b''
    image_id = answer.headers['Location'].rpartition('/')[2]
    assert answer.headers['Location'] == (
        f'{room.glance.url}/images/{image_id}')
    # Deleted by its owner before it was complete: that is said, and
    # nothing is left.
    urllib.request.urlopen(urllib.request.Request(
        f'{room.glance.url}/v2/images/{image_id}', method='DELETE'),
        timeout=10)
    action = room.action(guest.uuid)
    assert action['events'][0]['result'] == 'Error'
    room.stillframe.wait_status(guest.uuid, 'ACTIVE')
    wait_until(lambda: not room.glance.files(), 20, 'an empty store')


def test_a_quiesced_server_can_be_thawed_while_its_image_is_sent(
        room, guest):
    stillframe = room.stillframe
    stillframe.act(guest.uuid, quiesce={'timeout': 60})
    stillframe.wait_status(guest.uuid, 'QUIESCED')
    image_id = order(room, guest.uuid).json()['image_id']
    stillframe.wait_status(guest.uuid, 'QUIESCED')
    stillframe.act(guest.uuid, unquiesce=None)
    stillframe.wait_status(guest.uuid, 'ACTIVE')
    wait_until(lambda: room.image(image_id)['status'] == 'active', 60,
               'the image', 0.1)
    assert room.image(image_id)['stillframe_freeze'] == 'quiesce'
    assert room.image(image_id)['stillframe_consistency'] == 'filesystem'
    room.clear()


@pytest.mark.parametrize('minor', ('2.1', '2.45', '2.89'))
def test_novaclient(room, guest, minor):
    nova = client.Client(
        minor, session=session.Session(auth=noauth.NoAuth()),
        endpoint_override=str(room.stillframe.http.base_url).rstrip('/'))
    image_id = nova.servers.create_image(guest.uuid, 'picture',
                                         {'one': 'two'})
    assert room.action(guest.uuid)['events'][0]['result'] == 'Success'
    assert room.image(image_id)['one'] == 'two'
    room.stillframe.wait_status(guest.uuid, 'ACTIVE')
    room.clear()
