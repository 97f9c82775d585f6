# SPDX-License-Identifier: Apache-2.0
"""The wall clock is stepped by an hour while a guest is frozen.

It is stepped for all processes of ours at once; the clocks that count (boot
time, monotonic) go on as they are.
"""

import time

import pytest

from tests.integration.cloud.cloud import Cloud
from tests.lab.clockstep import ClockStep
from tests.lab.processes import wait_until


@pytest.fixture(scope='module')
def clock(tmp_path_factory):
    """The wall clock of all processes of the cloud."""
    return ClockStep(tmp_path_factory.mktemp('clock'))


@pytest.fixture(scope='module')
def shared_cloud(own_rabbit, own_mariadb, alpha, clock):
    with Cloud(own_rabbit, own_mariadb, 'clock', {'alpha': alpha},
               clock=clock) as cloud:
        yield cloud


def test_the_clock_is_ours_to_step(cloud, web, clock):
    """Without this, the other tests would prove nothing."""
    clock.step(7200)
    request_id = cloud.quiesce(web.uuid)
    told = cloud.action(web.uuid, request_id)['start_time']
    cloud.unquiesce(web.uuid)
    clock.step(0)
    ahead = time.strftime('%Y-%m-%dT%H', time.gmtime(time.time() + 7200))
    assert told.startswith(ahead)


@pytest.mark.parametrize('step', [3600, -3600])
def test_stepped_while_frozen(cloud, web, clock, step):
    called = time.monotonic()
    cloud.quiesce(web.uuid, timeout=9)
    clock.step(step)
    # Longer than the reaper and the liveness need to be wrong.
    time.sleep(4)
    assert web.frozen(), 'thawed early'
    assert cloud.state(web.uuid) == ('QUIESCED', None)
    assert cloud.is_well(), 'a worker looks down'
    wait_until(lambda: not web.frozen(), 9, 'the guest to thaw')
    assert 8.5 < time.monotonic() - called < 13
    cloud.wait_state(web.uuid, 'ACTIVE')
    cloud.quiesce(web.uuid)
    clock.step(0)
    cloud.unquiesce(web.uuid)


def test_stepped_with_the_worker_dead(cloud, web, clock):
    called = time.monotonic()
    cloud.quiesce(web.uuid, timeout=8)
    cloud.kill('alpha')
    clock.step(3600)
    time.sleep(4)
    assert web.frozen(), 'the guard believed the wall clock'
    wait_until(lambda: not web.frozen(), 9, 'the guest to thaw')
    assert 7.5 < time.monotonic() - called < 13
    clock.step(0)
