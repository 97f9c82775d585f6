# SPDX-License-Identifier: Apache-2.0
"""Group [volume_snapshots]: snapshots of volumes on behalf of Cinder."""

from oslo_config import cfg

GROUP = 'volume_snapshots'
OPTS = [
    cfg.FloatOpt(
        'freeze_timeout', default=20.0, min=1.0,
        help='Seconds after which a guest that was frozen for a new '
             'snapshot is thawed whatever happened. Usually it is frozen '
             'for a fraction of a second.'),
    cfg.FloatOpt(
        'merge_timeout', default=7000.0, min=1.0,
        help='Seconds after which a merge is cancelled; the files are then '
             'as before. A little less than the 7200 s for which Cinder '
             'waits.'),
    cfg.IntOpt(
        'merge_bandwidth', default=0, min=0,
        help='Most MiB a second that a merge in a running guest may copy; '
             '0 for no limit. Too low, and large merges run into '
             'merge_timeout.'),
    cfg.FloatOpt(
        'claim_timeout', default=60.0, min=1.0,
        help='Seconds for which a worker tries to reach a conductor before '
             'it drops a request that it has not begun.'),
    cfg.FloatOpt(
        'handover_timeout', default=30.0, min=1.0,
        help='Seconds that a conductor gets to hand a request to its worker, '
             'before Cinder is told that it was not begun. More than '
             '[cinder]timeout. Read by the API.'),
    cfg.FloatOpt(
        'start_timeout', default=120.0, min=1.0,
        help='Seconds after which a request that no worker has taken up is '
             'given up. Read by the conductor.'),
    cfg.FloatOpt(
        'give_up_after', default=10800.0, min=1.0,
        help='Seconds after which a request is given up that a worker took '
             'up and never reported on, so that its volume takes others '
             'again. Longer than merge_timeout. Read by the conductor.'),
]


def register(conf: cfg.ConfigOpts) -> None:
    """Register the options."""
    conf.register_opts(OPTS, group=GROUP)
