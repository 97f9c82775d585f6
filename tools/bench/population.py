# SPDX-License-Identifier: Apache-2.0
"""Hosts and domains that exist on paper only: many, and always the same."""

import pathlib
from typing import Any
import uuid

from stillframe.compute import inventory
from stillframe.compute import surveyor
from stillframe.compute.libvirt import domain_xml
from stillframe.states import servers as states
from tests.lab import domain_xml as lab_xml
from tests.lab import guest_image
from tools.bench import stack

SERVERS = 10_000

_SPACE = uuid.UUID('5f1b35b8-0b7c-4b8c-9a52-6a9f5d1e0c11')
_USER = '1' * 32
_IMAGE = guest_image.GuestImage(pathlib.Path('/boot/kernel'),
                                pathlib.Path('/boot/initramfs'))


def host_name(number: int) -> str:
    """Give the name of a host."""
    return f'host-{number:03d}'


def server_id(host: int, number: int) -> str:
    """Give the UUID of a host's server."""
    return str(uuid.uuid5(_SPACE, f'{host}/{number}'))


def _domain(host: int, number: int) -> str:
    """Write a domain as Nova would have made it, with two volumes."""
    one = server_id(host, number)
    disks = tuple(
        lab_xml.Disk(target, pathlib.Path(f'/var/lib/disks/{one}.{target}'),
                     'qcow2', str(uuid.uuid5(_SPACE, one + target)))
        for target in ('vda', 'vdb'))
    hardware = lab_xml.Hardware(
        image=_IMAGE, disks=disks, serial_log=pathlib.Path('/dev/null'),
        control=pathlib.Path('/run/control'))
    return lab_xml.domain_xml(
        f'instance-{host:04x}{number:04x}', one, hardware,
        lab_xml.nova_metadata(f'server-{host}-{number}', stack.PROJECT,
                              _USER))


class Host:
    """What the surveyor asks of a host, without a libvirt behind it."""

    def __init__(self, number: int, servers: int):
        self._domains = [_domain(number, one) for one in range(servers)]

    def servers(self) -> list[tuple[domain_xml.Facts, int]]:
        """Give the facts and the power state of every domain."""
        return [(domain_xml.parse(text), states.POWER_RUNNING)
                for text in self._domains]

    def capabilities(self) -> dict[str, Any]:
        """Describe the hypervisor, for reports."""
        return {'driver': 'QEMU', 'libvirt': '9.0.0', 'hypervisor': '7.2.0',
                'connected': True, 'missing': []}


def surveyed(conf: Any, host: Host
             ) -> tuple[surveyor.Surveyor, inventory.Inventory]:
    """Give the surveyor of a host, and the inventory that it filled."""
    kept = inventory.Inventory()
    looks = surveyor.Surveyor(conf, host, kept)  # type: ignore[arg-type]
    looks.full_pass()
    return looks, kept
