# SPDX-License-Identifier: Apache-2.0
"""The conductor tells Cinder, without guests: in both dialects, in trouble.

The conductor and its database are real; Cinder is a stand-in that listens
on a port, and the outcomes are written by the test.
"""

import contextlib
import datetime
import uuid

import oslo_messaging
import pytest
import sqlalchemy as sa

from stillframe import exceptions
from stillframe.clients import images
from stillframe.conductor import volume_snapshots
from stillframe.conf import CONF
from stillframe.db import base
from stillframe.db import models
from stillframe.db import volume_snapshots as db
from stillframe.rpc import transport
from stillframe.rpc import versions
from tests.functional import environment
from tests.lab import cinder_dialects
from tests.lab.cinder_double import CinderDouble
from tests.lab.keystone import SERVICE
from tests.lab.processes import wait_until
from tests.unit.db import scenes
from tests.unit.db.conftest import database  # noqa: F401
from tests.unit.db.conftest import migrated  # noqa: F401

VOLUME = scenes.volume()['volume_id']
FORMATS = {'v.a': 'qcow2'}
CHAIN = [{'path': '/share/v.a', 'format': 'qcow2'},
         {'path': '/share/v', 'format': 'raw'}]


class Desk:
    """A conductor's part for volume snapshots, and whom it tells.

    It takes the place of the worker, too.
    """

    target = oslo_messaging.Target(version=versions.COMPUTE_VERSION)

    def __init__(self, stack, folder, dialect, **settings):
        self.double = stack.enter_context(CinderDouble(dialect))
        self._stack = stack
        self.conductor = None
        file = folder / 'conf'
        others = {key: settings.pop(key) for key in list(settings)
                  if key.startswith('[') and 'cinder' not in key}
        file.write_text('\n'.join(f'{key} = {value}' for key, value in {
            '[DEFAULT]\ntransport_url': 'inproc://',
            '[cinder]\nauth_type': 'none',
            'endpoint': f'{self.double.endpoint}/{"a" * 32}',
            'endpoint_override': f'{self.double.endpoint}/{"a" * 32}',
            'retry_wait': 0.1, 'retry_wait_max': 0.2, 'timeout': 2,
            **settings, **others}.items()))
        stack.callback(environment.forget_accounts)
        CONF([], project='stillframe', default_config_files=[str(file)])
        stack.callback(CONF.reset)
        self.taken = []
        stack.callback(transport.cleanup)
        worker = transport.get_server(
            CONF, versions.COMPUTE_TOPIC, scenes.HOST, [self])
        worker.start()
        stack.callback(worker.wait)
        stack.callback(worker.stop)
        scenes.report(scenes.server())
        self.start()

    def snapshot_volume(self, ctxt, snapshot):
        """Note what is handed to the host."""
        self.taken.append(snapshot)

    def start(self):
        """Start the conductor's part, as a new process would."""
        one = volume_snapshots.VolumeSnapshots(CONF)
        one.start()
        self._stack.callback(one.stop)
        self.conductor = one

    def stop(self):
        """Stop it."""
        self.conductor.stop()

    def accept(self, operation='create', snapshot=None, known=True):
        """Accept a request that Cinder has sent; give its two ids.

        :param known: whether Cinder has such a snapshot.
        """
        snapshot = snapshot or str(uuid.uuid4())
        if known:
            self.double.add_snapshot(snapshot, VOLUME, {
                'create': 'creating', 'delete': 'deleting'}[operation])
        row = db.begin(scenes.ctxt(), VOLUME, snapshot, operation,
                       {'new_file': 'v.a'} if operation == 'create' else
                       {'file_to_merge': 'v.a', 'merge_target_file': 'v'})
        return snapshot, row['uuid']

    def finish(self, operation_id, result='success'):
        """Write down an outcome as the worker reports it."""
        assert self.conductor.finish(scenes.HOST, scenes.outcome(
            'volume_snapshot', operation_id, result, snapshot={
                'operation_id': operation_id, 'formats': FORMATS,
                'learned': {}, 'chain_before': CHAIN[1:],
                'chain_after': CHAIN, 'consistency': None,
                'freeze': None})) == 'applied'

    def done(self, operation='create', result='success', known=True):
        """Accept and finish one; give its two ids."""
        snapshot, operation_id = self.accept(operation, known=known)
        self.finish(operation_id, result)
        return snapshot, operation_id

    def told(self, snapshot):
        """What was sent of a snapshot, taken or not."""
        return [one.body['os-update_snapshot_status']
                for one in self.double.updates(snapshot)]

    def wait_over(self, operation_id):
        """Wait until Cinder is told no more; give the row."""
        return wait_until(
            lambda: (row := db.get(operation_id))['delivery'] != 'due'
            and row, 60, 'the end of telling')


@pytest.fixture
def new_desk(database, tmp_path):  # noqa: F811
    with contextlib.ExitStack() as stack:
        yield lambda dialect=cinder_dialects.STOCK, **settings: Desk(
            stack, tmp_path, dialect, **settings)


STOCK_DONE = {'create': {'status': 'creating', 'progress': '90%'},
              'delete': {'status': 'deleting', 'progress': '90%'}}
SPEC_DONE = {
    'create': {'status': 'creating_compute_complete', 'progress': '90%',
               'file_format': FORMATS},
    'delete': {'status': 'deleting_compute_complete', 'progress': '90%',
               'file_format': FORMATS}}
OPERATIONS = pytest.mark.parametrize('operation', ['create', 'delete'])


@OPERATIONS
@pytest.mark.parametrize(('form', 'dialect', 'body'), [
    ('spec', cinder_dialects.SPEC, SPEC_DONE),
    ('auto', cinder_dialects.SPEC, SPEC_DONE),
    ('stock', cinder_dialects.STOCK, STOCK_DONE)])
def test_done(new_desk, operation, form, dialect, body):
    desk = new_desk(dialect, status_form=form)
    snapshot, operation_id = desk.done(operation)
    row = desk.wait_over(operation_id)
    assert (row['delivery'], row['delivery_form']) == (
        'delivered', dialect)
    assert desk.told(snapshot) == [body[operation]]
    assert desk.double.violations == []


def test_stock_is_found_out_once(new_desk):
    desk = new_desk()
    snapshot, operation_id = desk.done()
    assert desk.wait_over(operation_id)['delivery_form'] == 'stock'
    assert desk.told(snapshot) == [SPEC_DONE['create'],
                                   STOCK_DONE['create']]
    desk.stop()
    desk.start()
    snapshot, operation_id = desk.done()
    assert desk.wait_over(operation_id)['delivery'] == 'delivered'
    assert desk.told(snapshot) == [STOCK_DONE['create']]


def test_an_endpoint_that_learns_the_form_of_the_specification(new_desk):
    desk = new_desk()
    desk.wait_over(desk.done()[1])
    desk.double.dialect = cinder_dialects.SPEC
    snapshot, operation_id = desk.done()
    assert desk.wait_over(operation_id)['delivery_form'] == 'spec'
    snapshot, operation_id = desk.done()
    desk.wait_over(operation_id)
    assert desk.told(snapshot) == [SPEC_DONE['create']]


@OPERATIONS
def test_an_error_comes_without_progress(new_desk, operation):
    desk = new_desk()
    snapshot, operation_id = desk.done(operation, 'failed')
    assert desk.wait_over(operation_id)['delivery'] == 'delivered'
    assert desk.told(snapshot) == [{'status': {
        'create': 'error', 'delete': 'error_deleting'}[operation]}]
    assert desk.double.violations == []


@pytest.mark.parametrize('code', [500, 502, 503, 401, 403, 429, 0])
def test_until_it_listens(new_desk, code):
    desk = new_desk(status_form='stock')
    desk.double.fail(code, times=2)
    snapshot, operation_id = desk.done()
    row = desk.wait_over(operation_id)
    assert row['delivery'] == 'delivered'
    assert row['delivery_attempts'] >= 2
    assert desk.double.snapshots[snapshot] == 'available'
    assert set(map(str, desk.told(snapshot))) == {
        str(STOCK_DONE['create'])}


def test_down_and_up_again(new_desk):
    desk = new_desk(status_form='stock')
    desk.double.down()
    snapshot, operation_id = desk.done()
    wait_until(lambda: db.get(operation_id)['delivery_attempts'] > 1, 20,
               'tries')
    desk.double.up()
    assert desk.wait_over(operation_id)['delivery'] == 'delivered'
    assert desk.told(snapshot) == [STOCK_DONE['create']]


def test_slower_than_we_wait(new_desk):
    desk = new_desk(status_form='stock', timeout=1)
    desk.double.slow(1.5)
    snapshot, operation_id = desk.done()
    wait_until(lambda: db.get(operation_id)['delivery_error'], 20, 'a try')
    desk.double.recover()
    # It took it the first time, and we do not know; it says no from then on.
    row = desk.wait_over(operation_id)
    assert row['delivery'] in ('delivered', 'refused')
    assert desk.double.snapshots[snapshot] == 'available'


def test_by_the_next_conductor(new_desk):
    desk = new_desk(status_form='stock')
    desk.double.down()
    snapshot, operation_id = desk.done()
    desk.stop()
    desk.double.up()
    assert desk.told(snapshot) == []
    desk.start()
    assert desk.wait_over(operation_id)['delivery'] == 'delivered'


def test_it_gives_up_in_the_end(new_desk):
    desk = new_desk(status_form='stock', give_up_after=1)
    desk.double.down()
    _, operation_id = desk.done()
    row = desk.wait_over(operation_id)
    assert row['delivery'] == 'given_up'
    assert 'Connect' in row['delivery_error']
    assert 'compare the chain' in row['delivery_error']
    assert row['delivery_attempts'] > 5


def test_a_step_of_the_wall_clock_does_not_make_it_give_up(new_desk):
    desk = new_desk(status_form='stock', give_up_after=30)
    desk.double.down()
    snapshot, operation_id = desk.done()
    # As if the request was made before the clock was put on by a year.
    with base.writer() as conn:
        conn.execute(sa.update(models.volume_snapshots).values(
            created_at=base.utcnow() - datetime.timedelta(days=365)))
    wait_until(lambda: db.get(operation_id)['delivery_attempts'] > 3, 30,
               'tries')
    desk.double.up()
    assert desk.wait_over(operation_id)['delivery'] == 'delivered'


def test_no_such_snapshot(new_desk):
    desk = new_desk(status_form='stock')
    snapshot, operation_id = desk.done('delete', known=False)
    row = desk.wait_over(operation_id)
    assert row['delivery'] == 'refused'
    assert len(desk.told(snapshot)) == 1


def test_it_says_no_again_and_again(new_desk):
    desk = new_desk()
    snapshot, operation_id = desk.accept('delete')
    desk.double.snapshots[snapshot] = 'error_deleting'
    desk.finish(operation_id)
    row = desk.wait_over(operation_id)
    assert row['delivery'] == 'refused'
    assert row['delivery_refusals'] == 2
    # Of a no to both, nothing is learned.
    desk.double.dialect = cinder_dialects.SPEC
    snapshot, operation_id = desk.done()
    desk.wait_over(operation_id)
    assert desk.told(snapshot) == [SPEC_DONE['create']]


class TestANewFileThatCinderWillNotHearOf:

    def refused(self, desk, status, progress=None):
        """Have a creation succeed after Cinder has settled it; the row."""
        snapshot, operation_id = desk.accept()
        desk.double.snapshots[snapshot] = status
        if progress:
            desk.double.progress[snapshot] = progress
        desk.finish(operation_id)
        return desk.wait_over(operation_id)

    @pytest.mark.parametrize('status', ['error', 'gone'])
    def test_merged_down_when_it_surely_does_not_know(
            self, new_desk, status):
        desk = new_desk(status_form='stock')
        row = self.refused(desk, status)
        assert row['delivery'] == 'unwanted'
        assert 'does not know of the new file' in row['delivery_error']
        assert len(desk.told(row['snapshot_id'])) == 3
        wait_until(lambda: desk.taken, 30, 'the cast')
        sent, = desk.taken
        assert (sent['operation'], sent['file_to_merge'],
                sent['merge_target_file']) == ('undo', 'v.a', 'v')
        desk.finish(sent['operation_id'])
        assert db.get(sent['operation_id'])['delivery'] == 'none'
        assert len(desk.told(row['snapshot_id'])) == 3

    def test_it_had_taken_it_and_the_answer_was_lost(self, new_desk):
        desk = new_desk(status_form='stock')
        desk.double.fail(503, applied=True)
        snapshot, operation_id = desk.done()
        row = desk.wait_over(operation_id)
        assert row['delivery'] == 'delivered'
        assert desk.double.snapshots[snapshot] == 'available'
        assert desk.taken == []

    @pytest.mark.parametrize('progress', ['90%', '100%'])
    def test_left_alone_when_it_may_know(self, new_desk, progress):
        desk = new_desk(status_form='stock')
        row = self.refused(desk, 'error', progress)
        assert row['delivery'] == 'refused'
        assert 'compare the chain' in row['delivery_error']
        assert desk.taken == []

    def test_waits_while_cinder_is_not_through_with_it(self, new_desk):
        desk = new_desk(status_form='stock')
        snapshot, operation_id = desk.accept()
        desk.double.snapshots[snapshot] = 'deleting'
        desk.finish(operation_id)
        wait_until(lambda: db.get(operation_id)['delivery_attempts'] > 4,
                   30, 'tries')
        assert db.get(operation_id)['delivery'] == 'due'
        desk.double.snapshots[snapshot] = 'gone'
        assert desk.wait_over(operation_id)['delivery'] == 'unwanted'

    def test_waits_for_another_request(self, new_desk):
        desk = new_desk(status_form='stock')
        snapshot, operation_id = desk.accept()
        desk.double.snapshots[snapshot] = 'error'
        desk.double.down()
        desk.finish(operation_id)
        _, other = desk.accept()
        desk.double.up()
        wait_until(lambda: 'is not finished' in (
            db.get(operation_id)['delivery_error'] or ''), 30, 'a try')
        desk.finish(other, 'failed')
        assert desk.wait_over(operation_id)['delivery'] == 'unwanted'

    def test_a_worker_that_is_done_after_it_was_given_up(self, new_desk):
        """Cinder was told of an error that was none."""
        desk = new_desk(status_form='stock')
        snapshot, operation_id = desk.accept()
        assert db.give_up(operation_id, 'pending', 'silence', True)
        desk.conductor.wake()
        assert desk.wait_over(operation_id)['delivery'] == 'delivered'
        assert desk.double.snapshots[snapshot] == 'error'
        desk.finish(operation_id)
        assert desk.wait_over(operation_id)['delivery'] == 'unwanted'
        wait_until(lambda: desk.taken, 30, 'the cast')
        assert desk.taken[0]['operation'] == 'undo'


def test_a_merge_wipes_out_old_progress(new_desk):
    desk = new_desk(status_form='stock')
    snapshot, operation_id = desk.accept('delete')
    desk.conductor.begin(scenes.ctxt(), operation_id)
    assert desk.told(snapshot) == [{'status': 'deleting', 'progress': '0%'}]
    assert desk.double.snapshots[snapshot] == 'deleting'
    wait_until(lambda: desk.taken, 5, 'the cast')
    assert desk.taken[0]['operation_id'] == operation_id
    assert desk.double.violations == []


def test_no_merge_when_that_cannot_be_had(new_desk):
    desk = new_desk(status_form='stock')
    desk.double.fail(500, times=None)
    _, operation_id = desk.accept('delete')
    with pytest.raises(exceptions.ServiceUnavailable, match='Cinder'):
        desk.conductor.begin(scenes.ctxt(), operation_id)
    assert desk.taken == []


def test_nothing_to_wipe_out(new_desk):
    desk = new_desk(status_form='spec')
    snapshot, operation_id = desk.accept('delete')
    desk.conductor.begin(scenes.ctxt(), operation_id)
    assert desk.told(snapshot) == []
    wait_until(lambda: desk.taken, 5, 'the cast')


def test_a_create_is_handed_on(new_desk):
    desk = new_desk()
    snapshot, operation_id = desk.accept('create')
    desk.conductor.begin(scenes.ctxt(), operation_id)
    wait_until(lambda: desk.taken, 5, 'the cast')
    assert desk.taken[0]['snapshot_id'] == snapshot
    assert desk.told(snapshot) == []


def wished(desk, **image):
    """Hand a create to the host; tell whether a freeze is required."""
    scenes.report(scenes.server(**image))
    _, operation_id = desk.accept('create')
    desk.conductor.begin(scenes.ctxt(), operation_id)
    wait_until(lambda: desk.taken, 5, 'the cast')
    return desk.taken[0]['require_quiesce']


@pytest.mark.parametrize(('value', 'required'), [
    ('true', True), ('yes', True), ('no', False), (None, False)])
def test_the_image_wishes_a_freeze(new_desk, tmp_path, value, required):
    desk = new_desk(**{'[images]\nfolder': tmp_path / 'images'})
    image_id = str(uuid.uuid4())
    images.connect(CONF).create(images.Record(
        id=image_id, name='i', owner='o', disk_format='raw', min_disk=0,
        properties={} if value is None else {'os_require_quiesce': value}))
    assert wished(desk, image_id=image_id) is required


@pytest.mark.parametrize('store', ['folder', 'glance'])
def test_what_cannot_be_asked_is_not_required(new_desk, tmp_path, store):
    desk = new_desk(**{
        '[images]\nstore': store,
        '[images]\nfolder': tmp_path / 'nowhere',
        '[glance]\nauth_type': 'none\nendpoint = http://127.0.0.1:1'})
    assert wished(desk, image_id=str(uuid.uuid4())) is False


def test_the_token_has_run_out(new_desk, keystone):
    """A merge may take longer than a token lives; a new one is fetched."""
    account = keystone.credentials(SERVICE)
    desk = new_desk(status_form='stock', **{
        '[cinder]\nauth_type': 'password', **{
            key: account[key] for key in (
                'auth_url', 'username', 'password', 'project_name')}},
        user_domain_id='default', project_domain_id='default', timeout=20)
    desk.wait_over(desk.done()[1])
    desk.double.fail(401)
    snapshot, operation_id = desk.done()
    assert desk.wait_over(operation_id)['delivery'] == 'delivered'
    first, second = desk.double.updates(snapshot)
    assert (first.code, second.code) == (401, 202)
    assert first.headers['X-Auth-Token'] != second.headers['X-Auth-Token']
    assert second.headers['X-Service-Token'] == (
        second.headers['X-Auth-Token'])
    assert db.get(operation_id)['delivery_attempts'] == 1
