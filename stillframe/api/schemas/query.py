# SPDX-License-Identifier: Apache-2.0
"""Checking query parameters.

A schema is a mapping from a parameter's name to a function that makes a
value of its text, or raises ValueError with the reason.
"""

from collections.abc import Callable
from collections.abc import Mapping
import datetime
from typing import Any

from oslo_utils import strutils
from oslo_utils import timeutils

from stillframe import exceptions
from stillframe.api import request

Schema = Mapping[str, Callable[[str], Any]]

_MAX_LENGTH = 255


def text(value: str) -> str:
    """Take any text that a column could hold."""
    if len(value) > _MAX_LENGTH:
        raise ValueError(f'is longer than {_MAX_LENGTH} characters')
    if '\0' in value:
        raise ValueError('has a null character in it')
    return value


def count(value: str) -> int:
    """Take a number of entries."""
    if not (value.isascii() and value.isdigit() and len(value) <= 18):
        raise ValueError('must be a whole number, 0 or more')
    return int(value)


def boolean(value: str) -> bool:
    """Take a truth value as OpenStack writes them; empty is true."""
    if value == '':
        return True
    return strutils.bool_from_string(value, strict=True)


def time(value: str) -> datetime.datetime:
    """Take a time in ISO 8601; without a zone it is UTC."""
    try:
        when = timeutils.parse_isotime(value)
        return timeutils.normalize_time(when)
    except (ValueError, OverflowError):
        raise ValueError('is no time in ISO 8601 '
                         '(2026-01-31T23:59:59Z)') from None


def parse(req: request.Request, schema: Schema,
          strict_from: int) -> dict[str, list[Any]]:
    """Read the query parameters that the schema knows.

    :param strict_from: the microversion from which on unknown ones are
        refused; before, they are ignored.
    :return: the values of each one that is there, in their order.
    :raises BadRequest: says which parameter, and what is wrong with it.
    """
    found: dict[str, list[Any]] = {}
    for key, value in req.GET.items():
        known = schema.get(key)
        if known is None:
            if req.minor >= strict_from and not req.legacy:
                raise exceptions.BadRequest(
                    f'Invalid query parameter {key[:64]}: it is not known '
                    'to this list.')
            continue
        try:
            made = known(value)
        except ValueError as exc:
            raise exceptions.BadRequest(
                f'Invalid input for query parameter {key}. Value: '
                f'{value[:128]}. It {exc}.') from None
        found.setdefault(key, []).append(made)
    return found


def last(found: Mapping[str, list[Any]], key: str, default: Any = None) -> Any:
    """Give a parameter that is meant to be there once."""
    values = found.get(key)
    return values[-1] if values else default


def check_changes(found: Mapping[str, list[Any]]) -> None:
    """Check that the time in which changes are asked for has a length.

    :raises BadRequest: it ends before it begins.
    """
    since, before = last(found, 'changes-since'), last(found, 'changes-before')
    if since is not None and before is not None and since > before:
        raise exceptions.BadRequest(
            'The value of changes-since must be less than or equal to '
            'changes-before.')
