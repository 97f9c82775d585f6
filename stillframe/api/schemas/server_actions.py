# SPDX-License-Identifier: Apache-2.0
"""Bodies of POST /servers/{id}/action."""

from typing import Any

from stillframe.states import servers as states

_MOUNTPOINTS_MAX = 64
# Linux' PATH_MAX is 4096 with the final null byte; a path of Windows such
# as "D:\\" is what its agent calls a mount point.
_PATH_MAX = 4095
_PATH = r'^(/|[A-Za-z]:\\)[^\u0000-\u001f\u007f\ud800-\udfff]*\Z'

UNQUIESCE: dict[str, Any] = {
    'type': 'object',
    'properties': {
        'unquiesce': {
            'type': ['object', 'null'],
            'properties': {},
            'additionalProperties': False,
        },
    },
    'required': ['unquiesce'],
    'additionalProperties': False,
}

RESET_STATE: dict[str, Any] = {
    'type': 'object',
    'properties': {
        'os-resetState': {
            'type': 'object',
            'properties': {
                'state': {'enum': sorted(states.RESET_TARGETS)},
            },
            'required': ['state'],
            'additionalProperties': False,
        },
    },
    'required': ['os-resetState'],
    'additionalProperties': False,
}


def quiesce(max_timeout: float) -> dict[str, Any]:
    """Give the schema of the body of quiesce.

    :param max_timeout: the longest timeout in seconds that is taken.
    """
    return {
        'type': 'object',
        'properties': {
            'quiesce': {
                'type': ['object', 'null'],
                'properties': {
                    'timeout': {
                        'type': ['number', 'null'],
                        # Less is over before a guest is frozen.
                        'minimum': 1,
                        'maximum': max_timeout,
                    },
                    'mountpoints': {
                        'type': ['array', 'null'],
                        'items': {
                            'type': 'string',
                            'maxLength': _PATH_MAX,
                            'pattern': _PATH,
                        },
                        'minItems': 1,
                        'maxItems': _MOUNTPOINTS_MAX,
                        'uniqueItems': True,
                    },
                },
                'additionalProperties': False,
            },
        },
        'required': ['quiesce'],
        'additionalProperties': False,
    }
