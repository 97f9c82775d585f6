# SPDX-License-Identifier: Apache-2.0
"""Requests for volume snapshots, and what Cinder is told of them."""

import concurrent.futures
import datetime

import pytest
import sqlalchemy as sa

from stillframe import exceptions
from stillframe.db import base
from stillframe.db import models
from stillframe.db import volume_formats
from stillframe.db import volume_snapshot_claims as claims
from stillframe.db import volume_snapshot_delivery as delivery
from stillframe.db import volume_snapshot_undo as undo
from stillframe.db import volume_snapshots as db
from stillframe.states.volume_snapshots import Delivery
from tests.unit.db import scenes

pytestmark = pytest.mark.usefixtures('database')

VOLUME = scenes.volume()['volume_id']
OTHER = '22222222-2222-4222-8222-222222222222'
MERGE = {'file_to_merge': 'v.a', 'merge_target_file': 'v'}


def begin(snapshot='s1', operation='create', request=None, volume=VOLUME):
    return db.begin(scenes.ctxt(), volume, snapshot, operation,
                    request or {'new_file': 'v.a'})['uuid']


def finish(operation_id, result='success', tell=True, host=scenes.HOST,
           **snapshot):
    told = {'operation_id': operation_id, 'formats': {'v.a': 'qcow2'},
            'learned': {'v.a': 'qcow2', 'v': 'raw'},
            'chain_before': [], 'chain_after': [], 'consistency': None,
            'freeze': None}
    return db.finish(host, scenes.outcome(
        'volume_snapshot', operation_id, result,
        snapshot={**told, **snapshot}), tell)


def taken():
    return [row['uuid'] for row in delivery.take_due(30, 60, 10)]


def set_time(operation_id, **columns):
    with base.writer() as conn:
        conn.execute(sa.update(models.volume_snapshots).where(
            models.volume_snapshots.c.uuid == operation_id).values({
                name: base.utcnow() + datetime.timedelta(seconds=seconds)
                for name, seconds in columns.items()}))


class TestBegin:

    def test_accepted(self):
        scenes.report(scenes.server())
        row = db.get(begin())
        assert (row['state'], row['delivery']) == ('pending', 'none')
        assert row['server_uuid'] == scenes.WEB
        assert row['host'] == scenes.HOST

    def test_unknown_volume(self):
        scenes.report(scenes.server())
        with pytest.raises(exceptions.VolumeUnknown):
            begin(volume='x')

    def test_volume_of_a_deleted_server(self):
        scenes.report(scenes.server())
        scenes.report()
        with pytest.raises(exceptions.VolumeUnknown):
            begin()

    def test_multi_attached(self):
        scenes.report(scenes.server(), scenes.server(OTHER))
        with pytest.raises(exceptions.VolumeMultiAttached):
            begin()

    @pytest.mark.parametrize('power', [1, 3, 4])
    def test_states_allowed(self, power):
        scenes.report(scenes.server(power_state=power))
        assert begin()

    def test_quiesced_is_allowed(self):
        scenes.quiesced()
        assert begin()

    def test_wrong_states(self):
        scenes.report(scenes.server(power_state=7))
        with pytest.raises(exceptions.WrongVolumeState, match='suspended'):
            begin()
        scenes.report(scenes.server())
        scenes.begin('quiesce')
        with pytest.raises(exceptions.WrongVolumeState, match='quiescing'):
            begin()

    def test_one_at_a_time(self):
        scenes.report(scenes.server())
        first = begin()
        with pytest.raises(exceptions.VolumeBusy, match='creating snapshot'):
            begin('s2')
        finish(first)
        assert begin('s2')

    def test_of_eight_that_race_one_wins(self):
        scenes.report(scenes.server())

        def attempt(number):
            try:
                return begin(f's{number}')
            except exceptions.VolumeBusy:
                return None

        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            won = [one for one in pool.map(attempt, range(8)) if one]
        assert len(won) == 1


class TestClaim:

    def test_go(self):
        scenes.report(scenes.server())
        one = begin()
        assert claims.claim(one, scenes.HOST) == {
            'go': True, 'formats': {}, 'merged_before': False,
            'strays': []}
        # The answer was lost.
        assert claims.claim(one, scenes.HOST)['go']
        assert not claims.claim(one, 'elsewhere')['go']

    def test_given_up_is_never_begun(self):
        scenes.report(scenes.server())
        one = begin()
        assert db.give_up(one, 'pending', 'nobody came', True)
        assert not claims.claim(one, scenes.HOST)['go']
        assert not claims.claim('unknown', scenes.HOST)['go']

    def test_known_formats(self):
        scenes.report(scenes.server())
        finish(begin())
        assert claims.claim(begin('s2'), scenes.HOST)['formats'] == {
            'v': 'raw', 'v.a': 'qcow2'}

    def test_merged_before(self):
        scenes.report(scenes.server())
        one = begin('s1', 'delete', MERGE)
        assert not claims.claim(one, scenes.HOST)['merged_before']
        finish(one, 'failed')
        two = begin('s1', 'delete', MERGE)
        assert not claims.claim(two, scenes.HOST)['merged_before']
        finish(two)
        three = begin('s1', 'delete', MERGE)
        assert claims.claim(three, scenes.HOST)['merged_before']
        finish(three)
        other = begin('s1', 'delete', {**MERGE, 'merge_target_file': 'x'})
        assert not claims.claim(other, scenes.HOST)['merged_before']


class TestFinish:

    def test_done_and_due(self):
        scenes.report(scenes.server())
        one = begin()
        claims.claim(one, scenes.HOST)
        claims.note_progress(one, scenes.HOST, 40)
        claims.note_progress(one, scenes.HOST, 30)
        assert db.get(one)['progress'] == 40
        assert finish(one) == 'applied'
        row = db.get(one)
        assert (row['state'], row['delivery']) == ('done', 'due')
        assert row['progress'] == 100
        assert finish(one, 'failed') == 'duplicate'
        assert db.get(one)['state'] == 'done'

    def test_nobody_to_tell(self):
        scenes.report(scenes.server())
        one = begin()
        finish(one, 'failed', tell=False)
        row = db.get(one)
        assert (row['state'], row['delivery']) == ('error', 'none')
        assert taken() == []

    def test_unknown(self):
        assert finish('nothing') == 'unknown'

    def test_late_after_it_was_given_up(self):
        """A success that Cinder has not heard the opposite of is told."""
        scenes.report(scenes.server())
        one = begin()
        claims.claim(one, scenes.HOST)
        assert db.give_up(one, 'running', 'silence', True)
        assert finish(one) == 'applied'
        assert db.get(one)['state'] == 'done'
        assert taken() == [one]

    def test_too_late(self):
        scenes.report(scenes.server())
        one = begin()
        claims.claim(one, scenes.HOST)
        db.give_up(one, 'running', 'silence', True)
        taken()
        delivery.end(one, Delivery.DELIVERED, 'stock', None)
        assert finish(one, 'failed', formats={}) == 'applied'
        row = db.get(one)
        assert (row['state'], row['delivery']) == ('error', 'delivered')
        assert 'reported later: failed' in row['detail']

    @pytest.mark.parametrize(('operation', 'delivery_'), [
        ('create', 'due'), ('delete', 'delivered')])
    def test_done_after_all_when_cinder_was_told_the_opposite(
            self, operation, delivery_):
        """A new file that Cinder does not know must not stay so."""
        scenes.report(scenes.server())
        one = begin('s1', operation, MERGE if operation == 'delete' else None)
        claims.claim(one, scenes.HOST)
        db.give_up(one, 'running', 'silence', True)
        taken()
        delivery.end(one, Delivery.DELIVERED, 'stock', None)
        assert finish(one) == 'applied'
        row = db.get(one)
        assert (row['state'], row['delivery']) == ('done', delivery_)
        assert 'reported later: success' in row['detail']
        assert finish(one) == 'duplicate'

    def test_what_was_learned(self):
        scenes.report(scenes.server())
        finish(begin())
        finish(begin('s2', 'delete', MERGE), learned={'v': 'raw'})
        assert db.known_formats(VOLUME) == {'v': 'raw'}
        finish(begin('s3'), 'failed', learned={})
        with base.reader() as conn:
            assert volume_formats.known(conn, VOLUME) == {'v': 'raw'}


class TestDelivery:

    def test_taken_by_one(self):
        scenes.report(scenes.server())
        one = begin()
        finish(one)
        assert taken() == [one]
        assert taken() == []
        # Who took it died.
        set_time(one, delivering_until=-1)
        assert taken() == [one]

    def test_again_later(self):
        scenes.report(scenes.server())
        one = begin()
        finish(one)
        taken()
        delivery.give_back(one, 'down', 20)
        assert taken() == []
        set_time(one, delivery_due=-1)
        assert taken() == [one]
        assert db.get(one)['delivery_attempts'] == 1

    def test_wall_clock_was_set_back(self):
        scenes.report(scenes.server())
        one = begin()
        finish(one)
        set_time(one, delivery_due=3600, delivering_until=3600)
        assert taken() == [one]

    def test_end(self):
        scenes.report(scenes.server())
        one = begin()
        finish(one)
        taken()
        delivery.end(one, Delivery.DELIVERED, 'spec', None)
        row = db.get(one)
        assert (row['delivery'], row['delivery_form']) == (
            'delivered', 'spec')
        assert row['delivered_at'] is not None
        assert taken() == []

    def test_superseded_by_a_new_request_for_the_snapshot(self):
        """Else the old outcome would be taken for the new one's."""
        scenes.report(scenes.server())
        one = begin('s1', 'delete', MERGE)
        finish(one)
        begin('s1', 'delete', MERGE)
        assert db.get(one)['delivery'] == 'superseded'
        assert taken() == []
        delivery.give_back(one, 'late', 1)
        delivery.end(one, Delivery.DELIVERED, 'stock', None)
        assert db.get(one)['delivery'] == 'superseded'

    def test_another_snapshot_supersedes_nothing(self):
        scenes.report(scenes.server())
        one = begin('s1')
        finish(one)
        begin('s2')
        assert taken() == [one]

    def test_not_while_it_is_being_told(self):
        scenes.report(scenes.server())
        one = begin('s1', 'delete', MERGE)
        finish(one)
        taken()
        with pytest.raises(exceptions.VolumeBusy, match='being told'):
            begin('s1', 'delete', MERGE)

    def test_forms(self):
        assert delivery.form_of('http://a/v3') is None
        delivery.learn_form('http://a/v3', 'stock')
        assert delivery.form_of('http://a/v3') == 'stock'
        delivery.learn_form('http://a/v3', 'spec')
        assert delivery.form_of('http://a/v3') == 'spec'
        assert delivery.form_of('http://b/v3') is None


CHAIN = [{'path': '/a/v.a', 'format': 'qcow2'},
         {'path': '/a/v', 'format': 'raw'}]


def made(snapshot='s1', chain=CHAIN, operation='create'):
    one = begin(snapshot, operation)
    finish(one, chain_after=chain)
    return one


class TestUndo:

    def test_begun_and_told_to_nobody(self):
        scenes.report(scenes.server())
        one = made()
        row = undo.begin(db.get(one), 'no')
        assert (row['operation'], row['state']) == ('undo', 'pending')
        assert row['request'] == {'file_to_merge': 'v.a',
                                  'merge_target_file': 'v'}
        assert db.get(one)['delivery'] == 'unwanted'
        assert db.get(one)['delivery_error'] == 'no'
        with pytest.raises(exceptions.VolumeBusy, match='undoing'):
            begin('s2')
        assert taken() == []
        claims.claim(row['uuid'], scenes.HOST)
        finish(row['uuid'])
        assert db.get(row['uuid'])['delivery'] == 'none'
        assert taken() == []
        assert [one['operation'] for one in db.of_snapshot('s1', 5)] == [
            'undo', 'create']

    def test_given_up_is_told_to_nobody(self):
        scenes.report(scenes.server())
        row = undo.begin(db.get(made()), 'no')
        assert db.give_up(row['uuid'], 'pending', 'x', True)
        row = db.get(row['uuid'])
        assert (row['state'], row['delivery'], row['active_volume']) == (
            'error', 'none', None)

    def test_not_twice(self):
        scenes.report(scenes.server())
        row = db.get(made())
        claims.claim(undo.begin(row, 'no')['uuid'], scenes.HOST)
        assert undo.begin(row, 'no') is None

    def test_not_while_the_volume_is_busy(self):
        scenes.report(scenes.server())
        one = made()
        begin('s2')
        with pytest.raises(exceptions.VolumeBusy):
            undo.begin(db.get(one), 'no')
        assert db.get(one)['delivery'] == 'due'

    @pytest.mark.parametrize('chain', [None, [], CHAIN[:1], CHAIN[::-1]])
    def test_nothing_to_merge(self, chain):
        scenes.report(scenes.server())
        one = made(chain=chain)
        assert undo.begin(db.get(one), 'no') is None
        assert db.get(one)['delivery'] == 'unwanted'

    def test_the_volume_is_gone_from_the_server(self):
        scenes.report(scenes.server())
        one = made()
        scenes.report(scenes.server(volumes=[]))
        assert undo.begin(db.get(one), 'no') is None
        assert db.get(one)['delivery'] == 'unwanted'


class TestStrays:

    def strays(self):
        one = begin('other', 'delete', MERGE)
        claim = claims.claim(one, scenes.HOST)
        finish(one)
        return claim['strays']

    @pytest.mark.parametrize(('how', 'strays'), [
        (Delivery.UNWANTED, ['v.a']), (Delivery.GIVEN_UP, ['v.a']),
        (Delivery.DELIVERED, []), (Delivery.REFUSED, []),
        (Delivery.SUPERSEDED, [])])
    def test_of_what_cinder_knows(self, how, strays):
        scenes.report(scenes.server())
        delivery.end(made(), how, None, None)
        assert self.strays() == strays

    def test_only_the_latest_request_for_a_snapshot_counts(self):
        scenes.report(scenes.server())
        delivery.end(made(), Delivery.GIVEN_UP, None, None)
        delivery.end(made(), Delivery.DELIVERED, None, None)
        assert self.strays() == []
        delivery.end(made('s2'), Delivery.UNWANTED, None, None)
        assert self.strays() == ['v.a']

    def test_no_merge_into_a_file_of_which_cinder_was_not_told(self):
        """The request does not name the file; Cinder means another."""
        scenes.report(scenes.server())
        one = made()
        pull = {'file_to_merge': None, 'merge_target_file': None}
        with pytest.raises(exceptions.VolumeBusy, match='not been told'):
            begin('s2', 'delete', pull)
        # Nor is anything left of the request.
        assert db.get(one)['delivery'] == 'due'
        assert begin('s2', 'delete', MERGE)

    def test_a_merge_into_it_for_the_same_snapshot(self):
        """Then Cinder knows of it."""
        scenes.report(scenes.server())
        one = made()
        assert begin('s1', 'delete', {'file_to_merge': None})
        assert db.get(one)['delivery'] == 'superseded'


def test_open_requests():
    scenes.report(scenes.server())
    one = begin()
    row, = db.open_requests()
    assert (row['uuid'], row['state']) == (one, 'pending')
    assert not db.give_up(one, 'running', 'x', True)
    assert db.give_up(one, 'pending', 'x', True)
    assert db.open_requests() == []
    assert [row['uuid'] for row in db.of_snapshot('s1', 5)] == [one]
