# SPDX-License-Identifier: Apache-2.0
"""Flavors: the sizes that servers were seen to have.

There is no table of them. A flavor's id is made from what it is, so that
equal sizes have one id and it never changes.
"""

from collections.abc import Mapping
import functools
from typing import Any
import uuid

_NAMESPACE = uuid.UUID('7c1d0c5e-6d0b-5f0e-9f0e-2f1d6a1f3c77')

_SIZES = ('vcpus', 'ram', 'disk', 'ephemeral', 'swap')


def identity(flavor: Mapping[Any, Any]) -> str:
    """Give the id of a flavor as servers have it."""
    return _identity(str(flavor.get('name', '')),
                     *(int(flavor.get(key) or 0) for key in _SIZES))


@functools.lru_cache(maxsize=1024)
def _identity(name: str, *sizes: int) -> str:
    return str(uuid.uuid5(
        _NAMESPACE, '\0'.join((name, *map(str, sizes)))))


def embedded(flavor: Mapping[Any, Any]) -> dict[str, Any]:
    """Write a flavor inside a server, as from microversion 2.47 on."""
    document: dict[str, Any] = {
        key: int(flavor.get(key) or 0) for key in _SIZES}
    document['original_name'] = flavor.get('name', '')
    document['extra_specs'] = {}
    return document
