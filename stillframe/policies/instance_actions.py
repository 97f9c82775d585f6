# SPDX-License-Identifier: Apache-2.0
"""Who may read what was done to a server."""

from oslo_policy import policy

from stillframe.policies import base

LIST = 'os_compute_api:os-instance-actions:list'
SHOW = 'os_compute_api:os-instance-actions:show'
EVENTS = 'os_compute_api:os-instance-actions:events'
DETAILS = 'os_compute_api:os-instance-actions:events:details'

_LIST_PATH = '/servers/{server_id}/os-instance-actions'
_SHOW_PATH = '/servers/{server_id}/os-instance-actions/{request_id}'

RULES = [
    policy.DocumentedRuleDefault(
        LIST, base.PROJECT_READER_OR_ADMIN,
        'List the actions of a server.',
        [{'method': 'GET', 'path': _LIST_PATH}], scope_types=['project']),
    policy.DocumentedRuleDefault(
        SHOW, base.PROJECT_READER_OR_ADMIN,
        'Show an action with its events.',
        [{'method': 'GET', 'path': _SHOW_PATH}], scope_types=['project']),
    policy.DocumentedRuleDefault(
        EVENTS, base.ADMIN,
        "See an event's traceback and host, and events at all before "
        'microversion 2.51.',
        [{'method': 'GET', 'path': _SHOW_PATH}], scope_types=['project']),
    policy.DocumentedRuleDefault(
        DETAILS, base.ADMIN,
        "See an event's details (from microversion 2.84 on).",
        [{'method': 'GET', 'path': _SHOW_PATH}], scope_types=['project']),
]
