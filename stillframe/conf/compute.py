# SPDX-License-Identifier: Apache-2.0
"""Group [compute]: the worker beside a hypervisor."""

import socket

from oslo_config import cfg

GROUP = 'compute'
OPTS = [
    cfg.StrOpt(
        'host', default=socket.gethostname(), sample_default='localhost',
        help="Name of this worker, unique among all; Nova's [DEFAULT]host "
             'is a good choice. Changing it makes a new worker: its '
             'servers move there, the old one stays listed as down.'),
    cfg.StrOpt(
        'connection_uri', default='qemu:///system',
        help='The libvirt connection. The worker needs the right to change '
             'domains.'),
    cfg.StrOpt(
        'default_project_id', default='0' * 32,
        help='Project to which domains belong that carry no metadata of '
             "Nova's."),
    cfg.StrOpt(
        'default_user_id', default='0' * 32,
        help="User that is shown as owner of domains without Nova's "
             'metadata.'),
    cfg.FloatOpt(
        'freeze_call_timeout', default=30.0, min=1.0,
        help='Seconds that the guest agent gets to answer a freeze or thaw. '
             'Freeze hooks of databases run inside this time. When it is '
             'over, the guest is thawed and the server goes to error. '
             'Whole seconds are used.'),
    cfg.FloatOpt(
        'query_timeout', default=5.0, min=1.0,
        help='Seconds that the guest agent gets to answer a question that '
             'changes nothing. Whole seconds are used.'),
    cfg.FloatOpt(
        'settle_timeout', default=20.0, min=1.0,
        help='Seconds for which a request waits after a failed freeze or '
             'thaw until the guest is verified thawed. After that the '
             'server goes to error, and the thawing goes on behind it.'),
    cfg.FloatOpt(
        'verify_interval', default=5.0, min=0.5,
        help='Seconds between two checks that a quiesced guest is still '
             'frozen. Events of libvirt make a check at once.'),
    cfg.FloatOpt(
        'full_pass_interval', default=60.0, min=5.0,
        help='Seconds between two full passes over all domains; they find '
             'what an event did not tell.'),
    cfg.FloatOpt(
        'report_interval', default=5.0, min=0.5,
        help='Seconds between two reports that this worker is alive.'),
    cfg.FloatOpt(
        'report_timeout', default=15.0, min=1.0,
        help='Seconds that the conductor gets to take a report; after that '
             'it is sent again.'),
    cfg.IntOpt(
        'keepalive_interval', default=5, min=1,
        help='Seconds between keep-alive messages to libvirt. Three '
             'unanswered ones break the connection, which ends calls that '
             'hang.'),
    cfg.IntOpt(
        'threads', default=32, min=2,
        help='Pieces of work on guests at once. One silent guest holds one '
             'of them for up to freeze_call_timeout + settle_timeout.'),
]


def register(conf: cfg.ConfigOpts) -> None:
    """Register the options."""
    conf.register_opts(OPTS, group=GROUP)


def longest_work(conf: cfg.ConfigOpts) -> float:
    """Give the seconds for which one piece of work holds a server.

    From a freeze or thaw to the guest's state being known, with a question
    before and one after.
    """
    compute = conf.compute
    return (compute.freeze_call_timeout + compute.settle_timeout
            + 2 * compute.query_timeout)
