# SPDX-License-Identifier: Apache-2.0
"""Images of servers whose disks are volumes of the real Cinder."""

import json

from tests.integration.volume_snapshots.conftest import new_scene  # noqa: F401
from tests.integration.volume_snapshots.conftest import new_stillframe  # noqa: F401
from tests.lab import disks
from tests.lab.domain_xml import Disk
from tests.lab.processes import LabError
from tests.lab.processes import wait_until


def order(scene, **more):
    answer = scene.stillframe.http.post(
        f'/servers/{scene.server}/action',
        json={'createImage': {'name': 'picture', **more}},
        headers={'OpenStack-API-Version': 'compute 2.45'})
    assert answer.status_code == 202, answer.text
    return answer.json()['image_id']


def ended(scene):
    """Give the newest action of the server once it has ended."""
    http = scene.stillframe.http

    def look():
        listed = http.get(
            f'/servers/{scene.server}/os-instance-actions').json()
        newest = http.get(
            f'/servers/{scene.server}/os-instance-actions/'
            + listed['instanceActions'][0]['request_id'],
            headers={'OpenStack-API-Version': 'compute 2.84'}).json()
        action = newest['instanceAction']
        return action['events'][0]['finish_time'] and action
    try:
        return wait_until(look, 90, 'the action to end', 0.2)
    except LabError as exc:
        raise AssertionError(scene.stillframe.log[-8000:]) from exc


def record(scene, image_id):
    """Give the image's record; None when there is none."""
    path = scene.stillframe.path / f'state/images/{image_id}.json'
    return json.loads(path.read_text()) if path.exists() else None


def test_volume_and_local_disk_at_one_instant(new_scene, host_a):  # noqa: F811
    scene = new_scene(host_a)
    scene.write('a')
    local = host_a.disks / f'{scene.server[:8]}-local.raw'
    disks.make_ext4(local)
    host_a.give_away(local)
    scene.guest.domain.attachDevice(Disk('vdb', local).xml())
    wait_until(lambda: 'vdb' in scene.stillframe.http.get(
        f'/servers/{scene.server}/os-volume_attachments').text, 20,
        'the disk to be known', 0.1)
    image_id = order(scene)
    action = ended(scene)
    assert action['events'][0]['result'] == 'Success', (
        action['message'], action['events'][0]['details'],
        action, scene.stillframe.log[-6000:])
    scene.stillframe.wait_status(scene.server, 'ACTIVE')
    image = record(scene, image_id)
    assert image['status'] == 'active'
    assert image['stillframe_consistency'] == 'filesystem'
    assert image['bdm_v2'] == 'True'
    mapping = json.loads(image['block_device_mapping'])
    assert [(entry['device_name'], entry['source_type'],
             entry['boot_index']) for entry in mapping] == [
        ('/dev/vda', 'snapshot', 0), ('/dev/vdb', 'image', -1)]
    other = record(scene, mapping[1]['image_id'])
    assert (other['status'], other['stillframe_disk'],
            other['stillframe_image']) == ('active', 'vdb', image_id)
    snapshot, = (entry['snapshot_id'] for entry in mapping
                 if entry['source_type'] == 'snapshot')
    assert scene.volumes.snapshot_status(snapshot) == 'available'
    shown = scene.stillframe.shown(snapshot)
    assert (shown['consistency'], shown['freeze']['by']) == (
        'filesystem', 'quiesce')
    scene.check_snapshot(scene.volumes.cinder.share / scene.base, 'a')
    assert not disks.needs_recovery(
        scene.volumes.cinder.share / scene.base)
    assert not scene.guest.frozen()
    scene.volumes.delete_snapshot(snapshot)
    scene.cold_start()


def test_one_that_fails_leaves_no_snapshot(new_scene, host_a):  # noqa: F811
    scene = new_scene(host_a, images={'volume_freeze_timeout': 1})
    # Cinder asks somebody who does not answer, so it is never complete.
    scene.volumes.cinder.compute.point_at(None)
    image_id = order(scene)
    action = ended(scene)
    assert action['events'][0]['result'] == 'Error'
    assert 'block storage' in action['message']
    scene.stillframe.wait_status(scene.server, 'ACTIVE')
    assert not scene.guest.frozen()
    wait_until(lambda: record(scene, image_id) is None, 20,
               'the image to be removed', 0.2)
    wait_until(lambda: not scene.volumes.client.volume_snapshots.list(
        search_opts={'volume_id': scene.volume}), 120,
        'the snapshot to be removed', 0.5)


def test_a_merge_freezes_nobody(new_scene, host_a):  # noqa: F811
    """Cinder would be refused its snapshot, but only within the freeze."""
    scene = new_scene(host_a, volume_snapshots={'merge_bandwidth': 1})
    scene.write('a', 8)
    snapshot = scene.volumes.snapshot(scene.volume)
    scene.write('b', 8)
    scene.volumes.begin_delete(snapshot)
    scene.wait_job(snapshot)
    froze = scene.guest.printed().count('hook freeze')
    order(scene)
    action = ended(scene)
    assert scene.guest.domain.blockJobInfo('vda')
    assert action['events'][0]['result'] == 'Error'
    assert 'on the disk vda' in action['message']
    assert 'Try again when' in action['message']
    assert scene.guest.printed().count('hook freeze') == froze
    scene.guest.domain.blockJobSetSpeed('vda', 0, 0)
    scene.volumes.wait_snapshot(snapshot, 'gone')
