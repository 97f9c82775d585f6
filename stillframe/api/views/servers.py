# SPDX-License-Identifier: Apache-2.0
"""Servers on the wire.

A server has the keys that Nova's has at the same microversion and no more:
clients and test suites refuse unknown ones.
"""

from collections.abc import Mapping
import dataclasses
import hashlib
from typing import Any

from stillframe.api import links as api_links
from stillframe.api import microversions as mv
from stillframe.api.views import flavors
from stillframe.api.views import times
from stillframe.db import servers as db
from stillframe.states import servers as states

_WITH_FAULT = frozenset((states.ERROR, states.DELETED))

#: The zone in which every server is; Nova's default.
ZONE = 'nova'


@dataclasses.dataclass(frozen=True)
class View:
    """How one caller sees servers at one microversion.

    :ivar attributes: whether the caller sees hosts and such.
    :ivar host_status: host → word; None where the caller may not know.
    """

    links: api_links.Links
    minor: int
    attributes: bool = False
    host_status: Mapping[str, str] | None = None

    def brief(self, row: Mapping[Any, Any]) -> dict[str, Any]:
        """Write a server as GET /servers lists it."""
        return {'id': row['uuid'], 'name': row['name'],
                'links': self.links.of('servers', row['uuid'])}

    def detailed(self, row: Mapping[Any, Any], page: db.Page,
                 alone: bool = False) -> dict[str, Any]:
        """Write a server with all that it shows.

        :param page: has its volumes and its fault.
        :param alone: shown by GET /servers/{id}, not in a list.
        """
        uuid = row['uuid']
        vm_state = row['vm_state']
        volumes = page.volumes.get(uuid, [])
        document = {
            'id': uuid,
            'name': row['name'],
            'status': states.status(vm_state),
            'tenant_id': row['project_id'],
            'user_id': row['user_id'],
            'metadata': {},
            'hostId': host_id(row['project_id'], row['host']),
            'image': self._image(row['image_id']),
            'flavor': self._flavor(row['flavor']),
            'created': times.zulu(row['created_at']),
            'updated': times.zulu(row['updated_at']),
            'addresses': {},
            'accessIPv4': '',
            'accessIPv6': '',
            'links': self.links.of('servers', uuid),
            'OS-DCF:diskConfig': 'MANUAL',
            'config_drive': '',
            'key_name': None,
            'OS-EXT-AZ:availability_zone': ZONE,
            'OS-EXT-STS:task_state': row['task_state'],
            'OS-EXT-STS:vm_state': vm_state,
            'OS-EXT-STS:power_state': row['power_state'],
            'OS-SRV-USG:launched_at': times.bare(row['launched_at']),
            'OS-SRV-USG:terminated_at': times.bare(row['deleted_at']),
            'os-extended-volumes:volumes_attached': [
                self._volume(volume) for volume in volumes],
        }
        if vm_state == states.ACTIVE:
            document['progress'] = 0
        elif vm_state in _WITH_FAULT:
            fault = page.faults.get(uuid)
            if fault is not None:
                document['fault'] = self._fault(fault)
        if self.attributes:
            self._add_attributes(document, row, volumes)
        self._add_by_version(document, row, alone)
        return document

    def _image(self, image_id: str | None) -> Any:
        if not image_id:
            return ''
        return {'id': image_id,
                'links': self.links.bookmark('images', image_id)}

    def _flavor(self, flavor: Mapping[Any, Any]) -> dict[str, Any]:
        if self.minor >= mv.FLAVOR_EMBEDDED:
            return flavors.embedded(flavor)
        flavor_id = flavors.identity(flavor)
        return {'id': flavor_id,
                'links': self.links.bookmark('flavors', flavor_id)}

    def _volume(self, volume: Mapping[Any, Any]) -> dict[str, Any]:
        document = {'id': volume['volume_id']}
        if self.minor >= mv.EXTENDED_ATTRIBUTES:
            document['delete_on_termination'] = False
        return document

    def _fault(self, fault: Mapping[Any, Any]) -> dict[str, Any]:
        document = {'code': fault['code'],
                    'created': times.zulu(fault['created_at']),
                    'message': fault['message']}
        if fault['details'] and (self.attributes or fault['code'] != 500):
            document['details'] = fault['details']
        return document

    def _add_attributes(self, document: dict[str, Any],
                        row: Mapping[Any, Any], volumes: list) -> None:
        prefix = 'OS-EXT-SRV-ATTR:'
        document[prefix + 'host'] = row['host']
        document[prefix + 'hypervisor_hostname'] = row['host']
        document[prefix + 'instance_name'] = row['domain_name']
        if self.minor >= mv.EXTENDED_ATTRIBUTES:
            document[prefix + 'hostname'] = row['name']
            document[prefix + 'reservation_id'] = None
            document[prefix + 'launch_index'] = 0
            document[prefix + 'kernel_id'] = ''
            document[prefix + 'ramdisk_id'] = ''
            document[prefix + 'root_device_name'] = (
                volumes[0]['device'] if volumes else None)
            document[prefix + 'user_data'] = None

    def _add_by_version(self, document: dict[str, Any],
                        row: Mapping[Any, Any], alone: bool) -> None:
        minor = self.minor
        if minor >= mv.LOCKED:
            document['locked'] = False
        if minor >= mv.HOST_STATUS and self.host_status is not None:
            document['host_status'] = self.host_status.get(
                row['host'], 'UNKNOWN')
        if minor >= mv.DESCRIPTION:
            document['description'] = None
        if minor >= mv.TAGS:
            document['tags'] = []
        if minor >= mv.TRUSTED_CERTIFICATES:
            document['trusted_image_certificates'] = None
        if minor >= mv.SERVER_GROUPS and alone:
            document['server_groups'] = []
        if minor >= mv.LOCKED_REASON:
            document['locked_reason'] = None


def host_id(project_id: str, host: str) -> str:
    """Give the word by which a project tells its hosts apart."""
    if not host:
        return ''
    return hashlib.sha224((project_id + host).encode()).hexdigest()
