# SPDX-License-Identifier: Apache-2.0
"""The network cards of this machine, read from sysfs."""

import ipaddress
import pathlib
import re

SYSFS = pathlib.Path('/sys/class/net')
_MAC = re.compile(r'[0-9a-f]{2}(:[0-9a-f]{2}){5}')
_NO_MAC = '00:00:00:00:00:00'
_ETHERNET = '1'


def _attribute(card: pathlib.Path, name: str) -> str:
    try:
        return (card / name).read_text().strip()
    except OSError:
        # A card may go while it is looked at, and one that is down has no
        # carrier to read.
        return ''


def cards(sysfs: pathlib.Path = SYSFS) -> list[dict[str, object]]:
    """Find the network cards that a node may be known by.

    :return: of each ``name``, ``mac_address`` and ``has_carrier``, by name.
        Where a machine has real cards these alone; a machine without any
        (a test's namespace) shows those that it has.
    """
    real: list[dict[str, object]] = []
    others: list[dict[str, object]] = []
    for card in sorted(sysfs.glob('*')):
        mac = _attribute(card, 'address').lower()
        if (_attribute(card, 'type') != _ETHERNET or mac == _NO_MAC
                or not _MAC.fullmatch(mac)):
            continue
        found = {'name': card.name, 'mac_address': mac,
                 'has_carrier': _attribute(card, 'carrier') == '1'}
        bond = (card / 'bonding').exists()
        (real if (card / 'device').exists() or bond else others).append(
            found)
    return real or others


def macs(sysfs: pathlib.Path = SYSFS) -> list[str]:
    """Give the hardware addresses that a node may be known by."""
    return [str(card['mac_address']) for card in cards(sysfs)]


def is_usable(address: str) -> bool:
    """Say whether others can call an address.

    :param address: IPv4, IPv6 or a name.
    """
    try:
        parsed = ipaddress.ip_address(address.partition('%')[0])
    except ValueError:
        return bool(address)
    return not (parsed.is_link_local or parsed.is_unspecified)


def in_url(address: str) -> str:
    """Write an address as a URL has it."""
    return f'[{address}]' if ':' in address else address
