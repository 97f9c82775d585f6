# SPDX-License-Identifier: Apache-2.0
"""Who may read servers."""

from oslo_policy import policy

from stillframe.policies import base

INDEX = 'os_compute_api:servers:index'
DETAIL = 'os_compute_api:servers:detail'
SHOW = 'os_compute_api:servers:show'
INDEX_ALL = 'os_compute_api:servers:index:get_all_tenants'
DETAIL_ALL = 'os_compute_api:servers:detail:get_all_tenants'
HOST_STATUS = 'os_compute_api:servers:show:host_status'
ATTRIBUTES = 'os_compute_api:os-extended-server-attributes'
ALL_FILTERS = 'os_compute_api:servers:allow_all_filters'

RULES = [
    policy.DocumentedRuleDefault(
        INDEX, base.PROJECT_READER_OR_ADMIN,
        'List the servers of a project.',
        [{'method': 'GET', 'path': '/servers'}], scope_types=['project']),
    policy.DocumentedRuleDefault(
        DETAIL, base.PROJECT_READER_OR_ADMIN,
        'List the servers of a project with details.',
        [{'method': 'GET', 'path': '/servers/detail'}],
        scope_types=['project']),
    policy.DocumentedRuleDefault(
        INDEX_ALL, base.ADMIN,
        'List the servers of all projects.',
        [{'method': 'GET', 'path': '/servers'}], scope_types=['project']),
    policy.DocumentedRuleDefault(
        DETAIL_ALL, base.ADMIN,
        'List the servers of all projects with details.',
        [{'method': 'GET', 'path': '/servers/detail'}],
        scope_types=['project']),
    policy.DocumentedRuleDefault(
        ALL_FILTERS, base.ADMIN,
        'Filter a list by anything, such as the host, and see deleted '
        'servers.',
        [{'method': 'GET', 'path': '/servers'},
         {'method': 'GET', 'path': '/servers/detail'}],
        scope_types=['project']),
    policy.DocumentedRuleDefault(
        SHOW, base.PROJECT_READER_OR_ADMIN,
        'Show a server. Whoever may not, gets 404 for every request about '
        'the server, as if it did not exist.',
        [{'method': 'GET', 'path': '/servers/{server_id}'}],
        scope_types=['project']),
    policy.DocumentedRuleDefault(
        ATTRIBUTES, base.ADMIN,
        'See the host of a server, and its name on the hypervisor.',
        [{'method': 'GET', 'path': '/servers/{server_id}'},
         {'method': 'GET', 'path': '/servers/detail'}],
        scope_types=['project']),
    policy.DocumentedRuleDefault(
        HOST_STATUS, base.ADMIN,
        "See whether the compute worker of a server's host is up.",
        [{'method': 'GET', 'path': '/servers/{server_id}'},
         {'method': 'GET', 'path': '/servers/detail'}],
        scope_types=['project']),
]
