# SPDX-License-Identifier: Apache-2.0
"""The real Cinder in trouble."""

import pytest

from tests.lab.processes import wait_until

pytestmark = pytest.mark.timeout(900)


def test_deleted_by_force_after_an_error(new_scene, host_a):
    """An old success must not pass for a new one.

    Cinder finds the figure of an earlier success in its database, and
    deletes the files of a snapshot whose merge has only just begun.
    """
    scene = new_scene(host_a, volume_snapshots={'merge_bandwidth': 1})
    volumes, stillframe = scene.volumes, scene.stillframe
    scene.write('a', 4)
    first = volumes.snapshot(scene.volume)
    scene.write('b', 4)
    second = volumes.snapshot(scene.volume)
    chain = scene.chain()

    # A merge that fails: Cinder says so.
    volumes.begin_delete(first)
    scene.wait_job(first)
    scene.guest.domain.blockJobAbort('vda', 0)
    # Cinder's driver, which looks now and then, has noticed.
    wait_until(lambda: f'Unable to delete snapshot {first}'
               in volumes.cinder.log_tail('volume', 20000), 60,
               'the driver to give up', 0.2)
    assert volumes.snapshot_status(first) == 'error_deleting'
    assert volumes.snapshot_progress(first) != '90%'
    scene.check_chain(*chain)

    # As if an earlier merge had succeeded and nobody had listened.
    volumes.reset_snapshot(first, 'deleting')
    volumes.client.volume_snapshots.update_snapshot_status(
        first, {'status': 'deleting', 'progress': '90%'})
    assert volumes.snapshot_progress(first) == '90%'
    volumes.reset_snapshot(first, 'error_deleting')

    volumes.begin_delete(first, force=True)
    scene.wait_job(first)
    # It waits for the merge, with the file in its place.
    assert volumes.snapshot_status(first) == 'deleting'
    assert scene.file(first) in volumes.files(scene.volume)
    scene.guest.domain.blockJobSetSpeed('vda', 0, 0)
    volumes.wait_snapshot(first, 'gone')
    scene.check_chain(scene.file(second), scene.base)
    stillframe.wait_shown(first, state='done')
    scene.cold_start()


def test_cinder_restarts_while_a_merge_runs(new_scene, host_a):
    """It forgets that it waited; the merge is done, and told, and done."""
    scene = new_scene(host_a, volume_snapshots={'merge_bandwidth': 1})
    volumes = scene.volumes
    scene.write('a', 4)
    first = volumes.snapshot(scene.volume)
    scene.write('b', 4)
    second = volumes.snapshot(scene.volume)
    volumes.begin_delete(first)
    scene.wait_job(first)
    volumes.cinder.crash(['volume', 'api'])
    scene.guest.domain.blockJobSetSpeed('vda', 0, 0)
    shown = scene.stillframe.wait_shown(first, operation='delete',
                                        state='done')
    assert shown['cinder']['delivery'] == 'due'
    scene.check_chain(scene.file(second), scene.base)
    volumes.cinder.start(['volume', 'api'])
    wait_until(lambda: scene.stillframe.shown(first)['cinder']['delivery']
               == 'delivered', 60, 'Cinder to be told', 0.2)
    # Nobody waits for it there any more; an administrator helps.
    volumes.reset_snapshot(first, 'error_deleting')
    volumes.begin_delete(first, force=True)
    volumes.wait_snapshot(first, 'gone')
    assert volumes.files(scene.volume) == sorted(
        [scene.file(second), scene.base])
    scene.cold_start()
