# SPDX-License-Identifier: Apache-2.0
"""Rules that the others refer to."""

from oslo_policy import policy

ADMIN = 'rule:admin'
SERVICE_OR_ADMIN = 'rule:service_or_admin'
PROJECT_READER_OR_ADMIN = 'rule:project_reader_or_admin'
PROJECT_MEMBER_OR_ADMIN = 'rule:project_member_or_admin'

RULES = [
    policy.RuleDefault(
        'admin', 'role:admin',
        description='Whoever administers the cloud.',
        scope_types=['project']),
    policy.RuleDefault(
        'service_or_admin', 'role:service or rule:admin',
        description='Other services and DR software with an account of '
                    'their own, and administrators.',
        scope_types=['project']),
    policy.RuleDefault(
        'project_reader_or_admin',
        'rule:admin or (role:reader and project_id:%(project_id)s)',
        description='Readers of the project that owns the server, and '
                    'administrators.',
        scope_types=['project']),
    policy.RuleDefault(
        'project_member_or_admin',
        'rule:admin or (role:member and project_id:%(project_id)s)',
        description='Members of the project that owns the server, and '
                    'administrators.',
        scope_types=['project']),
]
