# SPDX-License-Identifier: Apache-2.0
"""Who may freeze, thaw and reset servers."""

from oslo_policy import policy

from stillframe.policies import base

QUIESCE = 'os_compute_api:os-quiesce:quiesce'
UNQUIESCE = 'os_compute_api:os-quiesce:unquiesce'
RESET_STATE = 'os_compute_api:os-admin-actions:reset_state'

_PATH = '/servers/{server_id}/action'

RULES = [
    policy.DocumentedRuleDefault(
        QUIESCE, base.SERVICE_OR_ADMIN,
        'Freeze the file systems of a server. Every program in the guest '
        'that writes stands still until the thaw.',
        [{'method': 'POST', 'path': f'{_PATH} (quiesce)'}],
        scope_types=['project']),
    policy.DocumentedRuleDefault(
        UNQUIESCE, base.SERVICE_OR_ADMIN,
        'Thaw the file systems of a server.',
        [{'method': 'POST', 'path': f'{_PATH} (unquiesce)'}],
        scope_types=['project']),
    policy.DocumentedRuleDefault(
        RESET_STATE, base.SERVICE_OR_ADMIN,
        'Reset the state of a server; thaws its guest when it may be '
        'frozen.',
        [{'method': 'POST', 'path': f'{_PATH} (os-resetState)'}],
        scope_types=['project']),
]
