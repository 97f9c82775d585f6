# SPDX-License-Identifier: Apache-2.0
"""Group [agent]: talking with the agent in a ramdisk.

Read by the conductor, which gives it commands; require_tls and
callback_networks by the API, which hears it.
"""

from oslo_config import cfg

GROUP = 'agent'
OPTS = [
    cfg.BoolOpt(
        'require_tls', default=True,
        help='Refuse an agent that does not speak TLS. Without it the token '
             'of the agent, and the credential for the image, cross the '
             'network in the clear.'),
    cfg.ListOpt(
        'callback_networks', default=[],
        help='Networks (192.0.2.0/24, 2001:db8::/64) in which the addresses '
             'of agents are: a heartbeat that names any other is refused. '
             'The conductor sends commands to where a heartbeat says, and '
             'whoever is first to look a node up that boots its ramdisk '
             'can say anything. Empty: any but link-local, multicast and '
             'unspecified addresses.'),
    cfg.FloatOpt(
        'connect_timeout', default=10.0, min=0.1,
        help='Seconds for the agent to accept a connection.'),
    cfg.FloatOpt(
        'command_timeout', default=60.0, min=0.1,
        help='Seconds for a whole answer of the agent, from the request to '
             'the last byte. Long work does not keep it from answering.'),
    cfg.IntOpt(
        'attempts', default=3, min=1,
        help='How often the agent is asked when it does not answer. Work '
             'is never started twice: before it is ordered again, the '
             'agent is asked whether it has begun.'),
    cfg.FloatOpt(
        'retry_wait', default=2.0, min=0.0,
        help='Seconds between two attempts.'),
]


def register(conf: cfg.ConfigOpts) -> None:
    """Register the options."""
    conf.register_opts(OPTS, group=GROUP)
