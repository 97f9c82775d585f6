# SPDX-License-Identifier: Apache-2.0
"""What a user names as the place of a node's image.

A UUID is an image of the image store that has no data yet. A URL is for
use without one; where it leads is the operator's decision, who configures
what it has to begin with, since it is our conductor that writes there.
"""

from collections.abc import Iterable
import dataclasses
import enum
import re
import urllib.parse
import uuid

from oslo_config import cfg

from stillframe import exceptions

_LENGTH_MAX = 1024
# Of a path, behind the prefix: names alone. What is percent-encoded could be
# a dot or a slash, a query could be a secret, and is shown in the history.
_NAMES = re.compile(r'(?:[A-Za-z0-9_~-][A-Za-z0-9._~+@-]*/)*'
                    r'[A-Za-z0-9_~-][A-Za-z0-9._~+@-]*')


class Kind(enum.Enum):
    """Which place it is."""

    IMAGE = enum.auto()
    FILE = enum.auto()
    HTTPS = enum.auto()


class InvalidImageRef(exceptions.BadRequest):
    """It names nothing that an image could be put in."""

    template = 'The image_ref {ref} cannot be used: {reason}'
    code = 'stillframe.image_ref_invalid'


@dataclasses.dataclass(frozen=True)
class ImageRef:
    """A place for an image.

    :ivar where: UUID of the image, path of the file, or URL.
    """

    kind: Kind
    where: str


def parse(text: str, conf: cfg.ConfigOpts) -> ImageRef:
    """Read an image_ref; nothing is asked of the place itself.

    :param conf: ``[images]url_prefixes`` is read.
    :raises InvalidImageRef: saying why.
    """
    if len(text) > _LENGTH_MAX:
        raise InvalidImageRef(
            ref=f'{text[:64]}...',
            reason=f'it is longer than {_LENGTH_MAX} characters.')
    try:
        if str(uuid.UUID(text)) == text.lower():
            return ImageRef(Kind.IMAGE, text.lower())
    except ValueError:
        pass
    scheme = text.partition('://')[0].lower()
    if scheme not in ('file', 'https'):
        raise InvalidImageRef(
            ref=_shown(text), reason='it has to be the UUID of an image, '
            'or a URL that begins with file:/// or https://.')
    prefix = _prefix_of(text, conf.images.url_prefixes)
    if prefix is None:
        raise InvalidImageRef(
            ref=_shown(text), reason='it does not begin with one of '
            '[images]url_prefixes, below which an administrator allows '
            'images.')
    if not _NAMES.fullmatch(text[len(prefix):]):
        raise InvalidImageRef(
            ref=_shown(text), reason='behind its prefix it may have only '
            'names of letters, digits and . _ ~ + @ - that do not begin '
            'with a dot, with slashes between.')
    if scheme == 'file':
        return ImageRef(Kind.FILE, urllib.parse.urlsplit(text).path)
    return ImageRef(Kind.HTTPS, text)


def _prefix_of(text: str, prefixes: Iterable[str]) -> str | None:
    for prefix in prefixes:
        whole = prefix if prefix.endswith('/') else f'{prefix}/'
        if text.startswith(whole):
            return whole
    return None


def _shown(text: str) -> str:
    """Quote what a user gave, without a password that is in it."""
    return re.sub(r'//[^/@]*@', '//***@', text[:128])
