# SPDX-License-Identifier: Apache-2.0
"""Where an agent may say that it listens.

Nobody has to be known for a lookup and a heartbeat, and the conductor sends
commands to the address in the heartbeat. It must not become a way to reach
what only the conductor can reach, such as a cloud's metadata service.
"""

from collections.abc import Iterable
import ipaddress
import re

from stillframe import exceptions

# The end of what the C library takes for an IPv4 address, too: 2130706433,
# 0x7f.1. No name ends like that.
_NUMBER = re.compile(r'(?:^|\.)(?:[0-9]+|0x[0-9a-f]*)\.?$', re.IGNORECASE)


class Callbacks:
    """Judges addresses.

    :param networks: those in which agents are; none: anywhere.
    :raises ConfigError: one of them is no network.
    """

    def __init__(self, networks: Iterable[str]):
        try:
            self._networks = [ipaddress.ip_network(one) for one in networks]
        except ValueError as exc:
            raise exceptions.ConfigError(
                reason=f'[agent]callback_networks: {exc}') from exc

    def may_be(self, host: str) -> bool:
        """Tell whether an agent can be at a host.

        :param host: an address, as agents name it; or a name, which is
            taken only where no networks are configured, since it may come
            to mean anything.
        """
        try:
            address = ipaddress.ip_address(host.partition('%')[0])
        except ValueError:
            return not self._networks and not _NUMBER.search(host)
        if isinstance(address, ipaddress.IPv6Address):
            address = address.ipv4_mapped or address
        if (address.is_link_local or address.is_multicast
                or address.is_unspecified):
            return False
        return not self._networks or any(
            address in one for one in self._networks)
