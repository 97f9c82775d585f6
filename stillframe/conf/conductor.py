# SPDX-License-Identifier: Apache-2.0
"""Group [conductor]: applying reports, and reaping what got stuck."""

import socket

from oslo_config import cfg

GROUP = 'conductor'
OPTS = [
    cfg.StrOpt(
        'host', default=socket.gethostname(), sample_default='localhost',
        help='Name of this conductor, unique among all.'),
    cfg.FloatOpt(
        'report_interval', default=5.0, min=0.5,
        help='Seconds between two reports that this conductor is alive. At '
             'most a third of [api]service_down_time, or it is listed as '
             'down now and then.'),
    cfg.FloatOpt(
        'transition_timeout', default=180.0, min=5.0,
        help='Seconds after which a request is given up on which a '
             'compute worker does not report: a server that is still '
             'quiescing, unquiescing or being reset is taken to error, and '
             'an image of a server of which there was no sign of life is '
             'removed (its server stays as it is). A conductor that was '
             'started counts what passed before, but leaves workers '
             'another minute to deliver what they kept; as long as the '
             'work of its own [compute] can take, if that is longer; or '
             'this whole time, if that is shorter. More than '
             'freeze_call_timeout and settle_timeout of [compute] together; '
             'too low, and work that still goes on is given up. Where '
             'those two are raised for workers, raise them for conductors, '
             'too.'),
    cfg.FloatOpt(
        'overdue_grace', default=15.0, min=1.0,
        help='Seconds after a deadline for which a worker may report the '
             'end of a freeze; then the server is no longer shown as '
             'quiesced, since the guard on its host has thawed it.'),
    cfg.FloatOpt(
        'reap_interval', default=5.0, min=0.5,
        help='Seconds between two looks for what got stuck.'),
]


def register(conf: cfg.ConfigOpts) -> None:
    """Register the options."""
    conf.register_opts(OPTS, group=GROUP)
