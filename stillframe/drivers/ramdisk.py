# SPDX-License-Identifier: Apache-2.0
"""What a ramdisk is told on its kernel's command line.

The conductor gives it to the boot interface, and the API puts the same into
the script of a network boot. Anybody on the network may read it.
"""

from oslo_config import cfg

from stillframe.drivers import errors
from stillframe.drivers.base import Node


def parameters(conf: cfg.ConfigOpts, node: Node) -> dict[str, str]:
    """Give the kernel parameters of a node's ramdisk.

    :raises NowhereToReport: see there.
    """
    url = conf.baremetal.agent_api_url.rstrip('/')
    if not url:
        raise errors.NowhereToReport(node=node['uuid'])
    return {**conf.baremetal.kernel_parameters, 'ipa-api-url': url}
