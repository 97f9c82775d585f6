# SPDX-License-Identifier: Apache-2.0
"""Which keys things have at each microversion: no more, no fewer."""

import json

import pytest

from stillframe.api import microversions as mv
from tests.functional import population
from tests.functional import wsgi

ADMIN = f'admin:{population.PROJECT}'
MEMBER = f'fred:{population.PROJECT}'

ALWAYS = {
    'OS-DCF:diskConfig', 'OS-EXT-AZ:availability_zone',
    'OS-EXT-STS:power_state', 'OS-EXT-STS:task_state',
    'OS-EXT-STS:vm_state', 'OS-SRV-USG:launched_at',
    'OS-SRV-USG:terminated_at', 'accessIPv4', 'accessIPv6', 'addresses',
    'config_drive', 'created', 'flavor', 'hostId', 'id', 'image',
    'key_name', 'links', 'metadata', 'name',
    'os-extended-volumes:volumes_attached', 'progress', 'status',
    'tenant_id', 'updated', 'user_id'}

# Keys by the microversion that brings them.
ADDED = {
    9: {'locked'},
    19: {'description'},
    26: {'tags'},
    63: {'trusted_image_certificates'},
    73: {'locked_reason'},
}
ADDED_ALONE = {71: {'server_groups'}}
ADDED_FOR_ADMINS = {
    1: {'OS-EXT-SRV-ATTR:host', 'OS-EXT-SRV-ATTR:hypervisor_hostname',
        'OS-EXT-SRV-ATTR:instance_name'},
    3: {'OS-EXT-SRV-ATTR:hostname', 'OS-EXT-SRV-ATTR:kernel_id',
        'OS-EXT-SRV-ATTR:launch_index', 'OS-EXT-SRV-ATTR:ramdisk_id',
        'OS-EXT-SRV-ATTR:reservation_id',
        'OS-EXT-SRV-ATTR:root_device_name', 'OS-EXT-SRV-ATTR:user_data'},
    16: {'host_status'},
}


def added(steps, minor):
    """The keys of all steps up to a version."""
    return {key for step, keys in steps.items() if step <= minor
            for key in keys}


def get(api, path, minor, token=ADMIN):
    """Read something at a version."""
    answer = wsgi.call(
        api.app, 'GET', f'/v2.1/{path}', b'',
        {'OpenStack-API-Version': f'compute 2.{minor}',
         'X-Auth-Token': token})
    assert answer.status == 200
    assert answer.headers['openstack-api-version'] == f'compute 2.{minor}'
    return answer.json()


@pytest.mark.parametrize('minor', range(mv.MIN, mv.MAX + 1))
def test_servers(shared_api, minor):
    alone = get(shared_api, f'servers/{population.WEB}', minor)['server']
    listed = {server['id']: server for server in get(
        shared_api, 'servers/detail', minor)['servers']}[population.WEB]
    for_member = get(shared_api, f'servers/{population.WEB}', minor,
                     MEMBER)['server']
    expected = ALWAYS | added(ADDED, minor)
    for_admins = added(ADDED_FOR_ADMINS, minor)
    only_alone = added(ADDED_ALONE, minor)
    assert set(alone) == expected | for_admins | only_alone
    assert set(listed) == expected | for_admins
    assert set(for_member) == expected | only_alone
    assert {key: alone[key] for key in listed} == listed
    flavor = ({'vcpus', 'ram', 'disk', 'ephemeral', 'swap',
               'original_name', 'extra_specs'} if minor >= 47
              else {'id', 'links'})
    assert set(alone['flavor']) == flavor
    for volume in alone['os-extended-volumes:volumes_attached']:
        assert set(volume) == ({'id', 'delete_on_termination'}
                               if minor >= 3 else {'id'})


@pytest.mark.parametrize('minor', range(mv.MIN, mv.MAX + 1))
def test_volume_attachments(shared_api, minor):
    listed = get(shared_api,
                 f'servers/{population.WEB}/os-volume_attachments',
                 minor)['volumeAttachments']
    expected = {'device', 'serverId', 'volumeId'} | added({
        70: {'tag'}, 79: {'delete_on_termination'},
        89: {'attachment_id', 'bdm_uuid'}}, minor)
    if minor < 89:
        expected |= {'id'}
    assert [set(one) for one in listed] == [expected] * 2


@pytest.mark.parametrize('minor', range(mv.MIN, mv.MAX + 1))
def test_instance_actions(shared_api, minor):
    path = f'servers/{population.BROKEN}/os-instance-actions'
    expected = {'action', 'instance_uuid', 'message', 'project_id',
                'request_id', 'start_time', 'user_id'} | added(
                    {58: {'updated_at'}}, minor)
    listed = get(shared_api, path, minor)['instanceActions']
    assert [set(one) for one in listed] == [expected] * 2
    for token in (ADMIN, MEMBER):
        shown = get(shared_api, f'{path}/{listed[0]["request_id"]}', minor,
                    token)['instanceAction']
        if token == MEMBER and minor < 51:
            assert set(shown) == expected
            continue
        assert set(shown) == expected | {'events'}
        keys = {'event', 'finish_time', 'result', 'start_time',
                'traceback'} | added({62: {'hostId'}}, minor)
        if token == ADMIN:
            keys |= added({62: {'host'}, 84: {'details'}}, minor)
        assert [set(event) for event in shown['events']] == [keys]


@pytest.mark.parametrize('minor', range(mv.MIN, mv.MAX + 1))
def test_services(shared_api, minor):
    (service,) = get(shared_api, 'os-services', minor)['services']
    assert set(service) == {
        'binary', 'disabled_reason', 'host', 'id', 'state', 'status',
        'updated_at', 'zone'} | added({11: {'forced_down'}}, minor)
    assert isinstance(service['id'], str if minor >= 53 else int)


def test_all_is_plain_ascii(shared_api):
    """Whatever a client takes for the encoding, it reads the same."""
    answer = wsgi.call(shared_api.app, 'GET', '/v2.1/servers/detail')
    assert json.loads(answer.body.decode('ascii'))
