# SPDX-License-Identifier: Apache-2.0
"""Cinder gives a new snapshot up before it hears that it was made.

The guest writes to a file of which Cinder does not know: the next cold
start would be from the file below, and merges would go around it.
"""

import pytest

from tests.integration.volume_snapshots.daemon import open_cinder
from tests.lab import cinder_config
from tests.lab.processes import wait_until
from tests.lab.relay import Relay

pytestmark = pytest.mark.timeout(600)

STOCK = {'status_form': 'stock'}


def unheard(bench):
    """Have a snapshot made of which Cinder hears nothing until it is up."""
    bench.double.down()
    snapshot, name = bench.ask_create()
    shown = bench.stillframe.wait_shown(snapshot, state='done')
    assert shown['cinder']['delivery'] == 'due'
    bench.check_chain(name, bench.base)
    return snapshot, name


@pytest.mark.parametrize('off', [False, True])
def test_merged_down_again(new_bench, off):
    bench = new_bench(cinder=STOCK)
    bench.write('a')
    snapshot, name = unheard(bench)
    bench.write('b', 4)
    if off:
        bench.guest.destroy()
        bench.stillframe.wait_status(bench.guest.uuid, 'SHUTOFF')
    bench.double.snapshots[snapshot] = 'error'
    bench.double.up()
    shown = bench.stillframe.wait_shown(snapshot, operation='undo',
                                        state='done')
    assert shown['cinder']['delivery'] == 'none'
    made, = shown['history']
    assert (made['operation'], made['cinder']['delivery']) == (
        'create', 'unwanted')
    assert 'merged down again' in made['cinder']['error']
    assert bench.double.snapshots[snapshot] == 'error'
    if off:
        bench.check_stopped(bench.base)
    else:
        bench.check_chain(bench.base)
    bench.cold_start()
    # What comes next is as ever, with files that Cinder makes by what it
    # knows.
    second, top = bench.create(bench.overlay(bench.base))
    bench.check_chain(top, bench.base)
    bench.delete(second, None, None)
    bench.check_chain(top)
    assert bench.double.violations == []
    bench.cold_start()


def test_nothing_is_merged_around_it(new_bench):
    """Taking it back failed; it is said how to have it done."""
    bench = new_bench(cinder=STOCK, volume_snapshots={'merge_bandwidth': 1})
    bench.write('a', 2)
    first, middle = bench.create()
    bench.write('b', 2)
    bench.double.down()
    snapshot, name = bench.ask_create()
    bench.stillframe.wait_shown(snapshot, state='done')
    bench.write('c', 16)
    bench.double.snapshots[snapshot] = 'error'
    bench.double.up()
    bench.wait_job()
    bench.guest.domain.blockJobAbort('vda', 0)
    bench.stillframe.wait_shown(snapshot, operation='undo', state='error')
    chain = (name, middle, bench.base)
    bench.check_chain(*chain)

    # Cinder means the middle file by "the active one", and would delete
    # the lowest one afterwards.
    bench.ask_delete(first, None, None)
    shown = bench.stillframe.wait_shown(first, operation='delete',
                                        state='error')
    assert f'the file {name}, of which Cinder does not know' in (
        shown['message'])
    bench.wait_told(first, 'error_deleting')
    bench.check_chain(*chain)
    late, _ = bench.ask_create(bench.overlay(middle))
    assert 'of which Cinder does not know' in bench.stillframe.wait_shown(
        late, state='error')['message']
    bench.check_chain(*chain)

    answer = bench.stillframe.delete(bench.volume, snapshot, name, middle)
    assert answer.status_code == 204
    bench.wait_job()
    bench.hurry()
    bench.stillframe.wait_shown(snapshot, operation='delete', state='done')
    bench.check_chain(middle, bench.base)
    bench.ask_delete(first, None, None)
    bench.wait_job()
    bench.hurry()
    bench.wait_told(first, 'gone')
    bench.check_chain(middle)
    bench.cold_start()


def test_the_real_cinder(new_scene, host_a, volumes):
    with Relay() as relay:
        relay.point_at(volumes.cinder.port)
        scene = new_scene(host_a, cinder=open_cinder(
            f'{relay.url}/v3', cinder_config.PROJECT))
        scene.write('a')
        kept = volumes.snapshot(scene.volume)
        chain = scene.chain()
        relay.point_at(None)
        lost = volumes.begin_snapshot(scene.volume)
        wait_until(lambda: len(scene.chain()) == 3, 120, 'the switch', 0.1)
        scene.stillframe.wait_shown(lost, state='done')
        scene.write('b')
        # As its driver does by itself after 600 s without news.
        def complaints():
            return volumes.cinder.log_tail('volume', 1 << 24).count(
                'status while creating snapshot')

        before = complaints()
        volumes.reset_snapshot(lost, 'error')
        wait_until(lambda: complaints() > before, 120,
                   'the driver to give up', 0.2)
        relay.point_at(volumes.cinder.port)
        scene.stillframe.wait_shown(lost, operation='undo', state='done')
        scene.check_chain(*chain)
        assert volumes.snapshot_status(lost) == 'error'
        scene.cold_start()
        # Cinder and the chain are of one mind again.
        volumes.delete_snapshot(lost)
        again = volumes.snapshot(scene.volume)
        scene.check_chain(scene.file(again), *chain)
        volumes.delete_snapshot(kept)
        volumes.delete_snapshot(again)
        scene.cold_start()
