# SPDX-License-Identifier: Apache-2.0
"""Group [redfish]: talking to BMCs. Read by the conductor."""

from oslo_config import cfg

GROUP = 'redfish'
OPTS = [
    cfg.FloatOpt(
        'connect_timeout', default=10.0, min=0.1,
        help='Seconds for a BMC to accept a connection.'),
    cfg.FloatOpt(
        'request_timeout', default=60.0, min=0.1,
        help='Seconds for a whole answer of a BMC, from the request to the '
             'last byte; also for a virtual drive to show the medium that it '
             'was given. A slow BMC that loads a boot medium before it '
             'answers needs more.'),
    cfg.IntOpt(
        'attempts', default=3, min=1,
        help='How often a request is sent that a BMC does not answer. One '
             'that hangs holds a worker for attempts × request_timeout.'),
    cfg.FloatOpt(
        'retry_wait', default=2.0, min=0.0,
        help='Seconds between two attempts.'),
    cfg.FloatOpt(
        'power_timeout', default=120.0, min=1.0,
        help='Seconds for a machine to be on or off after it was told to, '
             'where whoever asks gives no time of its own.'),
    cfg.FloatOpt(
        'power_poll_interval', default=2.0, min=0.05,
        help='Seconds between two questions whether it is.'),
    cfg.IntOpt(
        'max_sessions', default=100, min=1,
        help='Sessions with BMCs that are kept open. With fewer than there '
             'are machines worked on at a time, sessions are opened and '
             'closed more often. Many BMCs allow only a few at a time, of '
             'all clients together.'),
    cfg.FloatOpt(
        'session_age', default=600.0, min=1.0,
        help='Seconds after which a session is not used again but closed. '
             'Less than what BMCs keep an idle session for.'),
]


def register(conf: cfg.ConfigOpts) -> None:
    """Register the options."""
    conf.register_opts(OPTS, group=GROUP)
