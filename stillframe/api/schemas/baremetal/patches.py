# SPDX-License-Identifier: Apache-2.0
"""JSON patches (RFC 6902): add, replace and remove.

The other operations would let a caller read what is masked, by copying it
to where it is not, or by testing guesses.
"""

from collections.abc import Mapping
import copy
import re
from typing import Any

import jsonpatch

from stillframe import exceptions
from stillframe.api.schemas import validation

_BODY = validation.Validator({
    'type': 'array',
    'maxItems': 1000,
    'items': {
        'type': 'object',
        'properties': {
            'op': {'enum': ['add', 'replace', 'remove']},
            'path': {'type': 'string', 'maxLength': 1024,
                     'pattern': '^/[^/]+(?:/|$)'},
            'value': True,
        },
        'required': ['op', 'path'],
        'additionalProperties': False,
        'if': {'properties': {'op': {'enum': ['add', 'replace']}}},
        'then': {'required': ['value']},
    },
})
_INDEX = re.compile(r'/\d{7,}')


def check(patch: Any) -> list[dict[str, Any]]:
    """Check the form of a patch.

    :raises BadRequest: saying what is wrong with it.
    """
    _BODY.check(patch)
    for one in patch:
        # An index so large is no place in any list of ours.
        if _INDEX.search(one['path']):
            raise _refused(one, 'there is no such place in a list')
    return patch


def touched(patch: list[dict[str, Any]]) -> dict[str, Any]:
    """Give the fields that a patch is about; the values mean nothing."""
    return {one['path'][1:].partition('/')[0].replace('~1', '/')
            .replace('~0', '~'): None for one in patch}


def applied(patch: list[dict[str, Any]], document: Mapping[str, Any]
            ) -> dict[str, Any]:
    """Give what a document is after a patch; fields may be missing.

    A field that has no value yet is there, as null.

    :raises BadRequest: saying which operation cannot be done.
    """
    made: Any = copy.deepcopy(dict(document))
    for one in patch:
        try:
            made = jsonpatch.apply_patch(made, [one], in_place=True)
        except (jsonpatch.JsonPatchException,
                jsonpatch.JsonPointerException, TypeError, ValueError,
                KeyError, IndexError, AttributeError) as exc:
            raise _refused(one, str(exc)[:128]) from exc
    return made


def _refused(one: Mapping[str, Any], reason: str) -> exceptions.BadRequest:
    return exceptions.BadRequest(
        f"Couldn't apply patch: {one['op']} {one['path'][:128]}: {reason}")
