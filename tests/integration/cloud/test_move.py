# SPDX-License-Identifier: Apache-2.0
"""A frozen guest is migrated to another host, with its deadline."""

import time

import libvirt
import pytest

from tests.integration.cloud.cloud import Cloud
from tests.lab.guests import Guest
from tests.lab.processes import free_port
from tests.lab.processes import wait_until


@pytest.fixture(scope='module')
def shared_cloud(own_rabbit, own_mariadb, alpha, host_b):
    with Cloud(own_rabbit, own_mariadb, 'move',
               {'alpha': alpha, 'beta': host_b}) as cloud:
        yield cloud


@pytest.fixture
def traveller(alpha, host_b, cloud):
    """A guest that can be migrated: its disk is where both reach it."""
    guest = Guest(alpha, 'traveller', persistent=False)
    with guest:
        cloud.wait(lambda: cloud.http.get(f'/servers/{guest.uuid}'
                                          ).status_code == 200, 'discovery')
        cloud.wait_state(guest.uuid, 'ACTIVE')
        yield guest
        guest.host = host_b
        with_domain = host_b.connection.lookupByUUIDString(guest.uuid)
        with_domain.destroy()
        guest.host = alpha


def migrate(guest, to):
    """Move a running guest, as Nova would, and follow it."""
    guest._forget_control()
    guest.domain.migrateToURI3(
        to.uri, {libvirt.VIR_MIGRATE_PARAM_URI:
                 f'tcp://127.0.0.1:{free_port()}'},
        libvirt.VIR_MIGRATE_LIVE | libvirt.VIR_MIGRATE_PEER2PEER
        | libvirt.VIR_MIGRATE_UNSAFE)
    guest.host = to


def test_moved_while_frozen(cloud, traveller, host_b):
    cloud.quiesce(traveller.uuid, timeout=60)
    migrate(traveller, host_b)
    cloud.wait(lambda: cloud.server(traveller.uuid)['OS-EXT-SRV-ATTR:host']
               == 'beta', 'the server to move')
    assert cloud.state(traveller.uuid) == ('QUIESCED', None)
    assert traveller.frozen(), cloud.logs()
    action = cloud.unquiesce(traveller.uuid)
    assert action['events'][0]['host'] == 'beta'
    assert not traveller.frozen()


def test_the_deadline_moves_with_it(cloud, traveller, host_b):
    called = time.monotonic()
    cloud.quiesce(traveller.uuid, timeout=12)
    migrate(traveller, host_b)
    cloud.wait(lambda: cloud.server(traveller.uuid)['OS-EXT-SRV-ATTR:host']
               == 'beta', 'the server to move')
    # From here on nobody but the guard of the new host is left.
    cloud.kill('api', 'conductor', 'alpha', 'beta')
    wait_until(lambda: not traveller.frozen(),
               called + 12 - time.monotonic() + 5, 'the guest to thaw')
    assert time.monotonic() - called > 11.5, cloud.logs()
    cloud.heal()
    cloud.wait_state(traveller.uuid, 'ACTIVE')
    cloud.wait_ended_early(traveller.uuid, 'deadline')
