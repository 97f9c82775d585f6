# SPDX-License-Identifier: Apache-2.0
"""The real Cinder with its real NFS driver, by python-cinderclient."""

import pytest

# Cinder looks for an answer less and less often, up to every 10 s, and each
# cold start boots a guest.
pytestmark = pytest.mark.timeout(900)


def test_three_snapshots_and_their_ends(new_scene, host_a):
    scene = new_scene(host_a)
    volumes, base = scene.volumes, scene.base
    snapshots = []
    chain = [base]
    for name in 'abc':
        scene.write(name)
        snapshots.append(volumes.snapshot(scene.volume))
        chain.insert(0, scene.file(snapshots[-1]))
        scene.check_chain(*chain)
        shown = scene.stillframe.wait_shown(snapshots[-1], state='done')
        assert shown['consistency'] == 'filesystem'
        assert shown['freeze']['by'] == 'snapshot'
        assert shown['freeze']['window'] < 2
        assert shown['file_format'] == {chain[0]: 'qcow2'}
        # What was written before is in the file below.
        scene.check_snapshot(volumes.cinder.share / chain[1],
                             *'abc'['abc'.index(name)::-1])
    scene.write('d')

    # The middle one, the active one, the last one.
    for number, position in ((1, 2), (2, 1), (0, 0)):
        volumes.delete_snapshot(snapshots[number])
        assert volumes.snapshot_status(snapshots[number]) == 'gone'
        assert volumes.status(scene.volume) == 'in-use'
        shown = scene.stillframe.shown(snapshots[number])
        assert (shown['state'], shown['operation']) == ('done', 'delete')
        assert len(scene.chain()) == position + 1
        assert sorted(scene.chain()) == volumes.files(scene.volume)
        scene.check_chain(*scene.chain())
        scene.cold_start(from_cinder=number != 1)
    scene.write('e')
    scene.cold_start()


def test_three_snapshots_and_their_ends_while_quiesced(new_scene, host_a):
    scene = new_scene(host_a)
    volumes, stillframe = scene.volumes, scene.stillframe

    def quiesce():
        stillframe.act(scene.server, quiesce={'timeout': 600})
        stillframe.wait_status(scene.server, 'QUIESCED')
        return scene.guest.block_writes()

    def still_quiesced(writes):
        assert stillframe.server(scene.server)['status'] == 'QUIESCED'
        assert scene.guest.frozen()
        assert scene.guest.block_writes() == writes

    def thaw():
        stillframe.act(scene.server, unquiesce=None)
        stillframe.wait_status(scene.server, 'ACTIVE')
        assert not scene.guest.frozen()

    def check_clean(*names):
        for name in names:
            assert not scene.needs_recovery(volumes.cinder.share / name)

    snapshots, chain = [], [scene.base]
    for name in 'abc':
        scene.write(name)
        writes = quiesce()
        snapshots.append(volumes.snapshot(scene.volume))
        still_quiesced(writes)
        shown = stillframe.shown(snapshots[-1])
        assert shown['consistency'] == 'filesystem'
        assert shown['freeze']['by'] == 'quiesce'
        closed = chain[0]
        chain.insert(0, scene.file(snapshots[-1]))
        scene.check_chain(*chain)
        thaw()
        # From now on, the guest writes to the new file.
        check_clean(closed)
        scene.check_snapshot(volumes.cinder.share / closed,
                             *'abc'['abc'.index(name)::-1])
    check_clean(*chain[1:])
    scene.write('d')

    writes = quiesce()
    # The middle one, the active one, the last one.
    for number, left in ((1, 3), (2, 2), (0, 1)):
        volumes.delete_snapshot(snapshots[number])
        assert volumes.snapshot_status(snapshots[number]) == 'gone'
        still_quiesced(writes)
        assert len(scene.chain()) == left
        assert sorted(scene.chain()) == volumes.files(scene.volume)
        scene.check_chain(*scene.chain())
        # Those below as they were, and the active one of a frozen guest.
        check_clean(*scene.chain())
    thaw()
    scene.write('e')
    scene.cold_start()
