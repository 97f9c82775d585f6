# SPDX-License-Identifier: Apache-2.0
"""A receiver that is stopped, killed, or cannot reach its database."""

import os
import urllib.parse
import uuid
import zlib

import pytest

from stillframe import exceptions
from stillframe.conductor import receiver
from stillframe.conductor.receiver import errors
from stillframe.conf import CONF
from stillframe.db import base
from stillframe.db import transfers as db
from tests.integration.receiver.daemon import Daemon
from tests.integration.receiver.depot import Depot
from tests.integration.receiver.depot import begin
from tests.integration.receiver.depot import put
from tests.integration.receiver.depot import request
from tests.integration.receiver.depot import result
from tests.lab.processes import wait_until

MIB = 1 << 20


def opened(daemon):
    snapshot = str(uuid.uuid4())
    return snapshot, receiver.Ticket(**daemon.ask('open', snapshot))


def test_killed_in_the_middle(database, tmp_path):
    """The agent sends it again with the same order, and it arrives."""
    data = os.urandom(3 * MIB)
    with Daemon(tmp_path, database) as daemon:
        snapshot, ticket = opened(daemon)
        line = begin(ticket, len(data))
        line.send(data[:MIB])
        wait_until(lambda: daemon.ask('progress', snapshot)['bytes'] == MIB,
                   30, 'a beginning')
        daemon.kill()
        line.close()
        assert len(daemon.files()) == 1
    with Daemon(tmp_path, database) as daemon:
        assert daemon.files() == []
        found = daemon.ask('progress', snapshot)
        assert (found['bytes'], found['state']) == (0, 'waiting')
        assert put(ticket, data)[0] == 201
        assert daemon.ask('finish', snapshot, result(data))['size'] == len(
            data)


def test_killed_after_it_arrived(database, tmp_path):
    data = os.urandom(MIB)
    with Daemon(tmp_path, database) as daemon:
        snapshot, ticket = opened(daemon)
        assert put(ticket, data)[0] == 201
        daemon.kill()
    with Daemon(tmp_path, database) as daemon:
        assert daemon.ask('progress', snapshot)['state'] == 'arrived'
        first = daemon.ask('finish', snapshot, result(data))
        daemon.kill()
    with Daemon(tmp_path, database) as daemon:
        assert put(ticket, b'evil')[0] == 409
        assert daemon.ask('finish', snapshot, result(data)) == first
        assert daemon.ask('close', snapshot) is None
        assert daemon.files() == []
        assert put(ticket, data)[0] == 401


def port(depot):
    return urllib.parse.urlsplit(depot.open()[1].url).port


def test_a_port_of_its_own(database, tmp_path):
    with Depot(tmp_path / '1') as first:
        used = port(first)
        assert 6390 <= used < 6490
        with Depot(tmp_path / '2') as second:
            assert port(second) != used
        with (Depot(tmp_path / '3', port=used) as third,
              pytest.raises(errors.CannotReceive, match='cannot listen')):
            port(third)


def test_the_port_of_before(database, tmp_path):
    """Orders that were given hold after a restart."""
    before = 20000 + zlib.crc32(str(tmp_path).encode()) % 10000
    for _ in range(2):
        (tmp_path / 'transfers').mkdir(exist_ok=True)
        (tmp_path / 'transfers' / '.port').write_text(str(before))
        with Depot(tmp_path) as depot:
            assert port(depot) == before
        assert (tmp_path / 'transfers' / '.port').read_text() == str(before)


@pytest.mark.parametrize('host', ['0.0.0.0', '::'])  # noqa: S104
def test_an_address_that_nobody_can_be_told(database, tmp_path, host):
    with (Depot(tmp_path, host=host) as depot,
          pytest.raises(errors.CannotReceive, match='public_url')):
        depot.open()
    with Depot(tmp_path, host=host, public_url='https://localhost/') as depot:
        assert depot.open()[1].url.startswith('https://localhost/transfers/')


def test_what_nobody_owns_is_removed(database, tmp_path):
    with Daemon(tmp_path, database) as daemon:
        opened(daemon)
        daemon.kill()
    for name in ('abc.image', 'abc.part', 'def.part'):
        (tmp_path / 'transfers' / name).write_bytes(b'left')
    with Daemon(tmp_path, database) as daemon:
        assert daemon.files() == []


def test_an_image_that_changed_meanwhile_did_not_arrive(database, tmp_path):
    with Daemon(tmp_path, database) as daemon:
        snapshot, ticket = opened(daemon)
        assert put(ticket, b'abc')[0] == 201
        daemon.kill()
        path = tmp_path / 'transfers' / daemon.files()[0]
    path.write_bytes(b'ab')
    with Daemon(tmp_path, database) as daemon:
        assert daemon.ask('progress', snapshot)['state'] == 'waiting'
        assert daemon.files() == []


def test_stopped_and_started(database, tmp_path):
    with Depot(tmp_path) as depot:
        snapshot, ticket = depot.open()
        assert put(ticket, b'abc')[0] == 201
    with pytest.raises(errors.CannotReceive, match='being stopped'):
        depot.receiver.open(snapshot)
    with Depot(tmp_path) as depot:
        assert depot.receiver.finish(snapshot, result(b'abc')).size == 3


def test_stopping_cuts_what_runs(database, tmp_path):
    with Depot(tmp_path) as depot:
        snapshot, ticket = depot.open()
        line = begin(ticket, 9 * MIB)
        line.send(bytes(MIB))
        wait_until(lambda: depot.receiver.progress(snapshot).bytes, 30,
                   'a beginning')
    assert depot.files() == []
    line.close()


def test_nothing_is_begun_before_it_is_needed(database, tmp_path):
    with Depot(tmp_path) as depot:
        assert not depot.path.exists()
        depot.receiver.close(str(uuid.uuid4()))
        with pytest.raises(errors.UnknownTransfer):
            depot.receiver.finish(str(uuid.uuid4()), result(b'abc'))
        assert not depot.path.exists()


def test_two_need_two_folders(new_depot, tmp_path):
    first = new_depot()
    first.open()
    second = receiver.Receiver(CONF)
    with pytest.raises(errors.CannotReceive, match='another conductor'):
        second.start()


# --- another conductor ------------------------------------------------------

def test_closed_by_another_conductor(new_depot, tmp_path):
    depot = new_depot()
    snapshot, ticket = depot.open()
    assert put(ticket, b'abc')[0] == 201
    CONF.set_override('host', 'conductor-2', 'conductor')
    CONF.set_override('path', str(tmp_path / 'second'), 'receiver')
    other = receiver.Receiver(CONF)
    other.close(snapshot)
    other.close(snapshot)
    depot.receiver.sweep()
    assert depot.files() == []
    assert put(ticket, b'abc')[0] == 401
    assert db.of_conductor('conductor-1') == []


def test_one_that_cannot_be_removed_stops_no_other(depot):
    opened = [depot.open() for _ in range(3)]
    for snapshot, ticket in opened:
        assert put(ticket, b'abc')[0] == 201
        db.close(snapshot)
    # A folder in place of its image cannot be removed as a file.
    stuck = depot.path / f'{opened[0][1].username}.image'
    stuck.unlink()
    stuck.mkdir()
    depot.receiver.sweep()
    assert depot.files() == [stuck.name]
    assert [one['name'] for one in db.of_conductor('conductor-1')] == [
        opened[0][1].username]
    stuck.rmdir()
    depot.receiver.sweep()
    assert db.of_conductor('conductor-1') == []


def test_taken_over_by_another_conductor(new_depot, tmp_path):
    depot = new_depot()
    snapshot, ticket = depot.open()
    put(ticket, b'abc')
    CONF.set_override('host', 'conductor-2', 'conductor')
    with Depot(tmp_path / 'second') as other:
        again = other.receiver.open(snapshot)
        assert put(again, b'abcd')[0] == 201
        depot.receiver.sweep()
        assert depot.files() == []
        assert put(ticket, b'abc')[0] == 401
        assert other.receiver.finish(snapshot, result(b'abcd')).size == 4


# --- a database that is away ------------------------------------------------

@pytest.fixture
def outage(database):
    """Take the database away, and give it back."""
    path = database.removeprefix('sqlite:///')

    class Outage:
        def __enter__(self):
            base.dispose()
            base.configure(CONF, retries=0)
            CONF.set_override(
                'connection', 'mysql+pymysql://root@127.0.0.1:1/x',
                'database')

        def __exit__(self, *_exc):
            base.dispose()
            base.configure(CONF)
            CONF.set_override('connection', f'sqlite:///{path}', 'database')

    return Outage()


def test_it_arrives_but_cannot_be_written_down(depot, outage):
    snapshot, ticket = depot.open()
    with outage:
        status, _, text = put(ticket, b'abc')
        assert status == 500
        assert 'does not answer' in text
        assert depot.files() == []
        assert depot.receiver.progress(snapshot).reason
    assert put(ticket, b'abc')[0] == 201


def test_closing_revokes_even_so(depot, outage):
    snapshot, ticket = depot.open()
    put(ticket, b'abc')
    with outage:
        with pytest.raises(exceptions.ServiceUnavailable):
            depot.receiver.close(snapshot)
        assert put(ticket, b'abc')[0] == 401
    depot.receiver.close(snapshot)
    assert depot.files() == []


def test_it_starts_without(database, tmp_path, outage):
    with Depot(tmp_path) as depot:
        snapshot, ticket = depot.open()
        put(ticket, b'abc')
    with outage:
        depot.__enter__()
        assert len(depot.files()) == 1
    depot.receiver.sweep()
    assert request(ticket, 'HEAD')[0] == 200
    depot.__exit__()
