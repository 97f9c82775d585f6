# SPDX-License-Identifier: Apache-2.0
"""Group [http_basic]: callers known by name and password."""

from oslo_config import cfg

GROUP = 'http_basic'
OPTS = [
    cfg.StrOpt(
        'user_file', default='/etc/stillframe/htpasswd',
        help='File of users in the format of Apache htpasswd with bcrypt '
             '("htpasswd -nbB name password"). Readable by the service '
             'alone.'),
    cfg.ListOpt(
        'admin_users', default=['admin'],
        help='Names of users with the role admin. The others are members '
             'of the project in their own name.'),
]


def register(conf: cfg.ConfigOpts) -> None:
    """Register the options."""
    conf.register_opts(OPTS, group=GROUP)
