# SPDX-License-Identifier: Apache-2.0
"""Who may do what with bare-metal nodes.

The names are Ironic's. Whoever may not get a node is answered 404 to every
request about it.
"""

from oslo_policy import policy

from stillframe.policies import base

LIST = 'baremetal:node:list'
LIST_ALL = 'baremetal:node:list_all'
GET = 'baremetal:node:get'
HARDWARE = 'baremetal:node:get:driver_info'
CREATE = 'baremetal:node:create'
UPDATE = 'baremetal:node:update'
UPDATE_HARDWARE = 'baremetal:node:update:driver_info'
DELETE = 'baremetal:node:delete'
VALIDATE = 'baremetal:node:validate'
STATES = 'baremetal:node:get_states'
PROVISION = 'baremetal:node:set_provision_state'
SNAPSHOT = 'baremetal:node:set_provision_state:snapshot'
POWER = 'baremetal:node:set_power_state'
SET_MAINTENANCE = 'baremetal:node:set_maintenance'
CLEAR_MAINTENANCE = 'baremetal:node:clear_maintenance'
GET_BOOT_DEVICE = 'baremetal:node:get_boot_device'
SET_BOOT_DEVICE = 'baremetal:node:set_boot_device'
HISTORY = 'baremetal:node:history:get'

_NODES = '/v1/nodes'
_NODE = '/v1/nodes/{node_ident}'


def _rule(name: str, check: str, description: str, method: str,
          path: str = _NODE) -> policy.DocumentedRuleDefault:
    return policy.DocumentedRuleDefault(
        name, check, description, [{'method': method, 'path': path}],
        scope_types=['project'])


RULES = [
    policy.RuleDefault(
        'node_reader',
        'rule:service_or_admin or (role:reader and '
        '(project_id:%(owner)s or project_id:%(lessee)s))',
        description='Readers of the project that owns or leases the node, '
                    'services and administrators.',
        scope_types=['project']),
    policy.RuleDefault(
        'node_member',
        'rule:service_or_admin or (role:member and '
        'project_id:%(owner)s) or (role:manager and '
        'project_id:%(lessee)s)',
        description='Members of the project that owns the node, managers '
                    'of the one that leases it, services and '
                    'administrators.',
        scope_types=['project']),
    policy.RuleDefault(
        'node_owner_reader',
        'rule:service_or_admin or (role:reader and '
        'project_id:%(owner)s)',
        description='Readers of the project that owns the node, services '
                    'and administrators.',
        scope_types=['project']),
    _rule(LIST, 'role:reader or rule:service_or_admin',
          'List nodes: those that the project owns or leases.', 'GET',
          _NODES),
    _rule(LIST_ALL, base.SERVICE_OR_ADMIN, 'List the nodes of all.', 'GET',
          _NODES),
    _rule(GET, 'rule:node_reader', 'Show a node.', 'GET'),
    _rule(HARDWARE, 'rule:node_owner_reader',
          "See a node's driver_info, driver_internal_info, last_error and "
          'reservation.', 'GET'),
    _rule(CREATE, base.ADMIN, 'Make a node.', 'POST', _NODES),
    _rule(UPDATE, 'rule:node_member',
          "Change a node's name, description, extra, instance_info and "
          'instance_uuid.', 'PATCH'),
    _rule(UPDATE_HARDWARE, base.ADMIN,
          'Change anything else of a node, such as its driver_info and '
          'whose it is.', 'PATCH'),
    _rule(DELETE, base.ADMIN, 'Delete a node.', 'DELETE'),
    _rule(VALIDATE, 'rule:node_member',
          "Have a node's interfaces checked.", 'GET', f'{_NODE}/validate'),
    _rule(STATES, 'rule:node_reader', 'Show the states of a node.', 'GET',
          f'{_NODE}/states'),
    _rule(PROVISION, 'rule:node_member', 'Move a node.', 'PUT',
          f'{_NODE}/states/provision'),
    _rule(SNAPSHOT, 'rule:node_member',
          'Have the disk of a node sent to an image. Whoever may do that '
          'reads all that is on the disk.', 'PUT',
          f'{_NODE}/states/provision'),
    _rule(POWER, 'rule:node_member', 'Switch a node on and off.', 'PUT',
          f'{_NODE}/states/power'),
    _rule(SET_MAINTENANCE, 'rule:node_member',
          'Put a node into maintenance.', 'PUT', f'{_NODE}/maintenance'),
    _rule(CLEAR_MAINTENANCE, 'rule:node_member',
          'Take a node out of maintenance.', 'DELETE',
          f'{_NODE}/maintenance'),
    _rule(GET_BOOT_DEVICE, 'rule:node_reader',
          'Ask what a node boots from.', 'GET',
          f'{_NODE}/management/boot_device'),
    _rule(SET_BOOT_DEVICE, 'rule:node_member',
          'Choose what a node boots from.', 'PUT',
          f'{_NODE}/management/boot_device'),
    _rule(HISTORY, 'rule:node_reader',
          'See the snapshots of a node, and how far one is. Who may not '
          'get:driver_info sees those of the own project alone.', 'GET',
          f'{_NODE}/history'),
]
