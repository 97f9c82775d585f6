# SPDX-License-Identifier: Apache-2.0
"""A frozen guest that is live-migrated: its freeze goes with it."""

from collections.abc import Iterator
import contextlib
import threading
import time

import libvirt
import libvirt_qemu
import pytest

from tests.integration.compute.workers import Worker
from tests.lab.guests import Guest
from tests.lab.libvirtd import Libvirtd
from tests.lab.processes import wait_until

FLAGS = (libvirt.VIR_MIGRATE_LIVE | libvirt.VIR_MIGRATE_PEER2PEER
         | libvirt.VIR_MIGRATE_UNDEFINE_SOURCE
         | libvirt.VIR_MIGRATE_PERSIST_DEST
         # Both see the same files, which libvirt cannot know.
         | libvirt.VIR_MIGRATE_UNSAFE)


@pytest.fixture(scope='module')
def hosts() -> Iterator[tuple[Libvirtd, Libvirtd]]:
    """Two hypervisors with the same storage."""
    with Libvirtd('a') as one, Libvirtd('b') as two:
        yield one, two


@pytest.fixture
def guest(hosts) -> Iterator[Guest]:
    """A guest on the first of them."""
    with Guest(hosts[0], 'nomad') as made:
        yield made
        for domain in hosts[1].connection.listAllDomains():
            domain.destroy()
            domain.undefine()


@pytest.fixture
def workers(hosts) -> Iterator[tuple[Worker, Worker]]:
    """A worker beside each."""
    with Worker(hosts[0], 'wa') as one, Worker(hosts[1], 'wb') as two:
        yield one, two


def migrate(guest, target):
    guest.domain.migrateToURI3(
        target.uri, {libvirt.VIR_MIGRATE_PARAM_URI:
                     f'unix://{target.path}/migration'}, FLAGS)


def in_background(call):
    """Do something in a thread; an aborted migration is no error here."""
    def run():
        with contextlib.suppress(libvirt.libvirtError):
            call()
    thread = threading.Thread(target=run, name='migration')
    thread.start()
    return thread


def status(host, guest):
    domain = host.connection.lookupByUUIDString(guest.uuid)
    answer = libvirt_qemu.qemuAgentCommand(
        domain, '{"execute":"guest-fsfreeze-status"}', 5, 0)
    return 'frozen' if 'frozen' in answer else 'thawed'


def ends(worker):
    return [one for one in worker.outcomes if one['kind'] == 'freeze_ended']


def test_unquiesced_where_it_arrived(hosts, guest, workers):
    here, there = workers
    freeze_id = here.frozen(guest.uuid, timeout=60)
    migrate(guest, hosts[1])
    wait_until(lambda: there.records, 10, 'the freeze to be taken over')
    here.wait_no_record()
    there.wait(lambda: guest.uuid in there.servers, 10, 'it to be reported')
    here.wait(lambda: guest.uuid in here.gone, 10, 'it to be gone')
    assert status(hosts[1], guest) == 'frozen'
    request_id = there.unquiesce(guest.uuid, freeze_id)
    outcome = there.outcome(request_id=request_id)
    assert outcome['result'] == 'success', outcome
    assert status(hosts[1], guest) == 'thawed'
    assert ends(here) == ends(there) == []
    # The one that it left has nothing to say about it any more.
    late = here.unquiesce(guest.uuid, freeze_id)
    assert here.outcome(request_id=late)['result'] == 'lost'


def test_the_deadline_where_it_arrived(hosts, guest, workers):
    here, there = workers
    freeze_id = here.frozen(guest.uuid, timeout=10)
    began = time.monotonic()
    migrate(guest, hosts[1])
    ended = there.outcome(kind='freeze_ended', freeze_id=freeze_id)
    assert 8 < time.monotonic() - began < 14
    assert (ended['result'], ended['reason']) == ('success', 'deadline')
    assert status(hosts[1], guest) == 'thawed'
    assert ends(here) == []
    here.wait_no_record()
    there.wait_no_record()


def test_the_workers_were_not_there(hosts, guest, workers):
    here, there = workers
    freeze_id = here.frozen(guest.uuid, timeout=60)
    here.kill()
    there.kill()
    migrate(guest, hosts[1])
    there.start()
    wait_until(lambda: there.records, 10, 'the freeze to be taken over')
    assert status(hosts[1], guest) == 'frozen'
    # Only the conductor can know that it has moved.
    here.start()
    ended = here.outcome(kind='freeze_ended', freeze_id=freeze_id)
    assert (ended['result'], ended['reason']) == ('lost', 'stopped')
    request_id = there.unquiesce(guest.uuid, freeze_id)
    assert there.outcome(request_id=request_id)['result'] == 'success'


def test_not_quiesced_while_it_migrates(hosts, guest, workers):
    here, _there = workers
    domain = guest.domain
    domain.migrateSetMaxSpeed(1, 0)
    stream = in_background(lambda: migrate(guest, hosts[1]))
    try:
        wait_until(lambda: domain.jobInfo()[0], 10, 'the migration')
        outcome = here.outcome(request_id=here.quiesce(guest.uuid))
        assert (outcome['result'], outcome['reason']) == (
            'cannot', 'migrating')
    finally:
        domain.abortJob()
        stream.join(10)
        domain.migrateSetMaxSpeed(1000, 0)
    freeze_id = here.frozen(guest.uuid)
    request_id = here.unquiesce(guest.uuid, freeze_id)
    assert here.outcome(request_id=request_id)['result'] == 'success'


def test_the_deadline_in_the_middle_of_a_migration(hosts, guest, workers):
    here, there = workers
    freeze_id = here.frozen(guest.uuid, timeout=4)
    domain = guest.domain
    domain.migrateSetMaxSpeed(1, 0)
    stream = in_background(lambda: migrate(guest, hosts[1]))
    ended = here.outcome(kind='freeze_ended', freeze_id=freeze_id)
    assert (ended['result'], ended['reason']) == ('success', 'deadline')
    assert domain.jobInfo()[0]
    assert not guest.frozen()
    domain.migrateSetMaxSpeed(1000, 0)
    stream.join(30)
    # It arrives with a lease that is over; nothing comes of that.
    wait_until(lambda: 'lease' not in hosts[1].connection.lookupByUUIDString(
        guest.uuid).XMLDesc(), 15, 'the lease to be taken away')
    there.wait_no_record()
    assert status(hosts[1], guest) == 'thawed'
