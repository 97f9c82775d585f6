# SPDX-License-Identifier: Apache-2.0
"""Which disks an image of a server is made of, and of what they are made.

Formats come from libvirt's configuration of a disk and from the headers of
files that it says are qcow2; they are never taken from the bytes of a file
that a guest may have written.
"""

from collections.abc import Mapping
import dataclasses
import json
import os
import pathlib
from typing import Any
from xml.etree import ElementTree

from stillframe.compute.libvirt import domain_xml
from stillframe.qcow2 import header

# A loop of headers must end somewhere.
_MOST_LAYERS = 200
_DRIVERS = {'file': 'file', 'block': 'host_device'}


class DiskError(Exception):
    """A disk cannot be imaged; the text says why and names no path."""


@dataclasses.dataclass(frozen=True)
class Disk:
    """One disk of a server that has data of its own.

    :ivar target: the target device (``vda``).
    :ivar volume_id: as the inventory names it.
    :ivar kind: ``file``, ``block``, or another of libvirt's disk types.
    :ivar path: of its active file or device; None of other kinds.
    :ivar format: as configured; None where libvirt does not say.
    :ivar root: it is the disk that the server starts from.
    """

    target: str
    volume_id: str
    kind: str
    path: str | None
    format: str | None
    root: bool = False


def find(xml: str) -> list[Disk]:
    """Give the disks of a domain that hold data, the root disk first.

    CD and floppy drives, read-only disks and empty ones are left out.

    :raises BadXML: the XML cannot be read.
    """
    ids = {volume['target']: volume['volume_id']
           for volume in domain_xml.parse(xml).volumes}
    found: list[tuple[int, Disk]] = []
    for element in domain_xml.root(xml).iterfind('devices/disk'):
        disk = _disk(element, ids)
        if disk is not None:
            boot = element.find('boot')
            order = None if boot is None else boot.get('order')
            found.append((int(order) if order else 1 << 30, disk))
    # Without an order libvirt starts from the first one.
    found.sort(key=lambda pair: pair[0])
    return [dataclasses.replace(disk, root=not number)
            for number, (_, disk) in enumerate(found)]


def _disk(element: ElementTree.Element, ids: Mapping[str, str]
          ) -> Disk | None:
    target, source = element.find('target'), element.find('source')
    name = '' if target is None else target.get('dev', '')
    if (element.get('device', 'disk') != 'disk' or source is None
            or name not in ids or element.find('readonly') is not None):
        return None
    driver = element.find('driver')
    kind = element.get('type', '')
    path = source.get({'file': 'file', 'block': 'dev'}.get(kind, ''))
    return Disk(name, ids[name], kind, path,
                None if driver is None else driver.get('type'))


def targets(xml: str) -> list[str]:
    """Give the targets of all that a domain has for disks."""
    return [target.get('dev', '') for target
            in domain_xml.root(xml).iterfind('devices/disk/target')]


def owner(xml: str) -> tuple[int, int] | None:
    """Give the user and group that a running guest's QEMU runs as.

    :return: None where that cannot be told.
    """
    for label in domain_xml.root(xml).iterfind('seclabel[@model="dac"]'):
        # "+64055:+64055": numbers that were given, not names.
        words = (label.findtext('label') or '').split(':')
        if len(words) == 2 and all(
                word.lstrip('+').isdecimal() for word in words):
            user, group = (int(word.lstrip('+')) for word in words)
            return user, group
    # libvirt's daemon of a user gives no labels.
    return _process_owner(domain_xml.parse(xml).uuid)


def _process_owner(server_id: str) -> tuple[int, int] | None:
    """Find the QEMU process of a domain, and as whom it runs."""
    wanted = b'\0-uuid\0' + server_id.encode() + b'\0'
    for line in pathlib.Path('/proc').glob('[0-9]*/cmdline'):
        try:
            if wanted in line.read_bytes():
                found = line.parent.stat()
                return found.st_uid, found.st_gid
        except OSError:
            # It has just ended, or is none of ours.
            continue
    return None


def block_node(disk: Disk) -> dict[str, Any]:
    """Describe a stopped server's disk to QEMU, each format given.

    :return: what ``json:`` or ``--blockdev`` takes.
    :raises DiskError: a format is not known, or the disk is of a kind
        that only a running guest can give.
    """
    if disk.path is None or disk.kind not in _DRIVERS:
        raise DiskError(f'The disk {disk.target} is not in a file of its '
                        'host; start the server to image it.')
    return _node(disk.target, disk.path, disk.format, _DRIVERS[disk.kind], 0)


def _node(target: str, path: str, form: str | None, driver: str,
          depth: int) -> dict[str, Any]:
    if form not in ('raw', 'qcow2'):
        raise DiskError(f'A layer of the disk {target} is of the format '
                        f'{form}; only raw and qcow2 are supported.')
    if depth == _MOST_LAYERS:
        raise DiskError(f'The disk {target} has too many layers.')
    node: dict[str, Any] = {
        'driver': form, 'read-only': True,
        'file': {'driver': driver, 'filename': path, 'read-only': True}}
    if form == 'qcow2':
        node['backing'] = _below(target, path, depth)
    return node


def _below(target: str, path: str, depth: int) -> dict[str, Any] | None:
    """Describe what lies below a qcow2 file, by what its header says."""
    try:
        found = header.read(path)
    except (header.BadHeader, OSError) as exc:
        raise DiskError(f'A layer of the disk {target} is no readable '
                        'qcow2 file.') from exc
    if found.data_file or found.encrypted or found.corrupt:
        raise DiskError(f'A layer of the disk {target} is encrypted, '
                        'damaged, or keeps its data in another file.')
    name = found.backing_file
    if name is None:
        return None
    if ':' in name:
        # QEMU takes what is before a colon for a protocol.
        raise DiskError(f'A layer of the disk {target} is not a file.')
    return _node(target, os.path.join(os.path.dirname(path), name),
                 found.backing_format, 'file', depth + 1)


def as_name(node: Mapping[str, Any]) -> str:
    """Write a node as the name of a file that QEMU's tools take."""
    return 'json:' + json.dumps(node)
