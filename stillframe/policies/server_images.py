# SPDX-License-Identifier: Apache-2.0
"""Who may make images of servers."""

from oslo_policy import policy

from stillframe.policies import base

CREATE = 'os_compute_api:servers:create_image'

RULES = [
    policy.DocumentedRuleDefault(
        CREATE, base.PROJECT_MEMBER_OR_ADMIN,
        'Make an image of a server. Its guest is frozen for an instant, if '
        'it can be.',
        [{'method': 'POST',
          'path': '/servers/{server_id}/action (createImage)'}],
        scope_types=['project']),
]
