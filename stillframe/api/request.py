# SPDX-License-Identifier: Apache-2.0
"""The request as controllers see it."""

import json
import math
from typing import Any

import pecan

from stillframe import context
from stillframe import exceptions
from stillframe.api import errors

# Keys of the WSGI environment that middleware and routing leave for us.
BODY = 'stillframe.body'
CONTEXT = 'stillframe.context'
MINOR = 'stillframe.minor'
LEGACY = 'stillframe.legacy'
URL_PROJECT = 'stillframe.url_project'
SEGMENTS = 'stillframe.segments'
VERSIONED = 'stillframe.versioned'
# These two names are oslo.middleware's; oslo.context reads them.
REQUEST_ID = 'openstack.request_id'
GLOBAL_REQUEST_ID = 'openstack.global_request_id'

_MAX_DEPTH = 32


class Request(pecan.Request):
    """A request, with what was found out about it on its way here."""

    @property
    def ctxt(self) -> context.RequestContext:
        """Who asks."""
        return self.environ[CONTEXT]

    @property
    def minor(self) -> int:
        """The microversion, as its minor number."""
        return self.environ[MINOR]

    @property
    def legacy(self) -> bool:
        """Whether it came in by /v2, which has no microversions."""
        return self.environ[LEGACY]

    @property
    def url_project(self) -> str | None:
        """The project id in the URL, if there was one."""
        return self.environ[URL_PROJECT]

    def document(self, *also: str) -> Any:
        """Decode the body.

        :param also: types beside application/json that it may be of.
        :raises UnsupportedType: it is not announced as JSON.
        :raises BadRequest: it is not JSON as RFC 8259 has it.
        """
        kind = self.environ.get('CONTENT_TYPE', '')
        kind = kind.partition(';')[0].strip().lower()
        if kind != 'application/json' and kind not in also:
            raise errors.UnsupportedType(got=kind[:64] or '(none)')
        return decode(self.environ[BODY])


def decode(body: bytes) -> Any:
    """Decode JSON strictly.

    Python's decoder takes NaN and Infinity, keeps the last of two equal
    keys, makes an infinity of 1e999, and gives strings that cannot be
    encoded again; none of that reaches a controller.

    :raises BadRequest: saying what is wrong with it.
    """
    try:
        return depth_checked(_decoder.decode(body.decode('utf-8')))
    except UnicodeDecodeError as exc:
        raise _malformed(f'it is not UTF-8 at byte {exc.start}') from None
    except json.JSONDecodeError as exc:
        raise _malformed(f'it is not JSON: {exc}') from None
    except RecursionError:
        raise _malformed('it is nested too deeply') from None
    except ValueError as exc:
        raise _malformed(str(exc)) from None


def _malformed(reason: str) -> exceptions.BadRequest:
    return exceptions.BadRequest(f'Malformed request body: {reason}.')


def _no_constant(word: str) -> Any:
    raise ValueError(f'{word} is no number in JSON')


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError('a number in it is too large')
    return number


def _integer(digits: str) -> int:
    # More digits than any limit of ours has; Python refuses to convert
    # very long ones, with a message that is of no use to a caller.
    if len(digits) > 40:
        raise ValueError('a number in it is too large')
    return int(digits)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError('a key in it is there twice')
    return found


def depth_checked(document: Any) -> Any:
    """Refuse what is deeper than any request of ours, before it is walked.

    :return: the document.
    :raises ValueError: it is.
    """
    level = [document] if isinstance(document, dict | list) else []
    for _ in range(_MAX_DEPTH):
        if not level:
            return document
        level = [child for one in level
                 for child in (one.values() if isinstance(one, dict)
                               else one)
                 if isinstance(child, dict | list)]
    raise ValueError('it is nested too deeply')


_decoder = json.JSONDecoder(
    parse_float=_finite, parse_int=_integer, parse_constant=_no_constant,
    object_pairs_hook=_unique)
