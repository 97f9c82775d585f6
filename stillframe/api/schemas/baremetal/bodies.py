# SPDX-License-Identifier: Apache-2.0
"""Reading the bodies of requests in the bare-metal dialect."""

import json
import re
from typing import Any

from stillframe import exceptions
from stillframe.api import request

_PATCH_TYPE = 'application/json-patch+json'

# In JSON: a backslash in a text is written as two.
_NULL = re.compile(r'(?<!\\)(?:\\\\)*\\u0000')


def document(req: request.Request) -> Any:
    """Decode a body.

    :raises UnsupportedType: it is not announced as JSON.
    :raises BadRequest: it is not JSON, or has what no database can hold.
    """
    found = req.document(_PATCH_TYPE)
    try:
        text = json.dumps(found, ensure_ascii=False)
        text.encode()
    except UnicodeEncodeError:
        raise exceptions.BadRequest(
            'Malformed request body: half a surrogate pair is in it.'
            ) from None
    if _NULL.search(text):
        raise exceptions.BadRequest(
            'Malformed request body: a null character is in it.')
    return found


def optional(req: request.Request) -> Any:
    """Decode a body that need not be there: None when it is not.

    :raises UnsupportedType: it is not announced as JSON.
    :raises BadRequest: it is not JSON, or has what no database can hold.
    """
    return document(req) if req.environ[request.BODY] else None
