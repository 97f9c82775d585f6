# SPDX-License-Identifier: Apache-2.0
"""Errors as the bare-metal dialect writes them: JSON, twice encoded.

Three forms, as in Ironic, since clients know all of them: what a controller
says, what was refused before a controller was found, and what came from the
check of names and passwords.
"""

import enum
import http
import json


class Form(enum.Enum):
    """Which form an error has in this dialect."""

    CONTROLLER = enum.auto()
    UNROUTED = enum.auto()
    CREDENTIALS = enum.auto()


def document(status: int, message: str, form: Form) -> bytes:
    """Write the body of an error."""
    if form is Form.CREDENTIALS:
        return json.dumps({'error': {'code': status, 'message': message}}
                          ).encode('ascii')
    if form is Form.UNROUTED:
        inner = {'code': status, 'title': http.HTTPStatus(status).phrase,
                 'description': message}
    else:
        inner = {'faultcode': 'Client' if status < 500 else 'Server',
                 'faultstring': message, 'debuginfo': None}
    return json.dumps({'error_message': json.dumps(inner)}).encode('ascii')
