# SPDX-License-Identifier: Apache-2.0
"""OSSA-2014-033: the guest writes a qcow2 header over its raw volume.

Cinder takes such a volume for qcow2 when it makes the next overlay. Here it
is raw, stays raw, and nothing of the host's file is seen by anybody.
"""

import subprocess

import pytest

from tests.integration.images.test_volumes import ended
from tests.integration.images.test_volumes import order
from tests.integration.images.test_volumes import record
from tests.integration.volume_snapshots import planting
from tests.lab.processes import wait_until

pytestmark = pytest.mark.timeout(600)

KINDS = pytest.mark.parametrize('kind', [planting.BACKING, planting.DATA])


def planted(new_scene, host, kind, **settings):
    """Put a guest on a volume, and have it write a header there."""
    scene = new_scene(host, guest={'write_ms': 0}, **settings)
    scene.write('a')
    planting.plant(scene, planting.header(
        kind, planting.secret(host.path)))
    return scene


def check_host(scene, host):
    """Make sure that the host's file was copied nowhere."""
    for folder in (scene.volumes.cinder.share, scene.stillframe.path):
        found = subprocess.run(
            ['grep', '-rlaF', planting.WORD.decode(), folder],
            capture_output=True, text=True, timeout=120)
        assert found.stdout == ''
    assert (host.path / 'secret').read_bytes() == planting.WORD * 4096


def check_cold_start(scene):
    """Make sure that all is there, read as raw."""
    scene.cold_start(from_cinder=False)
    planting.check_guest(scene)


@KINDS
def test_snapshot(new_scene, host_a, kind):
    scene = planted(new_scene, host_a, kind)
    volumes = scene.volumes
    snapshot = volumes.begin_snapshot(scene.volume)
    status = wait_until(
        lambda: (found := volumes.snapshot_status(snapshot)) in (
            'available', 'error') and found, 180, 'an end', 0.2)
    # Whatever Cinder made of it.
    planting.check_raw(scene, switched=status == 'available')
    planting.check_guest(scene)
    check_host(scene, host_a)
    check_cold_start(scene)


@KINDS
def test_image_by_snapshots_of_cinder(new_scene, host_a, kind):
    scene = planted(new_scene, host_a, kind)
    image_id = order(scene)
    made = ended(scene)['events'][0]['result'] == 'Success'
    scene.stillframe.wait_status(scene.server, 'ACTIVE')
    planting.check_raw(scene, switched=made)
    planting.check_guest(scene)
    check_host(scene, host_a)
    if not made:
        # Cinder saw through it, and made none: nothing is left.
        wait_until(lambda: record(scene, image_id) is None, 60,
                   'the image to be removed', 0.2)
        wait_until(lambda: not scene.volumes.client.volume_snapshots.list(
            search_opts={'volume_id': scene.volume}), 180,
            'the snapshot to be removed', 0.5)
    check_cold_start(scene)


@KINDS
def test_image_of_the_data(new_scene, host_a, kind, tmp_path):
    """Where no Cinder is configured, a volume is a disk like others."""
    scene = planted(new_scene, host_a, kind, cinder={'auth_type': ''})
    path = scene.volumes.path(scene.volume)
    for off in (False, True):
        if off:
            scene.guest.destroy()
            scene.stillframe.wait_status(scene.server, 'SHUTOFF')
        image_id = order(scene)
        action = ended(scene)
        assert action['events'][0]['result'] == 'Success', action
        image = scene.stillframe.path / f'state/images/{image_id}'
        raw = tmp_path / 'raw'
        subprocess.run(['qemu-img', 'convert', '-f', 'qcow2', '-O', 'raw',
                        image, raw], check=True, timeout=120)
        # The header is data, and data only.
        subprocess.run(['qemu-img', 'compare', '-U', '-f', 'raw', '-F',
                        'raw', path, raw], check=True, timeout=120,
                       capture_output=True)
        with raw.open('rb') as file:
            assert file.read(4) == b'QFI\xfb'
        assert record(scene, image_id)['status'] == 'active'
        check_host(scene, host_a)
    scene.guest.start()
    scene.guest.wait_booted()
    planting.check_raw(scene, switched=False)
    planting.check_guest(scene)
