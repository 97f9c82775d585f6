# SPDX-License-Identifier: Apache-2.0
"""The hardware types that come with Stillframe."""

from collections.abc import Mapping

from stillframe.drivers import base


class FakeHardware(base.HardwareType):
    """A machine that is only said to be there, for trying out."""

    @property
    def supported(self) -> Mapping[str, tuple[str, ...]]:
        """See the base class."""
        return {'power': ('fake',), 'management': ('fake',),
                'boot': ('fake', 'ipxe'),
                'snapshot': ('fake', 'agent', 'no-snapshot')}


class RedfishHardware(base.HardwareType):
    """A machine whose BMC talks Redfish."""

    @property
    def supported(self) -> Mapping[str, tuple[str, ...]]:
        """See the base class."""
        return {'power': ('redfish',), 'management': ('redfish',),
                'boot': ('redfish-virtual-media', 'ipxe'),
                'snapshot': ('agent', 'no-snapshot')}
