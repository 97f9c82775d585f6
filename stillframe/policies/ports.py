# SPDX-License-Identifier: Apache-2.0
"""Who may do what with the ports of bare-metal nodes."""

from oslo_policy import policy

from stillframe.policies import base

LIST = 'baremetal:port:list'
LIST_ALL = 'baremetal:port:list_all'
GET = 'baremetal:port:get'
CREATE = 'baremetal:port:create'
UPDATE = 'baremetal:port:update'
DELETE = 'baremetal:port:delete'

_PORTS = '/v1/ports'
_PORT = '/v1/ports/{port_id}'

RULES = [
    policy.DocumentedRuleDefault(
        LIST, 'role:reader or rule:service_or_admin',
        'List ports: those of nodes that the project owns or leases.',
        [{'method': 'GET', 'path': _PORTS},
         {'method': 'GET', 'path': '/v1/nodes/{node_ident}/ports'}],
        scope_types=['project']),
    policy.DocumentedRuleDefault(
        LIST_ALL, base.SERVICE_OR_ADMIN, 'List the ports of all nodes.',
        [{'method': 'GET', 'path': _PORTS}], scope_types=['project']),
    policy.DocumentedRuleDefault(
        GET, 'rule:node_reader', 'Show a port.',
        [{'method': 'GET', 'path': _PORT}], scope_types=['project']),
    policy.DocumentedRuleDefault(
        CREATE, base.ADMIN, 'Make a port.',
        [{'method': 'POST', 'path': _PORTS}], scope_types=['project']),
    policy.DocumentedRuleDefault(
        UPDATE, base.ADMIN, 'Change a port.',
        [{'method': 'PATCH', 'path': _PORT}], scope_types=['project']),
    policy.DocumentedRuleDefault(
        DELETE, base.ADMIN, 'Delete a port.',
        [{'method': 'DELETE', 'path': _PORT}], scope_types=['project']),
]
