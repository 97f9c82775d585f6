# SPDX-License-Identifier: Apache-2.0
"""Bodies and queries of /v1/nodes."""

from collections.abc import Mapping
import re
from typing import Any

from stillframe import exceptions
from stillframe.api import baremetal_versions as versions
from stillframe.api import request
from stillframe.api.schemas import query
from stillframe.api.schemas import validation
from stillframe.api.schemas.baremetal import fields
from stillframe.api.schemas.baremetal import queries
from stillframe.api.views.baremetal import node_fields

#: Filters of a list, and since which microversion; those with a column of
#: the same name behind them.
EQUAL: Mapping[str, int] = {
    'instance_uuid': 1,
    'maintenance': 1,
    'provision_state': versions.PROVISION_STATE_FILTER,
    'driver': versions.DRIVER_FILTER,
    'resource_class': versions.RESOURCE_CLASS,
    'fault': versions.FAULT,
    'conductor_group': versions.CONDUCTOR_GROUP,
    'owner': versions.OWNER,
    'lessee': versions.LESSEE,
}
_OTHER: Mapping[str, int] = {
    'associated': 1,
    'conductor': versions.CONDUCTORS,
    'description_contains': versions.DESCRIPTION,
    'project': versions.LESSEE,
    'include_children': 83,
    # All nodes are alike in what follows.
    'chassis_uuid': 1,
    'retired': 61,
    'shard': 82,
    'sharded': 82,
    'parent_node': 83,
    'instance_name': 104,
}
#: Filters that no node can match, and those that each node matches.
NEVER = frozenset(('chassis_uuid', 'shard', 'parent_node', 'instance_name'))
FALSE = frozenset(('retired', 'sharded'))

_BOOLEANS = frozenset(('maintenance', 'associated', 'include_children',
                       'retired', 'sharded'))
_LIST: query.Schema = {
    **{name: query.boolean if name in _BOOLEANS else query.text
       for name in (*EQUAL, *_OTHER)},
    **queries.PAGE,
}

_UUID = {'type': 'string', 'pattern': '^[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-)'
                                      '{3}[0-9a-fA-F]{12}\\Z'}
_OBJECT = {'type': 'object'}
_INTERFACE = {'type': ['string', 'null'], 'minLength': 1, 'maxLength': 255}


def _text(length: int) -> dict[str, Any]:
    return {'type': ['string', 'null'], 'maxLength': length}


_SETTABLE: Mapping[str, dict[str, Any]] = {
    'name': _text(255),
    'driver': {'type': 'string', 'minLength': 1, 'maxLength': 255},
    'driver_info': _OBJECT,
    'properties': _OBJECT,
    'instance_info': _OBJECT,
    'extra': _OBJECT,
    'instance_uuid': {'oneOf': [_UUID, {'type': 'null'}]},
    'resource_class': _text(80),
    'owner': _text(255),
    'lessee': _text(255),
    'description': _text(4096),
    'conductor_group': {'type': 'string', 'maxLength': 255,
                        'pattern': r'^[a-zA-Z0-9_.-]*\Z'},
    'maintenance': {'type': 'boolean'},
    'maintenance_reason': _text(4096),
    'boot_interface': _INTERFACE,
    'management_interface': _INTERFACE,
    'power_interface': _INTERFACE,
    'snapshot_interface': _INTERFACE,
}
_UNSET: Mapping[str, Any] = {
    'driver_info': {}, 'properties': {}, 'instance_info': {}, 'extra': {},
    'conductor_group': '', 'maintenance': False,
}

FIELDS = fields.Fields(
    'node', node_fields.SINCE, node_fields.FIXED, _SETTABLE, _UNSET,
    validation.Validator({
        'type': 'object', 'properties': dict(_SETTABLE),
        'required': ['driver'], 'additionalProperties': False}))
_UUIDS = validation.Validator({
    'type': 'object', 'properties': {'uuid': _UUID}})

_HOSTNAME = re.compile(r'[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?'
                       r'(?:\.[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?)*')
_UNRESERVED = re.compile(r'[a-zA-Z0-9._~-]+')
# Paths of our own below /v1/nodes.
_RESERVED_NAMES = frozenset(('detail', 'maintenance', 'management', 'ports',
                             'portgroups', 'states', 'history', 'snapshot',
                             'validate', '.', '..'))


def parse_list(req: request.Request) -> dict[str, list[Any]]:
    """Read the query of a list.

    :raises BadRequest: a parameter is unknown, or its value wrong.
    :raises TooOld: a parameter is not yet in this version.
    """
    found = query.parse(req, _LIST, versions.MIN)
    for name, since in (*EQUAL.items(), *_OTHER.items()):
        if name in found:
            versions.require(req.minor, since,
                             f'The query parameter {name}')
    return found


def creation(document: Any, minor: int) -> dict[str, Any]:
    """Check the body of a request for a new node.

    :return: values by column; uuid among them where it was given.
    :raises BadRequest: a field is wrong, or has nothing behind it here.
    :raises TooOld: a field is not yet in this version.
    """
    if not isinstance(document, dict):
        raise exceptions.BadRequest(
            'Malformed request body: it must be an object, the node.')
    FIELDS.check_names(document, minor)
    values = settable(document, minor)
    if document.get('uuid') is not None:
        check_uuid(document['uuid'])
        values['uuid'] = document['uuid'].lower()
    return values


def check_uuid(value: Any) -> None:
    """Refuse what is no UUID.

    :raises BadRequest: it is not.
    """
    _UUIDS.check({'uuid': value})


def settable(document: Mapping[str, Any], minor: int) -> dict[str, Any]:
    """Check what a user sets of a node, and give it by column.

    :param document: the fields; uuid is not looked at.
    :raises BadRequest: a field is wrong, or has nothing behind it here.
    """
    values = FIELDS.by_column(document)
    if values.get('name') is not None:
        _check_name(values['name'], minor)
    if values.get('instance_uuid') is not None:
        values['instance_uuid'] = values['instance_uuid'].lower()
    if 'conductor_group' in values:
        values['conductor_group'] = values['conductor_group'].lower()
    return values


def _check_name(name: str, minor: int) -> None:
    allowed = (_UNRESERVED if minor >= versions.UNRESTRICTED_NAMES
               else _HOSTNAME)
    if (not allowed.fullmatch(name) or name.lower() in _RESERVED_NAMES
            or re.fullmatch(_UUID['pattern'], name)):
        raise exceptions.BadRequest(
            f'The node name {name[:64]!r} is invalid: it may have letters, '
            'digits and . _ ~ - (before version 1.10 it has to be a host '
            'name), and may not be a UUID or a word of the API.')
