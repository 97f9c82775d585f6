# SPDX-License-Identifier: Apache-2.0
"""Where a node's BMC is and how to get in, out of its driver_info."""

from dataclasses import dataclass
from dataclasses import field
import os
from typing import Any
from urllib import parse

from stillframe.drivers import driver_info
from stillframe.drivers import errors
from stillframe.drivers.base import Node
from stillframe.drivers.driver_info import Property

_SYSTEMS = '/redfish/v1/Systems/'
#: Ways to prove who we are.
AUTO, BASIC, SESSION = 'auto', 'basic', 'session'
AUTH_TYPES = (AUTO, BASIC, SESSION)

PROPERTIES = (
    Property('redfish_address',
             'URL of the BMC, such as https://bmc.example.org; https when '
             'it has no scheme.', required=True),
    Property('redfish_system_id',
             'Path of the machine at the BMC, such as '
             '/redfish/v1/Systems/1, or the last part of it. Needed where '
             'the BMC manages several.'),
    Property('redfish_username', 'User to log in to the BMC as. Without '
             'it, nobody logs in.'),
    Property('redfish_password', 'Password of that user.'),
    Property('redfish_verify_ca',
             "Whether to check the BMC's certificate: true (the default), "
             'false, or the path of a file or folder of CA certificates on '
             'each conductor.'),
    Property('redfish_auth_type',
             'How to log in: session, basic, or auto (the default), which '
             'takes the first of these that the BMC has.'),
)


@dataclass(frozen=True)
class Access:
    """A BMC and credentials; nodes that share both share sessions.

    :ivar verify: whether to check the certificate, or the path of CAs.
    """

    address: str
    username: str | None
    password: str | None = field(repr=False)
    verify: bool | str
    auth_type: str


def read(node: Node) -> tuple[Access, str | None]:
    """Read driver_info.

    :return: the access, and the path of the system at the BMC; None when
        the BMC has but one.
    :raises MissingDriverInfo: see there.
    :raises InvalidDriverInfo: see there.
    """
    uuid, info = node['uuid'], node['driver_info']
    driver_info.require(uuid, info, PROPERTIES)
    for key in ('redfish_username', 'redfish_password', 'redfish_system_id'):
        if not isinstance(info.get(key) or '', str):
            raise errors.InvalidDriverInfo(
                node=uuid, key=key, reason='it has to be a string.')
    auth_type = info.get('redfish_auth_type') or AUTO
    if auth_type not in AUTH_TYPES:
        raise errors.InvalidDriverInfo(
            node=uuid, key='redfish_auth_type',
            reason=f'it has to be one of {", ".join(AUTH_TYPES)}.')
    return Access(
        address=_address(node), username=info.get('redfish_username'),
        password=info.get('redfish_password'), verify=_verify(node),
        auth_type=auth_type), _system(node)


def _address(node: Node) -> str:
    uuid, key = node['uuid'], 'redfish_address'
    value = node['driver_info'][key]
    if isinstance(value, str) and '://' not in value:
        value = f'https://{value}'
    value = driver_info.url(uuid, {key: value}, key)
    parts = parse.urlsplit(value)
    if parts.username is not None or parts.password is not None:
        raise errors.InvalidDriverInfo(
            node=uuid, key=key, reason='user and password belong in '
            'redfish_username and redfish_password.')
    if parts.path.strip('/') or parts.query or parts.fragment:
        raise errors.InvalidDriverInfo(
            node=uuid, key=key, reason='it has more than scheme, host and '
            'port; the path of the system belongs in redfish_system_id.')
    return f'{parts.scheme}://{parts.netloc}'


def _system(node: Node) -> str | None:
    value: str = node['driver_info'].get('redfish_system_id') or ''
    if not value.isprintable() or ' ' in value or '?' in value:
        raise errors.InvalidDriverInfo(
            node=node['uuid'], key='redfish_system_id',
            reason='it is no path of a system.')
    if not value:
        return None
    return value if value.startswith('/') else _SYSTEMS + value


def _verify(node: Node) -> bool | str:
    key = 'redfish_verify_ca'
    value: Any = node['driver_info'].get(key, True)
    if isinstance(value, str) and value.startswith('/'):
        if not os.access(value, os.R_OK):
            raise errors.InvalidDriverInfo(
                node=node['uuid'], key=key, reason='this conductor has no '
                'such file, or may not read it.')
        return value
    return driver_info.boolean(node['uuid'], node['driver_info'], key, True)
