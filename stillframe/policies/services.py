# SPDX-License-Identifier: Apache-2.0
"""Who may read which processes are alive."""

from oslo_policy import policy

from stillframe.policies import base

LIST = 'os_compute_api:os-services:list'

RULES = [
    policy.DocumentedRuleDefault(
        LIST, base.ADMIN,
        'List the services, their hosts and whether they are up.',
        [{'method': 'GET', 'path': '/os-services'}],
        scope_types=['project']),
]
