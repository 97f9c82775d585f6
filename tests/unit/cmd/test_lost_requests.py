# SPDX-License-Identifier: Apache-2.0
"""Which requests of an earlier life count as lost."""

import uuid

from oslo_db import exception as db_exc
import oslo_messaging
import pytest

from stillframe.api import app
from stillframe.cmd import allinone
from stillframe.cmd import lost_requests
from stillframe.compute import worker
from stillframe.conductor.baremetal import servers
from stillframe.conf import CONF
from stillframe.db import base
from stillframe.db import images
from stillframe.db import node_moves
from stillframe.db import transitions
from stillframe.db import volume_snapshots
from stillframe.rpc import transport
from tests.unit.db import node_scenes
from tests.unit.db import scenes

OTHER = '22222222-2222-4222-8222-222222222222'


class Worker:
    """What a worker has on its disk: some requests."""

    def __init__(self, *known):
        self._known = known

    def knows(self, server_id, request_id):
        return request_id in self._known


@pytest.fixture(autouse=True)
def here(database):
    scenes.report(scenes.server())
    CONF.set_override('host', scenes.HOST, 'compute')
    yield
    CONF.clear_override('host', 'compute')


def test_nobody_knows_of_it():
    scenes.begin('quiesce')
    lost_requests.LostRequests(CONF, Worker()).start()
    assert scenes.state() == ('active', None)


def test_the_worker_knows_of_it():
    request_id = scenes.begin('quiesce')
    lost_requests.LostRequests(CONF, Worker(request_id)).start()
    assert scenes.state() == ('active', 'quiescing')


def test_on_another_host_it_may_be_at_work():
    scenes.begin('quiesce')
    CONF.set_override('host', 'elsewhere', 'compute')
    lost_requests.LostRequests(CONF, Worker()).start()
    assert scenes.state() == ('active', 'quiescing')


def test_one_of_this_life_is_not_lost():
    found = lost_requests.LostRequests(CONF, Worker())
    scenes.begin('quiesce')
    found.start()
    assert scenes.state() == ('active', 'quiescing')


def test_one_that_was_told_meanwhile_stays_as_told():
    request_id = scenes.begin('quiesce')
    found = lost_requests.LostRequests(CONF, Worker())
    scenes.apply('quiesce', request_id)
    found.start()
    assert scenes.state() == ('quiesced', None)


def test_a_freeze_that_ended_while_nobody_was_there():
    freeze_id = scenes.quiesced()
    scenes.begin('unquiesce')
    found = lost_requests.LostRequests(CONF, Worker())
    scenes.apply('freeze_ended', 'req-system', freeze_id=freeze_id,
                 reason='deadline', verified_thawed=True)
    found.start()
    assert scenes.state() == ('active', None)


def test_images_and_volumes():
    operation = volume_snapshots.begin(
        scenes.ctxt(), scenes.volume()['volume_id'], 's', 'create',
        {'new_file': 'f'})['uuid']
    images.begin(scenes.ctxt(), scenes.WEB, str(uuid.uuid4()))
    lost_requests.LostRequests(CONF, Worker(operation)).start()
    assert scenes.state() == ('active', None)
    assert images.open_requests() == []
    assert volume_snapshots.get(operation)['state'] == 'pending'
    lost_requests.LostRequests(CONF, Worker()).start()
    assert volume_snapshots.get(operation)['state'] == 'error'


def given_up(caplog):
    """What was logged of requests that were given up."""
    return [record for record in caplog.records
            if record.getMessage().endswith('is given up')]


def test_the_log_says_what_was_given_up(caplog):
    request_id = scenes.begin('quiesce')
    lost_requests.LostRequests(CONF, Worker()).start()
    said, = given_up(caplog)
    assert request_id in said.getMessage()


def test_the_log_says_nothing_of_what_others_ended(caplog):
    operation = volume_snapshots.begin(
        scenes.ctxt(), scenes.volume()['volume_id'], 's', 'create',
        {'new_file': 'f'})['uuid']
    request_id = scenes.begin('quiesce')
    image = scenes.ctxt()
    settled = lost_requests.LostRequests(CONF, Worker())
    scenes.apply('quiesce', request_id, 'cannot')
    images.begin(image, scenes.WEB, str(uuid.uuid4()))
    imaging = lost_requests.LostRequests(CONF, Worker())
    images.give_up(image.request_id, 'no')
    volume_snapshots.give_up(operation, 'pending', 'no', tell=False)
    settled.start()
    imaging.start()
    assert given_up(caplog) == []


def test_with_the_database_away_it_is_left_to_the_reaper(
        database, tmp_path, caplog):
    scenes.begin('quiesce')
    found = lost_requests.LostRequests(CONF, Worker())
    base.dispose()
    base.configure(CONF)
    CONF.set_override('connection', f'sqlite:///{tmp_path}/no/such',
                      'database')
    found.start()
    base.dispose()
    base.configure(CONF)
    CONF.set_override('connection', database, 'database')
    assert scenes.state() == ('active', 'quiescing')
    assert 'left to the reaper' in caplog.text
    assert given_up(caplog) == []


def test_an_error_of_the_database_keeps_nothing_from_starting(
        monkeypatch, caplog):
    scenes.begin('quiesce')
    who = scenes.ctxt()
    scenes.report(scenes.server(), scenes.server(OTHER))
    images.begin(who, OTHER, str(uuid.uuid4()))

    def deadlocked(*_args):
        raise db_exc.DBDeadlock

    monkeypatch.setattr(transitions, 'revert', deadlocked)
    lost_requests.LostRequests(CONF, Worker()).start()
    assert scenes.state() == ('active', 'quiescing')
    # The others have their turn all the same.
    assert images.open_requests() == []
    said, = given_up(caplog)
    assert who.request_id in said.getMessage()


@pytest.fixture
def node():
    """A node with an instance that is shown as a server."""
    CONF.set_override('host', 'c1', 'conductor')
    scenes.report(scenes.server(OTHER), host=servers.host_name('c1'))
    yield node_scenes.node('active', instance_uuid=OTHER)
    CONF.clear_override('host', 'conductor')


def test_of_a_node_shown_as_a_server(node):
    transitions.begin(scenes.ctxt(), OTHER, 'quiesce', 60.0)
    lost_requests.LostRequests(CONF, Worker()).start()
    assert scenes.state(OTHER) == ('active', None)


@pytest.mark.parametrize('begun', [False, True])
def test_an_image_of_a_node(node, begun):
    who = scenes.ctxt()
    images.begin(who, OTHER, str(uuid.uuid4()))
    if begun:
        node_moves.begin(node, 'snapshot', 'c1', {
            **node_scenes.REQUEST, 'request_id': who.request_id})
    lost_requests.LostRequests(CONF, Worker()).start()
    assert len(images.open_requests()) == begun


@pytest.mark.parametrize(('url', 'looks'), [
    ('inproc://', True), ('rabbit://a:b@127.0.0.1:1/', False)])
def test_with_a_broker_nothing_is_known_to_be_lost(
        url, looks, monkeypatch, tmp_path):
    # They would change the configuration of all tests that follow.
    monkeypatch.setattr(allinone, 'set_defaults', lambda conf: None)
    monkeypatch.setattr(allinone, 'prepare_state', lambda conf: None)
    monkeypatch.setattr(app, 'build_app', lambda conf: None)
    oslo_messaging.TransportURL.parse(CONF)
    settings = [('transport_url', url, None),
                ('state_path', str(tmp_path), None),
                ('auth_strategy', 'noauth', 'api'), ('port', 0, 'api')]
    for name, value, group in settings:
        CONF.set_override(name, value, group)
    try:
        found = [type(one) for one in allinone.build(CONF)]
    finally:
        transport.cleanup()
        for name, _value, group in settings:
            CONF.clear_override(name, group)
    assert worker.Worker in found
    assert (lost_requests.LostRequests in found) is looks
