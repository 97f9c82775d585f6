# SPDX-License-Identifier: Apache-2.0
"""Group [drivers]: which hardware types and interfaces nodes may have.

The same in each conductor of a conductor group, and in the API, which
checks new nodes by it.
"""

from oslo_config import cfg

GROUP = 'drivers'
#: The kinds of interfaces; each has two options.
KINDS = ('power', 'management', 'boot', 'snapshot')

OPTS: list[cfg.Opt] = [
    cfg.ListOpt(
        'enabled_hardware_types', default=['redfish'],
        help='Names of hardware types that nodes may have, such as redfish '
             'and fake-hardware. The latter is for trying out: it switches '
             'nothing, and its images are made up.'),
]
for _kind in KINDS:
    OPTS += [
        cfg.ListOpt(
            f'enabled_{_kind}_interfaces', default=[],
            help=f'Names of {_kind} interfaces that nodes may have. Empty: '
                 'all that the enabled hardware types can use. A service '
                 'does not start when this leaves a hardware type without '
                 'any.'),
        cfg.StrOpt(
            f'default_{_kind}_interface',
            help=f'The {_kind} interface of nodes that name none, where '
                 'their hardware type can use it. Without it, the first '
                 'that is enabled in the order of the hardware type.'),
    ]


def register(conf: cfg.ConfigOpts) -> None:
    """Register the options."""
    conf.register_opts(OPTS, group=GROUP)
