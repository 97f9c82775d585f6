# SPDX-License-Identifier: Apache-2.0
"""Options of no group: what every process needs."""

from oslo_config import cfg

GROUP = None
OPTS = [
    cfg.StrOpt(
        'state_path', default='/var/lib/stillframe',
        help='Folder for what must outlive a process: the freeze journal '
             'of a compute worker, and the database of the embedded '
             'default. It must be on a local disk that honours fsync. '
             'UNIX sockets are made in it, so its path should be shorter '
             'than 80 characters.'),
]


def register(conf: cfg.ConfigOpts) -> None:
    """Register the options."""
    conf.register_opts(OPTS)
