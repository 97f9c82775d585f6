# SPDX-License-Identifier: Apache-2.0
"""Group [baremetal]: how conductors share nodes and snapshot them."""

from oslo_config import cfg

GROUP = 'baremetal'
OPTS = [
    cfg.StrOpt(
        'conductor_group', default='',
        help='Group of nodes that this conductor looks after: those whose '
             'conductor_group is the same. Empty: nodes without one.'),
    cfg.FloatOpt(
        'ring_interval', default=5.0, min=0.1,
        help='Seconds for which the API and the conductors go by the '
             'conductors they saw alive last, when they choose the one for '
             'a node. Too high, and requests go to a dead one for longer; '
             'each look costs one query.'),
    cfg.IntOpt(
        'workers', default=64, min=2,
        help='Threads of a conductor that work on nodes: each switches one '
             'node, or verifies and uploads one image. More work waits for '
             'its turn.'),
    cfg.IntOpt(
        'heartbeat_workers', default=16, min=1,
        help='Threads of a conductor that follow heartbeats, in which they '
             'ask agents how far they are. More heartbeats wait for their '
             'turn; none is refused.'),
    cfg.StrOpt(
        'agent_api_url', default='',
        help='Address of our API that ramdisks are told to report to '
             '(https://baremetal.example.org), as they reach it. Needed for '
             'snapshots by an agent: without it they are refused.'),
    cfg.DictOpt(
        'kernel_parameters', default={},
        help='Further kernel parameters for ramdisks (name:value,…), such '
             'as console:ttyS0. They are no place for secrets.'),
    cfg.FloatOpt(
        'soft_power_off_timeout', default=300.0, min=1.0,
        help='Seconds that the operating system of a node gets to shut '
             'down before its snapshot. Then its power is cut, and the '
             'image is only as consistent as after a crash. Too low, and '
             'slow servers never give a clean image.'),
    cfg.IntOpt(
        'max_power_timeout', default=3600, min=1, max=86400,
        help='Most seconds that a user may ask for a change of power to '
             'take; more is refused. Each request that waits for a machine '
             'keeps one of the workers of its conductor busy for so long. '
             'Read by the API.'),
    cfg.FloatOpt(
        'boot_timeout', default=1800.0, min=1.0,
        help='Seconds after power-on in which the ramdisk of a node has to '
             'report first; then the snapshot fails. Some servers need a '
             'quarter of an hour to start.'),
    cfg.FloatOpt(
        'silence_timeout', default=900.0, min=1.0,
        help='Seconds without a heartbeat and without a byte after which a '
             'snapshot under way fails. More than two heartbeats: agents '
             'send one at least every 0.6 times heartbeat_timeout.'),
    cfg.FloatOpt(
        'stall_timeout', default=7200.0, min=1.0,
        help='Seconds without a byte after which a snapshot under way fails '
             'although its agent reports. With the transports davfs and '
             'nfs it may take as long as reading the whole disk until the '
             'first byte arrives.'),
    cfg.FloatOpt(
        'heartbeat_timeout', default=300.0, min=1.0,
        help='What agents are told: they report every 0.3 to 0.6 times this '
             'many seconds.'),
    cfg.FloatOpt(
        'watch_interval', default=2.0, min=0.1,
        help='Seconds between two looks of a conductor at the transfers '
             'that run to it: how fresh the progress is that is shown.'),
    cfg.IntOpt(
        'restore_attempts', default=4, min=1,
        help="How often each step is tried by which a node gets its own "
             'boot device and power back after a snapshot. Then the '
             'snapshot ends all the same and says what was not restored.'),
    cfg.FloatOpt(
        'retry_wait', default=2.0, min=0.0,
        help='Seconds before such a step is tried again; doubled each '
             'time.'),
    cfg.FloatOpt(
        'handover_timeout', default=30.0, min=1.0,
        help='Seconds after which work that was handed to this conductor '
             'and did not arrive (a broker lost it) is taken for lost, and '
             'its node is put in order.'),
    cfg.FloatOpt(
        'bandwidth', default=0.0, min=0.0,
        help='MiB a second, at most, that an agent sends; 0: no limit.'),
]


def register(conf: cfg.ConfigOpts) -> None:
    """Register the options."""
    conf.register_opts(OPTS, group=GROUP)
