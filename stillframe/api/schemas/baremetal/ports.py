# SPDX-License-Identifier: Apache-2.0
"""Bodies and queries of /v1/ports."""

from collections.abc import Mapping
import re
from typing import Any

from stillframe import exceptions
from stillframe.api import baremetal_versions as versions
from stillframe.api.schemas import query
from stillframe.api.schemas import validation
from stillframe.api.schemas.baremetal import fields
from stillframe.api.schemas.baremetal import queries

#: Fields with something behind them: since when, in the order shown.
LIVING: Mapping[str, int] = {
    'uuid': 1,
    'address': 1,
    'node_uuid': 1,
    'extra': 1,
    'created_at': 1,
    'updated_at': 1,
    'local_link_connection': versions.PORT_NETWORK,
    'pxe_enabled': versions.PORT_NETWORK,
}
#: Fields with nothing behind them: since when, and the one value.
FIXED: Mapping[str, tuple[int, Any]] = {
    'internal_info': (18, {}),
    'portgroup_uuid': (24, None),
    'physical_network': (34, None),
    'is_smartnic': (53, False),
    'name': (88, None),
    'description': (97, None),
    'vendor': (100, None),
    'category': (101, None),
}
#: Since when each field is there.
SINCE: Mapping[str, int] = {
    **LIVING, **{name: since for name, (since, _) in FIXED.items()},
    'links': 1}

_MAC = re.compile(r'[0-9a-f]{2}(?::[0-9a-f]{2}){5}')


def mac(value: str) -> str:
    """Take a MAC address; written with dashes or large letters too."""
    made = value.lower().replace('-', ':')
    if not _MAC.fullmatch(made):
        raise ValueError('must be a MAC address (52:54:00:12:34:56)')
    return made


#: Parameters of the list.
LIST: query.Schema = {
    'node': query.text,
    'node_uuid': query.text,
    'address': mac,
    **queries.PAGE,
}

_SETTABLE: Mapping[str, dict[str, Any]] = {
    'address': {'type': 'string'},
    'node_uuid': {'type': 'string', 'maxLength': 36},
    'extra': {'type': 'object'},
    'local_link_connection': {'type': 'object'},
    'pxe_enabled': {'type': 'boolean'},
}
_UNSET: Mapping[str, Any] = {
    'extra': {}, 'local_link_connection': {}, 'pxe_enabled': True}

FIELDS = fields.Fields(
    'port', SINCE, FIXED, _SETTABLE, _UNSET, validation.Validator({
        'type': 'object', 'properties': dict(_SETTABLE),
        'required': ['address', 'node_uuid'],
        'additionalProperties': False}))


def settable(document: Mapping[str, Any]) -> dict[str, Any]:
    """Check what a user sets of a port, and give it by column.

    :param document: the fields; uuid is not looked at.
    :raises BadRequest: a field is wrong, or has nothing behind it here.
    """
    values = FIELDS.by_column(document)
    try:
        values['address'] = mac(values['address'])
    except ValueError as exc:
        raise exceptions.BadRequest(
            f'Invalid input for field/attribute address: it {exc}.'
            ) from None
    return values
