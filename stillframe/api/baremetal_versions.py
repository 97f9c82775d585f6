# SPDX-License-Identifier: Apache-2.0
"""Microversions of the bare-metal dialect, and what each step changes.

The major version is always 1, so a version is its minor number, an int.
The steps are Ironic's up to 115; 116 is ours. Those that are not named here
change nothing about the resources that this service has.
"""

import re

from stillframe import exceptions
from stillframe.api import baremetal_errors
from stillframe.api import microversions

MIN = 1
MAX = 116

#: A node that waits for work is "available"; before, it had no state.
AVAILABLE_STATE = 2
#: Nodes may be named by their names.
NAMES = 5
#: Lists and single things may be narrowed to some fields.
FIELDS = 8
#: Nodes may be listed by provision state.
PROVISION_STATE_FILTER = 9
#: Names need not be host names.
UNRESTRICTED_NAMES = 10
#: A new node is in the state "enroll".
ENROLL_STATE = 11
#: The verb abort.
ABORT = 13
#: Nodes may be listed by driver.
DRIVER_FILTER = 16
#: The verb adopt.
ADOPT = 17
#: Ports have local_link_connection and pxe_enabled.
PORT_NETWORK = 19
#: Nodes have, and are listed by, resource_class.
RESOURCE_CLASS = 21
#: Lookup and heartbeat.
RAMDISK = 22
#: Soft power off and soft reboot; a time-out for power.
SOFT_POWER = 27
#: Drivers say which interfaces they have.
DYNAMIC_DRIVERS = 30
#: The agent has to tell its version.
AGENT_VERSION = 36
#: Nodes have, and are listed by, fault.
FAULT = 42
#: The query parameter detail.
DETAIL = 43
#: Changing the driver may reset interfaces.
RESET_INTERFACES = 45
#: Nodes have, and are listed by, conductor_group.
CONDUCTOR_GROUP = 46
#: The resource conductors; nodes are listed by conductor.
CONDUCTORS = 49
#: Nodes have, and are listed by, owner.
OWNER = 50
#: Nodes have a description, and are listed by words of it.
DESCRIPTION = 51
#: The agent gets a token.
AGENT_TOKEN = 62
#: Nodes have, and are listed by, lessee.
LESSEE = 65
#: The agent may tell its certificate.
AGENT_VERIFY_CA = 68
#: The agent may tell a status.
AGENT_STATUS = 72
#: The verbs deploy and undeploy, other words for active and deleted.
DEPLOY = 73
#: The history of a node.
HISTORY = 78
#: The verb snapshot, and all that belongs to it.
SNAPSHOT = 116

HEADER = 'OpenStack-API-Version'
LEGACY_HEADER = 'X-OpenStack-Ironic-API-Version'
MIN_HEADER = 'X-OpenStack-Ironic-API-Minimum-Version'
MAX_HEADER = 'X-OpenStack-Ironic-API-Maximum-Version'
SERVICE_TYPE = 'baremetal'

_VERSION = re.compile(r'(\d{1,6})\.(\d{1,6})', re.ASCII)


class NotAcceptable(exceptions.StillframeError):
    """The version asked for is none of ours, or has not what is asked."""

    template = ('Version {version} was requested but is not supported by '
                'this service. The supported version range is: '
                '[1.{minimum}, 1.{maximum}].')
    http_status = 406
    code = 'stillframe.version_not_supported'
    form = baremetal_errors.Form.UNROUTED

    def __init__(self, version: str):
        super().__init__(version=version, minimum=MIN, maximum=MAX)
        self.headers = {MIN_HEADER: text(MIN), MAX_HEADER: text(MAX)}


class Malformed(exceptions.StillframeError):
    """What is asked for is no version."""

    template = ('Invalid value {version} for the API version: it has to be '
                'like 1.{maximum}, or the word latest.')
    http_status = 406
    code = 'stillframe.version_malformed'
    form = baremetal_errors.Form.UNROUTED


class TooOld(exceptions.StillframeError):
    """The version asked for does not have what the request needs."""

    template = ('Request not acceptable. {what} needs at least API version '
                '1.{needed}; the request is made with 1.{minor}.')
    http_status = 406
    code = 'stillframe.version_too_old'


def text(minor: int) -> str:
    """Write a version as it is written on the wire."""
    return f'1.{minor}'


def headers(minor: int) -> dict[str, str]:
    """Give the headers of a response: the version, and which there are."""
    return {MIN_HEADER: text(MIN), MAX_HEADER: text(MAX),
            LEGACY_HEADER: text(minor)}


def requested(header: str | None, legacy_header: str | None) -> int:
    """Find out which version a request asks for.

    :param header: value of ``OpenStack-API-Version``.
    :param legacy_header: value of ``X-OpenStack-Ironic-API-Version``.
    :return: the minor number; :data:`MIN` when none was asked for.
    :raises Malformed: that is no version.
    :raises NotAcceptable: it is out of range.
    """
    wanted = microversions.wanted(header, legacy_header, SERVICE_TYPE)
    if wanted is None:
        return MIN
    if wanted.lower() == 'latest':
        return MAX
    match = _VERSION.fullmatch(wanted)
    if match is None:
        raise Malformed(version=wanted[:64], maximum=MAX)
    if int(match[1]) != 1 or not MIN <= int(match[2]) <= MAX:
        raise NotAcceptable(wanted)
    return int(match[2])


def require(minor: int, needed: int, what: str) -> None:
    """Refuse what the version of a request does not have.

    :param what: begins the sentence: ``The verb snapshot``.
    :raises TooOld: with what is needed.
    """
    if minor < needed:
        raise TooOld(what=what, needed=needed, minor=minor)
