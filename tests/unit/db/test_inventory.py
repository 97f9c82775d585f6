# SPDX-License-Identifier: Apache-2.0
"""Servers follow what their hosts report: new, changed, moved, gone, back."""

import concurrent.futures
import datetime
import uuid

import pytest

from stillframe.db import inventory
from stillframe.db import models
from stillframe.db import servers
from stillframe.db import services
from stillframe.states import servers as states
from tests.unit.db import scenes

pytestmark = pytest.mark.usefixtures('database')

APP = '22222222-2222-4222-8222-222222222222'


def names():
    """The names of the servers that are not deleted, by uuid."""
    return {row['uuid']: row['name'] for row in scenes.rows(models.servers)
            if not row['deleted']}


def digest(host):
    """The digest of the servers of a host, as applied last."""
    return services.get(host, services.COMPUTE)['servers_digest']


def introduce(*hosts):
    """Have workers tell that they are alive."""
    for host in hosts:
        services.report(host, services.COMPUTE, '2026-01-31T10:00:00', 1, {})


def test_a_new_server():
    scenes.report(scenes.server(volumes=[
        scenes.volume('vdb', source=None, format=None, read_only=True),
        scenes.volume('vda')]))
    page = servers.get_page(scenes.WEB)
    row = page.servers[0]
    assert row['name'] == 'web'
    assert row['host'] == scenes.HOST
    assert row['flavor'] == {'name': 'tiny', 'vcpus': 1}
    assert scenes.state() == ('active', None)
    launched = datetime.datetime(2026, 1, 31, 23, 59, 59, 1)
    assert row['launched_at'] == row['created_at'] == launched
    assert [one['device'] for one in page.volumes[scenes.WEB]] == [
        '/dev/vda', '/dev/vdb']
    volumes = servers.volumes_of(scenes.WEB)
    assert [one['target'] for one in volumes] == ['vda', 'vdb']
    assert volumes[1]['read_only'] is True
    assert volumes[1]['source'] is None


@pytest.mark.parametrize('power_state', sorted(states.POWER_STATES))
def test_the_state_follows_the_power(power_state):
    expected = states.vm_state_of_power(power_state)
    scenes.report(scenes.server(power_state=power_state))
    assert scenes.state() == (expected, None)
    scenes.report(scenes.server(power_state=states.POWER_RUNNING))
    assert scenes.state() == ('active', None)
    scenes.report(scenes.server(power_state=power_state))
    assert scenes.state() == (expected, None)


def test_the_same_report_again_changes_nothing():
    scenes.report(scenes.server())
    before = (scenes.rows(models.servers), scenes.rows(models.volumes))
    scenes.report(scenes.server())
    assert before == (scenes.rows(models.servers),
                      scenes.rows(models.volumes))


def test_a_rename_and_other_changes():
    scenes.report(scenes.server())
    first = servers.get(scenes.WEB)
    scenes.report(scenes.server(name='shop', agent_state='disconnected',
                                flavor={'name': 'big'}, launched_at=None))
    row = servers.get(scenes.WEB)
    assert (row['name'], row['agent_state'], row['flavor'],
            row['launched_at']) == ('shop', 'disconnected',
                                    {'name': 'big'}, None)
    assert row['created_at'] == first['created_at']
    assert row['updated_at'] > first['updated_at']


def test_names_in_any_script_and_of_any_length():
    scenes.report(scenes.server(name='Bücher 📚' + 'x' * 300))
    name = servers.get(scenes.WEB)['name']
    assert name.startswith('Bücher 📚')
    assert len(name) == 255
    assert name.endswith('...')


def test_volumes_come_change_and_go():
    scenes.report(scenes.server(volumes=[scenes.volume('vda'),
                                         scenes.volume('vdb')]))
    first = {row['target']: row for row in servers.volumes_of(scenes.WEB)}
    scenes.report(scenes.server(volumes=[
        scenes.volume('vdb', volume_id=str(uuid.uuid4())),
        scenes.volume('vdc')]))
    after = {row['target']: row for row in servers.volumes_of(scenes.WEB)}
    assert sorted(after) == ['vdb', 'vdc']
    assert after['vdb']['id'] == first['vdb']['id']
    assert after['vdb']['attachment_id'] != first['vdb']['attachment_id']
    scenes.report(scenes.server(volumes=[]))
    assert list(servers.volumes_of(scenes.WEB)) == []


def test_attachment_ids_are_stable():
    assert (inventory.attachment_id(scenes.WEB, 'v1')
            == inventory.attachment_id(scenes.WEB, 'v1')
            != inventory.attachment_id(APP, 'v1'))


def test_a_full_report_deletes_what_it_does_not_name():
    scenes.report(scenes.server(), scenes.server(APP, name='app'))
    scenes.report(scenes.server(APP, name='app'))
    assert names() == {APP: 'app'}
    row = servers.get(scenes.WEB, deleted=True)
    assert (row['vm_state'], row['power_state']) == (
        'deleted', states.POWER_NOSTATE)
    assert row['deleted_at'] is not None


def test_a_partial_report_deletes_only_what_is_gone():
    scenes.report(scenes.server(), scenes.server(APP, name='app'))
    scenes.report(gone=[APP], full=False)
    assert names() == {scenes.WEB: 'web'}
    scenes.report(full=False)
    assert names() == {scenes.WEB: 'web'}


def test_a_host_deletes_only_its_own():
    scenes.report(scenes.server())
    scenes.report(host='there')
    scenes.report(gone=[scenes.WEB], full=False, host='there')
    assert names() == {scenes.WEB: 'web'}


def test_deletion_ends_what_ran():
    scenes.report(scenes.server())
    request_id = scenes.begin('quiesce')
    scenes.report()
    assert scenes.state() == ('deleted', None)
    action, events = scenes.action(request_id)
    assert 'deleted on its host' in action['message']
    assert events[0]['result'] == 'Error'
    assert scenes.apply('quiesce', request_id) == 'stale'
    assert scenes.state() == ('deleted', None)


def test_a_server_that_is_back_is_the_same_server():
    scenes.report(scenes.server())
    first = servers.get(scenes.WEB)
    scenes.report()
    scenes.report(scenes.server(power_state=states.POWER_SHUTDOWN))
    row = servers.get(scenes.WEB)
    assert (row['id'], row['created_at']) == (
        first['id'], first['created_at'])
    assert row['deleted_at'] is None
    assert scenes.state() == ('stopped', None)


def test_a_running_guest_takes_its_server_along():
    introduce(scenes.HOST, 'there')
    scenes.report(scenes.server())
    # The other host makes the domain first, and runs it later.
    scenes.report(scenes.server(power_state=states.POWER_PAUSED),
                  host='there')
    assert servers.get(scenes.WEB)['host'] == scenes.HOST
    scenes.report(scenes.server(), host='there')
    assert servers.get(scenes.WEB)['host'] == 'there'
    scenes.report(gone=[scenes.WEB], full=False)
    assert names() == {scenes.WEB: 'web'}


def test_a_report_of_a_second_definition_changes_nothing():
    scenes.report(scenes.server())
    scenes.report(scenes.server(power_state=states.POWER_SHUTDOWN,
                                name='old', volumes=[]), host='there')
    assert names() == {scenes.WEB: 'web'}
    assert scenes.state() == ('active', None)
    assert len(servers.volumes_of(scenes.WEB)) == 1


def test_a_cold_migration_is_found_when_the_old_host_lets_go():
    introduce(scenes.HOST, 'there', 'elsewhere')
    stopped = scenes.server(power_state=states.POWER_SHUTDOWN)
    scenes.report(stopped)
    scenes.report(stopped, host='there', digest='t')
    scenes.report(host='elsewhere', digest='e')
    scenes.report(gone=[scenes.WEB], full=False)
    assert names() == {}
    # The host that has it is asked for everything; others are not.
    assert digest('there') == ''
    assert digest('elsewhere') == 'e'
    scenes.report(stopped, host='there', digest='t')
    assert servers.get(scenes.WEB)['host'] == 'there'
    assert digest('there') == 't'


def test_a_host_that_a_server_left_is_asked_when_it_is_gone_again():
    introduce(scenes.HOST, 'there')
    scenes.report(scenes.server(), digest='h')
    scenes.report(scenes.server(), host='there')
    scenes.report(host='there')
    assert digest(scenes.HOST) == ''


def test_quiesced_servers_are_named_to_their_host():
    freeze_id = scenes.quiesced()
    assert scenes.report(scenes.server()) == {scenes.WEB: freeze_id}
    assert scenes.report(scenes.server(), full=False) == {
        scenes.WEB: freeze_id}
    assert scenes.report(full=False) == {}
    assert scenes.report(scenes.server(APP), host='there') == {}


def test_a_quiesced_server_stays_so_whatever_the_power():
    scenes.quiesced()
    scenes.report(scenes.server(power_state=states.POWER_PAUSED))
    assert scenes.state() == ('quiesced', None)


def test_a_move_while_quiesced_told_in_either_order():
    freeze_id = scenes.quiesced()
    scenes.report()
    assert scenes.state() == ('deleted', None)
    assert scenes.report(scenes.server(), host='there') == {
        scenes.WEB: freeze_id}
    assert scenes.state() == ('quiesced', None)
    # And in the other order.
    assert scenes.report(scenes.server(), host='third') == {
        scenes.WEB: freeze_id}
    scenes.report(host='there')
    assert scenes.state() == ('quiesced', None)


def test_a_server_is_not_back_as_quiesced_when_the_freeze_ended():
    freeze_id = scenes.quiesced()
    scenes.report()
    scenes.apply('freeze_ended', 'req-system', freeze_id=freeze_id,
                 reason='stopped')
    scenes.report(scenes.server())
    assert scenes.state() == ('active', None)


def test_an_error_stays_through_reports():
    scenes.report(scenes.server())
    scenes.apply('quiesce', scenes.begin('quiesce'), 'failed')
    scenes.report(scenes.server(name='shop'))
    assert scenes.state() == ('error', None)


def test_one_report_applied_by_many_conductors_at_once():
    told = [scenes.server(str(uuid.UUID(int=number, version=4)),
                          name=f's{number}') for number in range(20)]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: scenes.report(*told), range(8)))
    assert len(names()) == 20
    assert len(scenes.rows(models.volumes)) == 20


def test_hosts_that_fight_for_servers_at_once():
    told = [scenes.server(str(uuid.UUID(int=number, version=4)),
                          name=f's{number}') for number in range(10)]
    scenes.report(*told)
    hosts = [f'h{number}' for number in range(8)]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(
            lambda pair: scenes.report(
                *(told if pair[0] % 2 else reversed(told)), host=pair[1]),
            enumerate(hosts)))
    assert len(names()) == 10
    assert {row['host'] for row in scenes.rows(models.servers)} <= set(hosts)
