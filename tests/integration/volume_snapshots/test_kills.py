# SPDX-License-Identifier: Apache-2.0
"""kill -9 at each step: Cinder is told what the chain shows.

Whatever the step: the request ends, the chain is as the outcome says, no
guest stays frozen, and a cold start reads all that was written.
"""

from collections.abc import Callable
import contextlib
import uuid

import httpx
import pytest

from tests.integration.volume_snapshots.bench import Bench
from tests.integration.volume_snapshots.mined import STEPS
from tests.lab.processes import LabError
from tests.lab.processes import wait_until

pytestmark = pytest.mark.timeout(600)

STOCK = {'status_form': 'stock'}

#: What must come of a creation that is cut off at a step.
CREATE = {
    'before the intent': 'error', 'after the intent': 'error',
    'claimed': 'error', 'about to change': 'error',
    'frozen before the switch': 'error', 'switched': 'done',
    'outcome not written': 'done', 'outcome written': 'done',
    'outcome delivered': 'done', 'Cinder not told': 'done',
    'Cinder told': 'done'}
#: The same for a merge that a job does by itself, and for one that has to
#: be pivoted.
MERGE = {
    'before the intent': 'error', 'after the intent': 'done',
    'claimed': 'done', 'about to change': 'error', 'job running': 'done',
    'outcome not written': 'done', 'outcome written': 'done',
    'outcome delivered': 'done', 'Cinder not told': 'done',
    'Cinder told': 'done'}
PIVOT = {'job running': 'done', 'ready before the pivot': 'done',
         'after the pivot': 'done', 'outcome not written': 'done'}


def test_no_step_is_left_out():
    assert {*CREATE, *MERGE, *PIVOT} == {*STEPS}


@pytest.fixture
def bench(new_bench):
    made = new_bench(cinder=STOCK, volume_snapshots={
        'start_timeout': 15, 'merge_bandwidth': 4})
    made.write('a', 6)
    return made


def killed_at(bench: Bench, step: str, ask: Callable[[], object]) -> None:
    """Ask for something, have it cut off at a step, and start again."""
    bench.stillframe.restart(mine=step)
    # The answer may be cut off as well; it was the work that was asked.
    with contextlib.suppress(httpx.TransportError):
        ask()
    assert bench.stillframe.process.wait(120) == -9
    bench.stillframe.start()


def settled(bench: Bench, snapshot: str, operation: str) -> dict:
    """Wait until it is over on both sides; give what is shown."""
    def over() -> dict | None:
        shown = bench.stillframe.shown(snapshot)
        return shown if (
            shown['operation'] == operation
            and shown['state'] in ('done', 'error')
            and shown['cinder']['delivery'] != 'due') else None
    try:
        return wait_until(over, 180, f'the end of {operation}', 0.1)
    except LabError as exc:
        raise AssertionError(f'{bench.stillframe.shown(snapshot)}\n'
                             f'{bench.stillframe.log[-4000:]}') from exc


def check_guest(bench: Bench) -> None:
    """Make sure that the guest is well, and starts with all its data."""
    wait_until(lambda: not bench.guest.frozen(), 90, 'the thaw', 0.2)
    bench.write('after')
    bench.check_data()
    assert not bench.guest.domain.blockJobInfo('vda', 0)
    assert bench.double.violations == []
    bench.cold_start()


@pytest.mark.parametrize(('step', 'wanted'), CREATE.items())
def test_create(bench, step, wanted):
    snapshot, name = str(uuid.uuid4()), bench.overlay()
    killed_at(bench, step, lambda: bench.ask_create(name, snapshot))
    shown = settled(bench, snapshot, 'create')
    assert shown['state'] == wanted, shown
    if wanted == 'done':
        bench.check_chain(name, bench.base)
        assert bench.double.snapshots[snapshot] == 'available'
        assert shown['file_format'] == {name: 'qcow2'}
    else:
        bench.check_chain(bench.base)
        assert bench.double.snapshots[snapshot] == 'error'
    check_guest(bench)


def merge(bench: Bench, step: str, wanted: str, *, active: bool) -> None:
    """Cut a merge of one file into the one below off, and look."""
    snapshot, name = bench.create()
    bench.write('b', 6)
    chain = [name, bench.base]
    if not active:
        chain.insert(0, bench.create()[1])
        bench.write('c', 2)
    killed_at(bench, step,
              lambda: bench.ask_delete(snapshot, name, bench.base))
    shown = settled(bench, snapshot, 'delete')
    if wanted == 'done':
        assert shown['state'] == 'done', shown
        chain.remove(name)
        bench.check_chain(*chain)
        assert bench.double.snapshots[snapshot] == 'gone'
        assert shown['file_format'] == {bench.base: 'raw'}
    else:
        assert shown['state'] == 'error', shown
        bench.check_chain(*chain)
        assert bench.double.snapshots[snapshot] == 'error_deleting'
    check_guest(bench)


@pytest.mark.parametrize(('step', 'wanted'), MERGE.items())
def test_merge(bench, step, wanted):
    merge(bench, step, wanted, active=False)


@pytest.mark.parametrize(('step', 'wanted'), PIVOT.items())
def test_merge_of_the_active_file(bench, step, wanted):
    merge(bench, step, wanted, active=True)
