# SPDX-License-Identifier: Apache-2.0
"""GET /boot/ipxe/{mac}: what a machine boots over the network.

Machines load it while they start, so nobody has to be known for it. A
machine that is to boot its disk, and one that nobody knows, get the same.
"""

from typing import Any

from oslo_log import log

from stillframe.api import request
from stillframe.api.controllers import base
from stillframe.api.schemas.baremetal import ports as ports_schema
from stillframe.db import node_snapshots
from stillframe.db import nodes as db
from stillframe.drivers import errors
from stillframe.drivers import ipxe
from stillframe.drivers import ramdisk
from stillframe.states import nodes as states

LOG = log.getLogger(__name__)


class BootController:
    """Hands out boot scripts."""

    def __init__(self, services: base.Services):
        self._services = services

    @base.expose
    def script(self, req: request.Request, resp: Any, address: str) -> Any:
        """Give the script for the machine with a MAC address."""
        resp.content_type = 'text/plain'
        resp.charset = 'utf-8'
        resp.text = self._script(address)
        return resp

    def _script(self, address: str) -> str:
        try:
            mac = ports_schema.mac(address)
        except ValueError:
            return ipxe.local_boot()
        node = db.get_by_addresses([mac])
        if node is None or (node['provision_state']
                            not in states.LOOKUP_ALLOWED):
            return ipxe.local_boot()
        snapshot = node_snapshots.get(node['snapshot_id'])
        if (snapshot['outcome'] is not None
                or snapshot['phase'] not in states.RAMDISK_PHASES):
            return ipxe.local_boot()
        try:
            if self._services.drivers.build(node).names['boot'] != 'ipxe':
                return ipxe.local_boot()
            return ipxe.script(node, ramdisk.parameters(
                self._services.conf, node))
        except errors.DriverError as exc:
            # The conductor has checked the same, perhaps with another
            # configuration; a machine has no use for an error.
            LOG.error('No boot script for a ramdisk: %s', exc)
            return ipxe.local_boot()
