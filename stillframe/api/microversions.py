# SPDX-License-Identifier: Apache-2.0
"""Microversions of the compute dialect: parsing, and what each step changes.

The major version is always 2, so a version is its minor number, an int.
The steps are Nova's; those that are not named here change nothing about the
resources that this service has.
"""

import re

from stillframe import exceptions

MIN = 1
MAX = 89

#: More attributes of a server for administrators; volumes_attached says
#: delete_on_termination.
EXTENDED_ATTRIBUTES = 3
#: A server says whether it is locked.
LOCKED = 9
#: A service says whether it was forced down.
FORCED_DOWN = 11
#: A server says host_status, to administrators.
HOST_STATUS = 16
#: A server has a description.
DESCRIPTION = 19
#: The actions of deleted servers can be read.
ACTIONS_OF_DELETED = 21
#: Servers have tags, and are listed by them.
TAGS = 26
#: A list by an unknown status is refused instead of empty.
STATUS_CHECKED = 38
#: createImage answers with the image's id instead of a Location.
IMAGE_ID = 45
#: A server embeds its flavor instead of a link to it.
FLAVOR_EMBEDDED = 47
#: The events of an action are for everybody who may read the action.
EVENTS_FOR_ALL = 51
#: Services are named by UUID.
SERVICE_UUID = 53
#: Instance actions come in pages and say updated_at.
ACTIONS_PAGED = 58
#: An action's event says where it happened.
EVENT_HOST = 62
#: A server shows trusted_image_certificates.
TRUSTED_CERTIFICATES = 63
#: Lists take changes-before.
CHANGES_BEFORE = 66
#: A volume attachment shows its tag.
ATTACHMENT_TAG = 70
#: A server, shown alone, lists its server_groups.
SERVER_GROUPS = 71
#: A server says why it is locked; lists may be filtered by locked.
LOCKED_REASON = 73
#: Unknown query parameters are refused.
STRICT_QUERIES = 75
#: A volume attachment shows delete_on_termination.
ATTACHMENT_DELETE = 79
#: Anybody may filter a list by more of what a server shows.
MORE_FILTERS = 83
#: An action's event has details, for those who may read them.
EVENT_DETAILS = 84
#: A volume attachment shows attachment_id and bdm_uuid, and no more id.
ATTACHMENT_IDS = 89

HEADER = 'OpenStack-API-Version'
LEGACY_HEADER = 'X-OpenStack-Nova-API-Version'
SERVICE_TYPE = 'compute'
VARY = f'{HEADER}, {LEGACY_HEADER}'

_VERSION = re.compile(r'([1-9]\d{0,5})\.(0|[1-9]\d{0,5})', re.ASCII)


class NotAcceptable(exceptions.StillframeError):
    """The microversion asked for is none of ours."""

    template = ('Version {version} is not supported by the API. Minimum is '
                '2.{minimum} and maximum is 2.{maximum}.')
    http_status = 406
    code = 'stillframe.version_not_supported'


def text(minor: int) -> str:
    """Write a version as it is written on the wire."""
    return f'2.{minor}'


def wanted(header: str | None, legacy_header: str | None,
           service_type: str) -> str | None:
    """Read the version out of a request's headers, as it is written.

    :param header: value of ``OpenStack-API-Version``: pairs of a service
        type and a version, separated by commas; those of other services
        are not ours to judge.
    :param legacy_header: value of the service's own header: a version;
        read only when the other one names none of the service.
    :return: None when none was asked for.
    """
    found = None
    if header is not None:
        for pair in header.split(','):
            words = pair.split()
            if words and words[0].lower() == service_type:
                found = ' '.join(words[1:])
    if found is None and legacy_header is not None:
        found = legacy_header.strip()
    return found


def requested(header: str | None, legacy_header: str | None) -> int:
    """Find out which version a request asks for.

    :param header: value of ``OpenStack-API-Version``.
    :param legacy_header: value of ``X-OpenStack-Nova-API-Version``.
    :return: the minor number; :data:`MIN` when none was asked for.
    :raises BadRequest: the version is malformed.
    :raises NotAcceptable: it is out of range.
    """
    version = wanted(header, legacy_header, SERVICE_TYPE)
    if version is None:
        return MIN
    if version == 'latest':
        return MAX
    match = _VERSION.fullmatch(version)
    if match is None:
        raise exceptions.BadRequest(
            f'API Version String {version[:64]} is of invalid format. Must '
            'be of format MajorNum.MinorNum.')
    major, minor = int(match[1]), int(match[2])
    if major != 2 or not MIN <= minor <= MAX:
        raise NotAcceptable(version=version, minimum=MIN, maximum=MAX)
    return minor
