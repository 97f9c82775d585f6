# SPDX-License-Identifier: Apache-2.0
"""Bodies and queries of /os-assisted-volume-snapshots.

Stricter than Nova in the names of files: they are bare, since they end up
in paths on the hypervisor.
"""

from typing import Any

from stillframe import exceptions
from stillframe.api import microversions as mv
from stillframe.api import request
from stillframe.api.schemas import query
from stillframe.api.schemas import validation

# No folder, no protocol, no control characters, and not the folder itself.
_FILE = {
    'type': 'string',
    'minLength': 1,
    'maxLength': 255,
    # \Z: in Python, $ lets a last newline pass.
    'pattern': '^(?!\\.{1,2}\\Z)'
               '[^/:\\u0000-\\u001f\\u007f\\ud800-\\udfff]+\\Z',
}
_FILE_OR_NULL = {**_FILE, 'type': ['string', 'null']}
# It ends up in the path of a request to Cinder, which is ours: nothing that
# would make it another path, or a query.
_ID = {'type': 'string', 'minLength': 1, 'maxLength': 255,
       'pattern': '^(?!\\.{1,2}\\Z)'
                  '[^/?#%\\\\\\u0000-\\u0020\\u007f\\ud800-\\udfff]+\\Z'}
_LONGEST_DELETE_INFO = 8192

CREATE: dict[str, Any] = {
    'type': 'object',
    'properties': {
        'snapshot': {
            'type': 'object',
            'properties': {
                'volume_id': _ID,
                'create_info': {
                    'type': 'object',
                    'properties': {
                        'snapshot_id': _ID,
                        'type': {'enum': ['qcow2']},
                        'new_file': _FILE,
                        'id': _ID,
                    },
                    'required': ['snapshot_id', 'type', 'new_file'],
                    'additionalProperties': False,
                },
            },
            'required': ['volume_id', 'create_info'],
            'additionalProperties': False,
        },
    },
    'required': ['snapshot'],
    'additionalProperties': False,
}

#: Of the text in delete_info. As in Nova, only volume_id has to be there
#: for the request to be accepted.
DELETE_INFO: dict[str, Any] = {
    'type': 'object',
    'properties': {
        'volume_id': _ID,
        'type': {'enum': ['qcow2']},
        'file_to_merge': _FILE_OR_NULL,
        'merge_target_file': _FILE_OR_NULL,
    },
    'required': ['volume_id'],
}
#: What else has to be there for it to succeed.
COMPLETE = frozenset(('type', 'file_to_merge', 'merge_target_file'))

_delete_info = validation.Validator(DELETE_INFO)
_snapshot_id = validation.Validator({
    'type': 'object', 'properties': {'snapshot_id': _ID}})


def check_snapshot_id(snapshot_id: str) -> None:
    """Check the id in the path of a request to delete.

    :raises BadRequest: Cinder has no such ids.
    """
    _snapshot_id.check({'snapshot_id': snapshot_id}, legacy=False)


def _text(value: str) -> str:
    if len(value) > _LONGEST_DELETE_INFO:
        raise ValueError(f'is longer than {_LONGEST_DELETE_INFO} characters')
    return value


def delete_info(req: request.Request) -> dict[str, Any]:
    """Read what is to be merged from the query.

    :raises BadRequest: it is not there, or malformed.
    """
    text = query.last(query.parse(
        req, {'delete_info': _text}, mv.STRICT_QUERIES), 'delete_info')
    if text is None:
        raise exceptions.BadRequest(
            'The query parameter delete_info is missing: it says in JSON '
            'which files are to be merged.')
    try:
        found = request.decode(text.encode('utf-8', 'surrogatepass'))
    except exceptions.BadRequest as exc:
        raise exceptions.BadRequest(
            f'Malformed delete_info: {exc}') from None
    _delete_info.check(found, legacy=req.legacy)
    return found
