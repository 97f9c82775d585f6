# SPDX-License-Identifier: Apache-2.0
"""Who may read which volumes a server has."""

from oslo_policy import policy

from stillframe.policies import base

INDEX = 'os_compute_api:os-volumes-attachments:index'
SHOW = 'os_compute_api:os-volumes-attachments:show'

_PATH = '/servers/{server_id}/os-volume_attachments'

RULES = [
    policy.DocumentedRuleDefault(
        INDEX, base.PROJECT_READER_OR_ADMIN,
        'List the volumes of a server.',
        [{'method': 'GET', 'path': _PATH}], scope_types=['project']),
    policy.DocumentedRuleDefault(
        SHOW, base.PROJECT_READER_OR_ADMIN,
        'Show one volume of a server.',
        [{'method': 'GET', 'path': _PATH + '/{volume_id}'}],
        scope_types=['project']),
]
