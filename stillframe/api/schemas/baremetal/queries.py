# SPDX-License-Identifier: Apache-2.0
"""What queries of lists have in common in the bare-metal dialect."""

from collections.abc import Iterable
from collections.abc import Mapping
from typing import Any

from stillframe import exceptions
from stillframe.api import baremetal_versions as versions
from stillframe.api.schemas import query


def size(value: str) -> int:
    """Take a number of entries; a negative one is told from nonsense."""
    if value.startswith('-') and value[1:].isdigit():
        raise ValueError('must be positive')
    return query.count(value)


def direction(value: str) -> str:
    """Take a direction of an order."""
    if value not in ('asc', 'desc'):
        raise ValueError('must be asc or desc')
    return value


def names(value: str) -> list[str]:
    """Take names with commas between."""
    return [name for name in value.split(',') if name]


#: Parameters of each list: see :mod:`stillframe.api.schemas.query`.
PAGE: query.Schema = {
    'limit': size,
    'marker': query.text,
    'sort_key': query.text,
    'sort_dir': direction,
    'fields': names,
    'detail': query.boolean,
}


def limit(found: Mapping[str, list[Any]], max_limit: int) -> int:
    """Give how many entries a page may have; 0 is the most."""
    return min(query.last(found, 'limit') or max_limit, max_limit)


def sort_key(found: Mapping[str, list[Any]], known: Iterable[str]) -> str:
    """Give what a list is sorted by.

    :raises BadRequest: nothing is sorted by that.
    """
    key = query.last(found, 'sort_key', 'id')
    if key not in known:
        raise exceptions.BadRequest(
            f'The sort_key value "{key[:64]}" is invalid for sorting.')
    return key


def fields(found: Mapping[str, list[Any]], minor: int,
           since: Mapping[str, int]) -> list[str] | None:
    """Give the fields that are asked for; None: the usual ones.

    :param since: the fields there are, and since which microversion.
    :raises BadRequest: there is no such field.
    :raises TooOld: not yet in this version.
    """
    wanted = query.last(found, 'fields')
    if wanted is None:
        return None
    versions.require(minor, versions.FIELDS, 'The query parameter fields')
    unknown = [name for name in wanted if name not in since]
    if unknown:
        raise exceptions.BadRequest(
            f'Field(s) "{", ".join(unknown)[:128]}" are not valid.')
    for name in wanted:
        versions.require(minor, since[name], f'The field {name}')
    return wanted
