# SPDX-License-Identifier: Apache-2.0
"""Group [quiesce]: how long a guest may stay frozen.

Read by the API, which checks requests, and by the compute worker, which
takes its own ceiling even from a caller that it trusts.
"""

from oslo_config import cfg

GROUP = 'quiesce'
OPTS = [
    cfg.FloatOpt(
        'default_timeout', default=60.0, min=1.0,
        help='Seconds after which a frozen guest is thawed by itself when '
             'the request names no timeout. Too low, and snapshots of slow '
             'storage are cut off; too high, and a lost client is an outage '
             'of that length for the guest.'),
    cfg.FloatOpt(
        'max_timeout', default=600.0, min=1.0,
        help='The longest timeout in seconds that a request may name; more '
             'is refused with 400. Linux guests log hung tasks from 120 s '
             'on. There is no value for "for ever".'),
]


def register(conf: cfg.ConfigOpts) -> None:
    """Register the options."""
    conf.register_opts(OPTS, group=GROUP)
