# SPDX-License-Identifier: Apache-2.0
"""Who may have snapshots of volumes made and merged."""

from oslo_policy import policy

from stillframe.policies import base

CREATE = 'os_compute_api:os-assisted-volume-snapshots:create'
DELETE = 'os_compute_api:os-assisted-volume-snapshots:delete'
SHOW = 'os_compute_api:os-assisted-volume-snapshots:show'

_PATH = '/os-assisted-volume-snapshots'

RULES = [
    policy.DocumentedRuleDefault(
        CREATE, base.SERVICE_OR_ADMIN,
        'Switch the disk of a volume to a new file. For Cinder alone.',
        [{'method': 'POST', 'path': _PATH}], scope_types=['project']),
    policy.DocumentedRuleDefault(
        DELETE, base.SERVICE_OR_ADMIN,
        'Merge files of a volume. For Cinder alone.',
        [{'method': 'DELETE', 'path': f'{_PATH}/{{snapshot_id}}'}],
        scope_types=['project']),
    policy.DocumentedRuleDefault(
        SHOW, base.ADMIN,
        'See what became of such requests, with names of files on the '
        'hypervisor.',
        [{'method': 'GET', 'path': f'{_PATH}/{{snapshot_id}}'}],
        scope_types=['project']),
]
