# SPDX-License-Identifier: Apache-2.0
"""What a domain's XML says about a server: a pure function.

The XML comes from libvirt, but parts of it were written by others (the
metadata by whatever created the domain), so nothing in it is trusted: no
document type, no entities, lengths are capped, and metadata that cannot be
read costs the metadata, not the server.
"""

import dataclasses
import datetime
from typing import Any
import uuid
from xml.etree import ElementTree

from stillframe.compute.libvirt import lease
from stillframe.rpc import payloads

AGENT_CHANNEL = 'org.qemu.guest_agent.0'

_NOVA = '{http://openstack.org/xmlns/libvirt/nova/1.1}'
_LONGEST_TEXT = 255
# libvirt itself sends up to 4 MiB; nobody's honest metadata is this long.
_LONGEST_XML = 512 * 1024
_MOST_DISKS = 256


class BadXML(ValueError):
    """The XML of a domain is not what libvirt would give."""


@dataclasses.dataclass(frozen=True)
class Facts:
    """What is known of a domain by its XML.

    :ivar agent_state: ``absent`` (no channel), ``disconnected`` or
        ``connected``.
    :ivar name: the display name; the domain's own without Nova's metadata.
    :ivar project_id, user_id, image_id, launched_at: None without it.
    :ivar leased: it carries the lease of a freeze.
    """

    uuid: str
    domain_name: str
    agent_state: str
    volumes: list[payloads.Volume]
    flavor: dict[str, Any]
    name: str
    project_id: str | None = None
    user_id: str | None = None
    image_id: str | None = None
    launched_at: str | None = None
    leased: bool = False


def parse(text: str) -> Facts:
    """Read a domain's XML.

    :raises BadXML: the parts that libvirt writes are not there.
    """
    root, nova = _root(text)
    domain_uuid = _uuid(root.findtext('uuid'))
    name = root.findtext('name')
    if root.tag != 'domain' or domain_uuid is None or not name:
        raise BadXML('not the XML of a domain')
    facts = Facts(
        uuid=domain_uuid, domain_name=_cap(name), name=_cap(name),
        agent_state=_agent_state(root),
        volumes=_volumes(root, uuid.UUID(domain_uuid)),
        flavor=_own_flavor(root),
        leased=root.find(f'metadata/{{{lease.URI}}}lease') is not None)
    return facts if nova is None else _with_nova(facts, nova)


def root(text: str) -> ElementTree.Element:
    """Give the element of a domain, for what :func:`parse` leaves out.

    :raises BadXML: it cannot be read.
    """
    return _root(text)[0]


def _root(text: str) -> tuple[ElementTree.Element,
                              ElementTree.Element | None]:
    """Parse; give the domain and Nova's metadata, if that is readable."""
    if len(text) <= _LONGEST_XML:
        try:
            root = _parse(text)
        except BadXML:
            pass
        else:
            return root, root.find(f'metadata/{_NOVA}instance')
    # Metadata may hold what libvirt lets through and we do not. Before it
    # come only escaped texts, so the first tag of this name is the one.
    start = text.find('<metadata')
    end = text.rfind('</metadata>')
    if start < 0 or end < start:
        raise BadXML('not readable')
    return _parse(text[:start] + text[end + len('</metadata>'):]), None


def _parse(text: str) -> ElementTree.Element:
    """Parse XML that has no document type, and so no entities.

    Expat builds no entity that was not declared, and without a document
    type none can be.
    """
    if '<!DOCTYPE' in text:
        raise BadXML('a document type is not allowed')
    parser = ElementTree.XMLParser()  # noqa: S314
    try:
        parser.feed(text)
        return parser.close()
    except (ElementTree.ParseError, ValueError) as exc:
        raise BadXML(str(exc)) from exc


def _cap(text: str) -> str:
    """Cap a text's length, and drop what has no place in a name."""
    return ''.join(letter for letter in text[:_LONGEST_TEXT]
                   if letter.isprintable()).strip()


def _uuid(text: str | None) -> str | None:
    """Give a UUID in its usual form; None for anything else."""
    try:
        return str(uuid.UUID((text or '').strip()))
    except ValueError:
        return None


def _number(text: str | None) -> int:
    """Give a small natural number; 0 for anything else."""
    text = (text or '').strip()
    if text.isascii() and text.isdigit() and len(text) <= 9:
        return int(text)
    return 0


def _agent_state(root: ElementTree.Element) -> str:
    for target in root.iterfind('devices/channel/target'):
        if target.get('name') == AGENT_CHANNEL:
            if target.get('state') == 'connected':
                return 'connected'
            return 'disconnected'
    return 'absent'


def _volumes(root: ElementTree.Element, domain: uuid.UUID
             ) -> list[payloads.Volume]:
    volumes: list[payloads.Volume] = []
    for disk in root.iterfind('devices/disk'):
        target = disk.find('target')
        if (disk.get('device', 'disk') not in ('disk', 'lun')
                or target is None or not target.get('dev')):
            continue
        name = _cap(target.get('dev', ''))
        driver = disk.find('driver')
        volumes.append({
            'volume_id': (_uuid(disk.findtext('serial'))
                          or str(uuid.uuid5(domain, name))),
            'target': name,
            'device': f'/dev/{name}',
            'source': _source(disk.find('source')),
            'format': None if driver is None else driver.get('type'),
            'read_only': disk.find('readonly') is not None,
        })
        if len(volumes) == _MOST_DISKS:
            break
    return volumes


def _source(source: ElementTree.Element | None) -> str | None:
    if source is None:
        return None
    for key in ('file', 'dev', 'dir'):
        if source.get(key):
            return source.get(key)
    if source.get('protocol'):
        return f'{source.get("protocol")}:{source.get("name", "")}'
    if source.get('volume'):
        return f'{source.get("pool", "")}/{source.get("volume")}'
    return None


def _own_flavor(root: ElementTree.Element) -> dict[str, Any]:
    """Describe the size of a domain that Nova did not make."""
    units = {'b': 1, 'bytes': 1, 'KB': 1000, 'k': 1024, 'KiB': 1024,
             'MB': 10 ** 6, 'M': 2 ** 20, 'MiB': 2 ** 20, 'GB': 10 ** 9,
             'G': 2 ** 30, 'GiB': 2 ** 30}
    memory = root.find('memory')
    ram = 0
    if memory is not None:
        digits = (memory.text or '').strip()
        if digits.isascii() and digits.isdigit() and len(digits) < 20:
            ram = (int(digits) * units.get(memory.get('unit', 'KiB'), 1024)
                   // 2 ** 20)
    return {'name': 'domain', 'vcpus': _number(root.findtext('vcpu')),
            'ram': ram, 'disk': 0, 'ephemeral': 0, 'swap': 0}


def _with_nova(facts: Facts, nova: ElementTree.Element) -> Facts:
    """Add what Nova wrote about its server."""
    flavor = facts.flavor
    element = nova.find(f'{_NOVA}flavor')
    if element is not None:
        flavor = {
            'name': _cap(element.get('name', '')) or 'unknown',
            'vcpus': _number(element.findtext(f'{_NOVA}vcpus')),
            'ram': _number(element.findtext(f'{_NOVA}memory')),
            'disk': _number(element.findtext(f'{_NOVA}disk')),
            'ephemeral': _number(element.findtext(f'{_NOVA}ephemeral')),
            'swap': _number(element.findtext(f'{_NOVA}swap')),
        }
    image_id = None
    root = nova.find(f'{_NOVA}root')
    if root is not None and root.get('type') == 'image':
        image_id = _uuid(root.get('uuid'))
    return dataclasses.replace(
        facts, flavor=flavor, image_id=image_id,
        name=_cap(nova.findtext(f'{_NOVA}name') or '') or facts.name,
        project_id=_owner(nova, 'project'), user_id=_owner(nova, 'user'),
        launched_at=_creation_time(nova.findtext(f'{_NOVA}creationTime')))


def _owner(nova: ElementTree.Element, kind: str) -> str | None:
    element = nova.find(f'{_NOVA}owner/{_NOVA}{kind}')
    if element is None:
        return None
    # Not always a UUID: Keystone allows ids of 64 characters.
    return _cap(element.get('uuid', ''))[:64] or None


def _creation_time(text: str | None) -> str | None:
    """Turn Nova's local notation into ours; None when it is not that."""
    try:
        moment = datetime.datetime.strptime(
            (text or '').strip(), '%Y-%m-%d %H:%M:%S')
    except ValueError:
        return None
    return moment.isoformat(timespec='microseconds')
