# SPDX-License-Identifier: Apache-2.0
"""Who may see which hardware types there are."""

from oslo_policy import policy

GET = 'baremetal:driver:get'
PROPERTIES = 'baremetal:driver:get_properties'

_ANYBODY = 'role:reader or rule:service_or_admin'

RULES = [
    policy.DocumentedRuleDefault(
        GET, _ANYBODY, 'List and show hardware types.',
        [{'method': 'GET', 'path': '/v1/drivers'},
         {'method': 'GET', 'path': '/v1/drivers/{driver_name}'}],
        scope_types=['project']),
    policy.DocumentedRuleDefault(
        PROPERTIES, _ANYBODY,
        'See what the driver_info of a hardware type has to have.',
        [{'method': 'GET', 'path': '/v1/drivers/{driver_name}/properties'}],
        scope_types=['project']),
]
