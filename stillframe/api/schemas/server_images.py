# SPDX-License-Identifier: Apache-2.0
"""Body of POST /servers/{id}/action with createImage."""

from typing import Any

from stillframe.clients import images

# Also without spaces at its ends, as in Nova.
_NAME = r'^(?! )[^\u0000-\u001f\u007f\ud800-\udfff]+(?<! )\Z'
_VALUE = r'^[^\u0000\ud800-\udfff]*\Z'

CREATE_IMAGE: dict[str, Any] = {
    'type': 'object',
    'properties': {
        'createImage': {
            'type': 'object',
            'properties': {
                'name': {
                    'type': 'string',
                    'minLength': 1,
                    'maxLength': 255,
                    'pattern': _NAME,
                },
                'metadata': {
                    'type': 'object',
                    'propertyNames': {
                        'pattern': r'^[a-zA-Z0-9_:. -]{1,255}\Z',
                        'not': {'anyOf': [
                            {'enum': sorted(images.RESERVED)},
                            {'pattern': f'^{images.OWN_PREFIX}'},
                        ]},
                    },
                    'additionalProperties': {
                        'type': 'string',
                        'maxLength': 255,
                        'pattern': _VALUE,
                    },
                    'maxProperties': 128,
                },
            },
            'required': ['name'],
            'additionalProperties': False,
        },
    },
    'required': ['createImage'],
    'additionalProperties': False,
}
