# SPDX-License-Identifier: Apache-2.0
"""Which keys nodes and ports have at each microversion."""

import pytest

from stillframe.api import baremetal_versions as mv
from tests.functional import environment
from tests.functional import node_population as nodes
from tests.functional import wsgi

ALWAYS = {
    'chassis_uuid', 'console_enabled', 'created_at', 'driver',
    'driver_info', 'extra', 'instance_info', 'instance_uuid',
    'last_error', 'links', 'maintenance', 'maintenance_reason', 'ports',
    'power_state', 'properties', 'provision_state',
    'provision_updated_at', 'reservation', 'target_power_state',
    'target_provision_state', 'updated_at', 'uuid'}
# Keys by the microversion that brings them; as Ironic documents them.
ADDED = {
    3: {'driver_internal_info'},
    5: {'name'},
    6: {'inspection_started_at', 'inspection_finished_at'},
    7: {'clean_step'},
    12: {'raid_config', 'target_raid_config'},
    14: {'states'},
    20: {'network_interface'},
    21: {'resource_class'},
    31: {'boot_interface', 'console_interface', 'deploy_interface',
         'inspect_interface', 'management_interface', 'power_interface',
         'raid_interface', 'vendor_interface'},
    33: {'storage_interface'},
    37: {'traits'},
    38: {'rescue_interface'},
    40: {'bios_interface'},
    42: {'fault'},
    44: {'deploy_step'},
    46: {'conductor_group'},
    47: {'automated_clean'},
    48: {'protected', 'protected_reason'},
    49: {'conductor'},
    50: {'owner'},
    51: {'description'},
    52: {'allocation_uuid'},
    61: {'retired', 'retired_reason'},
    65: {'lessee'},
    66: {'network_data'},
    75: {'boot_mode', 'secure_boot'},
    82: {'shard'},
    83: {'parent_node'},
    86: {'firmware_interface'},
    87: {'service_step'},
    95: {'disable_power_off'},
    104: {'instance_name'},
    109: {'health'},
    116: {'snapshot_interface'},
}
PORT_ALWAYS = {'address', 'created_at', 'extra', 'links', 'node_uuid',
               'updated_at', 'uuid'}
PORT_ADDED = {
    18: {'internal_info'},
    19: {'local_link_connection', 'pxe_enabled'},
    24: {'portgroup_uuid'},
    34: {'physical_network'},
    53: {'is_smartnic'},
    88: {'name'},
    97: {'description'},
    100: {'vendor'},
    101: {'category'},
}


@pytest.fixture(scope='module')
def api():
    """An API with nodes."""
    with environment.environment(nodes=True) as made:
        yield made


def added(steps, minor):
    """The keys of all steps up to a version."""
    return {key for step, keys in steps.items() if step <= minor
            for key in keys}


def get(api, path, minor):
    """Read something at a version."""
    answer = wsgi.call(api.app, 'GET', f'/v1/{path}', b'',
                       {'OpenStack-API-Version': f'baremetal 1.{minor}'})
    assert answer.status == 200, answer.body
    assert answer.headers['x-openstack-ironic-api-version'] == f'1.{minor}'
    return answer.json()


@pytest.mark.parametrize('minor', range(mv.MIN, mv.MAX + 1))
def test_nodes(api, minor):
    alone = get(api, f'nodes/{nodes.ACTIVE}', minor)
    listed = {node['uuid']: node for node in get(
        api, 'nodes/detail', minor)['nodes']}[nodes.ACTIVE]
    assert set(alone) == ALWAYS | added(ADDED, minor)
    assert listed == alone
    brief = get(api, 'nodes', minor)['nodes'][0]
    assert set(brief) == {
        'uuid', 'instance_uuid', 'maintenance', 'power_state',
        'provision_state', 'links'} | ({'name'} if minor >= 5 else set())


@pytest.mark.parametrize('minor', range(mv.MIN, mv.MAX + 1))
def test_ports(api, minor):
    alone = get(api, f'ports/{nodes.PORT}', minor)
    assert set(alone) == PORT_ALWAYS | added(PORT_ADDED, minor)
    assert get(api, 'ports/detail', minor)['ports'][0] == alone


@pytest.mark.parametrize('minor', range(mv.MIN, mv.MAX + 1))
def test_all_fields_can_be_selected(api, minor):
    if minor < mv.FIELDS:
        return
    fields = ','.join(ALWAYS | added(ADDED, minor))
    alone = get(api, f'nodes/{nodes.WAITING}', minor)
    assert get(api, f'nodes/{nodes.WAITING}?fields={fields}',
               minor) == alone
    listed = {node['uuid']: node for node in get(
        api, f'nodes?fields={fields}', minor)['nodes']}[nodes.WAITING]
    assert listed == alone
