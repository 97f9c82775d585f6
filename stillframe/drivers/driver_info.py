# SPDX-License-Identifier: Apache-2.0
"""Reading a node's driver_info, and telling what belongs there."""

from collections.abc import Iterable
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib import parse

from stillframe.drivers import errors


@dataclass(frozen=True)
class Property:
    """One key of driver_info.

    :ivar help: for operators: meaning, form, unit.
    :ivar required: whether the interface cannot work without.
    """

    key: str
    help: str
    required: bool = False


def require(uuid: str, info: Mapping[str, Any],
            properties: Iterable[Property]) -> None:
    """Check that what is required is there.

    :param uuid: of the node, for the message.
    :raises MissingDriverInfo: naming all that is missing.
    """
    missing = [one for one in properties
               if one.required and info.get(one.key) in (None, '')]
    if missing:
        raise errors.MissingDriverInfo(
            node=uuid, keys=', '.join(one.key for one in missing),
            help=' '.join(one.help for one in missing))


def url(uuid: str, info: Mapping[str, Any], key: str,
        schemes: tuple[str, ...] = ('http', 'https')) -> str:
    """Give an address from driver_info.

    :param schemes: those that can be used.
    :raises InvalidDriverInfo: it is no such address. Whitespace and control
        characters are refused: they would end up in a boot script.
    """
    value = info.get(key)

    def wrong(reason: str) -> errors.InvalidDriverInfo:
        return errors.InvalidDriverInfo(node=uuid, key=key, reason=reason)

    if not isinstance(value, str):
        raise wrong('it has to be a string.')
    if not value.isprintable() or ' ' in value:
        raise wrong('it has spaces or control characters.')
    try:
        parts = parse.urlsplit(value)
        host, _port = parts.hostname, parts.port
    except ValueError as exc:
        raise wrong('it is no URL.') from exc
    if parts.scheme not in schemes:
        raise wrong(f'it has to begin with {" or ".join(schemes)}://')
    if not host:
        raise wrong('it names no host.')
    return value


def boolean(uuid: str, info: Mapping[str, Any], key: str,
            default: bool) -> bool:
    """Give a yes or no from driver_info, also when it came as a word.

    :raises InvalidDriverInfo: it is neither.
    """
    value = info.get(key, default)
    if isinstance(value, bool):
        return value
    word = str(value).strip().lower()
    if word in ('true', 'yes', 'on', '1'):
        return True
    if word in ('false', 'no', 'off', '0'):
        return False
    raise errors.InvalidDriverInfo(
        node=uuid, key=key, reason='it has to be true or false.')
