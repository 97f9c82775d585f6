# SPDX-License-Identifier: Apache-2.0
"""The hardware manager of ironic-python-agent: which disk is the root.

That agent takes the smallest disk, or the first that hints match. Where it
is known what the root disk held when the node was deployed, ours takes the
disk that holds it, if hints do not speak against it. Everything else is
left to the managers below.

The stream does not depend on it: it makes the same check by itself, and
refuses where this one stands aside.
"""

from ironic_python_agent import errors
from ironic_python_agent import hardware
from oslo_log import log

from stillframe.agent import choose
from stillframe.agent import disks
from stillframe.agent import failures
from stillframe.agent import orders

LOG = log.getLogger(__name__)

# An order is what the choice is made by, and has to have one.
_NOWHERE = 'https://nowhere.invalid/'


class StillframeHardwareManager(hardware.HardwareManager):
    """Knows the disk that a node was deployed to."""

    HARDWARE_MANAGER_NAME = 'StillframeHardwareManager'
    HARDWARE_MANAGER_VERSION = '1'

    def evaluate_hardware_support(self) -> int:
        """Come before the manager of that agent."""
        return hardware.HardwareSupport.SERVICE_PROVIDER

    def get_os_install_device(self, permit_refresh: bool = False) -> str:
        """Name the root disk, where it is known what it holds.

        :param permit_refresh: of no use here.
        :return: path of the device.
        :raises IncompatibleHardwareMethodError: it is not known, or no
            disk is the one; the next manager decides.
        """
        node = hardware.get_cached_node() or {}
        known = (node.get('driver_internal_info') or {}).get(
            'root_uuid_or_disk_id')
        if not known:
            raise errors.IncompatibleHardwareMethodError()
        properties = node.get('properties') or {}
        hints = ((node.get('instance_info') or {}).get('root_device')
                 or properties.get('root_device'))
        try:
            chosen = choose.choose(disks.found(), orders.Order(
                url=_NOWHERE, root_device=hints, root_uuid_or_disk_id=known,
                skip_block_devices=tuple(
                    properties.get('skip_block_devices') or ())))
        except failures.AgentError as exc:
            LOG.warning('The disk that node %s was deployed to is not '
                        'found: %s', node.get('uuid'), exc)
            raise errors.IncompatibleHardwareMethodError() from exc
        LOG.info('Node %s was deployed to %s', node.get('uuid'),
                 chosen.disk)
        return chosen.disk.name
