# SPDX-License-Identifier: Apache-2.0
"""What Cinder is told of a real guest's chain, by the specification."""

from tests.lab import cinder_dialects


def test_the_form_of_the_specification(new_bench):
    bench = new_bench(cinder_dialects.SPEC)
    names, snapshots = [bench.base], []
    for _ in range(3):
        snapshot, name = bench.create()
        snapshots.append(snapshot)
        names.insert(0, name)
        assert bench.told(snapshot) == [{
            'status': 'creating_compute_complete', 'progress': '90%',
            'file_format': {name: 'qcow2'}}]

    def check(snapshot, changed):
        assert bench.told(snapshot)[1:] == [{
            'status': 'deleting_compute_complete', 'progress': '90%',
            'file_format': changed}]
        bench.check_chain(*names)

    # Down into the lowest file, which stays raw.
    bench.delete(snapshots[0], names[2], bench.base)
    del names[2]
    check(snapshots[0], {bench.base: 'raw'})
    # Down into an overlay.
    snapshot, name = bench.create()
    names.insert(0, name)
    bench.delete(snapshots[2], names[1], names[2])
    del names[1]
    check(snapshots[2], {names[1]: 'qcow2'})
    # Up into the active file, others below.
    bench.delete(snapshot, bench.base, None)
    del names[1]
    check(snapshot, {names[0]: 'qcow2'})
    # Up into the active file, all of it.
    bench.delete(snapshots[1], None, None)
    del names[1]
    check(snapshots[1], {names[0]: 'qcow2'})
    assert bench.double.violations == []
    bench.cold_start()
