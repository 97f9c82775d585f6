# SPDX-License-Identifier: Apache-2.0
"""Who may see which conductors there are."""

from oslo_policy import policy

from stillframe.policies import base

GET = 'baremetal:conductor:get'

RULES = [
    policy.DocumentedRuleDefault(
        GET, base.SERVICE_OR_ADMIN, 'List and show conductors.',
        [{'method': 'GET', 'path': '/v1/conductors'},
         {'method': 'GET', 'path': '/v1/conductors/{hostname}'}],
        scope_types=['project']),
]
