# SPDX-License-Identifier: Apache-2.0
"""An image as a resource of a web server that the operator named.

It is sent with PUT, never over one that is there, and read back with GET
afterwards: a status of 201 is no proof of what arrived. What is half there
is removed, so that the same name can be used again, but never what is
another one's: not every server knows the condition of a PUT, and two may
send to the same name at once. No redirection is followed, no proxy and no
password of the environment is used.
"""

from collections.abc import Iterator
import contextlib
import time
from typing import Any

from oslo_config import cfg
from oslo_log import log
import requests
import urllib3.exceptions

from stillframe import exceptions
from stillframe.clients import digesting
from stillframe.clients import images

LOG = log.getLogger(__name__)

_ALGORITHM = 'sha256'
_CONNECT_TIMEOUT = 20.0
_PIECE = 1 << 20
# Seconds to see what an upload has left that was ended from here, and of
# silence meanwhile: somebody may wait for this process to end.
_PARTING = 30.0
_PARTING_SILENCE = 5.0
_TAKEN = frozenset((200, 201, 204))
_TROUBLE = frozenset((408, 409, 425, 429))
_FULL = frozenset((413, 507))
_GONE = frozenset((404, 410))


class _Sized:
    """Data with a length, which makes the client announce it.

    :ivar passage: what digests it.
    :ivar given: bytes that the client took, and may have sent.
    """

    def __init__(self, passage: digesting.Passage, length: int):
        self.passage = passage
        self._length = length
        self.given = 0

    def __len__(self) -> int:
        return self._length

    def read(self, size: int = -1) -> bytes:
        """Give some bytes."""
        data = self.passage.read(_PIECE if size < 0 else size)
        self.given += len(data)
        return data


def check(conf: cfg.ConfigOpts, url: str) -> None:
    """See that nothing is there, before an image is made.

    :param conf: ``[images]url_cafile`` and ``silence_timeout`` are read.
    :raises ImageRefused: there is something.
    :raises StoreUnavailable: the server does not answer.
    """
    with _session(conf) as (session, more):
        _refuse_taken(session, url, more)


def put(conf: cfg.ConfigOpts, url: str, source: images.Source, length: int,
        progress: images.Progress) -> images.Stored:
    """Send an image.

    :param conf: ``[images]url_cafile``, ``silence_timeout`` and
        ``max_duration`` are read.
    :param source: also begun again, to compare what a PUT that was ended
        has left.
    :param length: bytes of the image.
    :raises ImageRefused: the server does not take it.
    :raises ImageStoreFull: it has no room.
    :raises ImageDamaged: something else arrived, or nobody can tell.
    :raises StoreUnavailable: it does not answer, or has trouble.
    :raises: what ``source`` and ``progress`` raise.
    """
    name = url.rpartition('/')[2]
    with _session(conf) as (session, more):
        # Not every server knows the condition below.
        _refuse_taken(session, url, more)
        until = time.monotonic() + conf.images.max_duration
        passage = digesting.Passage(source(), _ALGORITHM, progress)
        data = _Sized(passage, length)
        status = None
        try:
            with contextlib.closing(passage), _told():
                answer = session.put(url, data=data, headers={
                    'Content-Type': 'application/octet-stream',
                    'If-None-Match': '*'}, **more)
                status = answer.status_code
            _judge(name, status)
            stored = passage.stored()
            if stored.size != length:
                raise images.ImageDamaged(
                    image=name, reason=f'{stored.size} bytes were sent of '
                    f'{length}.')
        # All of them: what source and progress raise is not known here, and
        # each can leave half an image. It goes on to the caller.
        except Exception as exc:
            check = _within(name, until, lambda: progress(data.given))
            if not isinstance(exc, (images.StoreUnavailable,
                                    images.ImageStoreFull)):
                check = _within(name, time.monotonic() + _PARTING)
                more = more | {'timeout': _PARTING_SILENCE}
            # What was refused was not begun.
            if (status is None or status in _TAKEN or status >= 500
                    or status == 408):
                _clear(session, url, more, source, data, check)
            raise
        try:
            if _read(session, url, more, range(length + 1),
                     _within(name, until)) != stored:
                raise images.ImageDamaged(
                    image=name, reason=f'{stored.size} bytes were sent, and '
                    'what can be read back is not the same.')
        except images.ImageDamaged:
            _delete(session, url, more)
            raise
        return stored


def remove(conf: cfg.ConfigOpts, url: str) -> None:
    """Remove half an image; that it cannot be is only logged.

    :param conf: ``[images]url_cafile`` and ``silence_timeout`` are read.
    """
    with _session(conf) as (session, more):
        _delete(session, url, more)


def _clear(session: requests.Session, url: str, more: dict[str, Any],
           source: images.Source, data: _Sized, check: images.Check) -> None:
    """Remove what a PUT that failed has left half there.

    When it is the whole image it stays, and the next try finds it: only the
    answer was lost. What is not the beginning of the image is another one's.

    :param data: what was sent.
    :param check: ends it when it takes too long.
    """
    name = url.rpartition('/')[2]
    try:
        found = _read(session, url, more, range(data.given + 1), check)
        if found is None:
            return
        # The source may be what failed.
        ours = (found == data.passage.stored()
                or digesting.begins(source, found, check))
    except exceptions.StillframeError as exc:
        LOG.warning('What may be left of image %s on its web server stays, '
                    'for nobody can tell whose it is: %s', name, exc)
        return
    if not ours:
        LOG.warning('Image %s on its web server stays: it is not what was '
                    'sent there', name)
    elif found.size < len(data):
        _delete(session, url, more)


def _delete(session: requests.Session, url: str, more: dict[str, Any]
            ) -> None:
    """Let the same name be used again, if the server lets us."""
    try:
        status = session.delete(url, **more).status_code
        said = '' if status < 300 or status in _GONE else f'HTTP {status}'
    except requests.exceptions.RequestException as exc:
        said = type(exc).__name__
    if said:
        LOG.warning('What may be left of image %s on its web server could '
                    'not be removed: %s', url.rpartition('/')[2], said)


def _within(name: str, until: float,
            further: images.Check = images.unchecked) -> images.Check:
    """Make a check that ends what takes too long.

    :param until: of the monotonic clock.
    :param further: called too.
    """
    def check() -> None:
        further()
        if time.monotonic() > until:
            raise images.ImageDamaged(
                image=name, reason='it could not be read back in time, which '
                'is [images]max_duration at most.')

    return check


def _refuse_taken(session: requests.Session, url: str,
                  more: dict[str, Any]) -> None:
    with _told():
        there = session.head(url, **more).status_code == 200
    _judge(url.rpartition('/')[2], 412 if there else 200)


@contextlib.contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except (requests.exceptions.RequestException,
            urllib3.exceptions.HTTPError) as exc:
        raise images.StoreUnavailable(
            reason=f'the web server for images: {type(exc).__name__}'
        ) from exc


def _judge(name: str, status: int) -> None:
    """Say what a status means."""
    if status in _TAKEN:
        return
    if status == 412:
        raise images.ImageRefused(
            image=name, reason='there is one of that name. Choose another '
            'one.')
    if status in _FULL:
        raise images.ImageStoreFull(
            image=name, reason=f'its web server says HTTP {status}.')
    if status >= 500 or status in _TROUBLE:
        raise images.StoreUnavailable(
            reason=f'the web server for images says HTTP {status}')
    raise images.ImageRefused(
        image=name, reason=f'its web server says HTTP {status}.')


def holds(conf: cfg.ConfigOpts, url: str, sizes: range, check: images.Check
          ) -> images.Stored | None:
    """Tell what is there, by reading it; None when nothing is.

    :param conf: ``[images]url_cafile`` and ``silence_timeout`` are read.
    :param sizes: bytes that it may have: of what has another size no more
        is read than it takes to know, and it then has an empty digest.
    :param check: called for each piece that is read: a server can give
        them for ever.
    :raises ImageDamaged: it cannot be read.
    :raises StoreUnavailable: the server does not answer, or has trouble.
    :raises: what ``check`` raises.
    """
    with _session(conf) as (session, more):
        return _read(session, url, more, sizes, check)


@contextlib.contextmanager
def _session(conf: cfg.ConfigOpts
             ) -> Iterator[tuple[requests.Session, dict[str, Any]]]:
    with requests.Session() as session:
        session.trust_env = False
        session.verify = conf.images.url_cafile or True
        yield session, {
            'timeout': (_CONNECT_TIMEOUT, conf.images.silence_timeout),
            'allow_redirects': False}


def _read(session: requests.Session, url: str, more: dict[str, Any],
          sizes: range, check: images.Check) -> images.Stored | None:
    """Digest what is there; see :func:`holds`."""
    with _told(), session.get(
            url, stream=True, headers={'Accept-Encoding': 'identity'},
            **more) as answer:
        status = answer.status_code
        if status in _GONE:
            return None
        if status >= 500 or status in _TROUBLE:
            raise images.StoreUnavailable(
                reason=f'the web server for images says HTTP {status}')
        if status != 200:
            raise images.ImageDamaged(
                image=url.rpartition('/')[2], reason='it cannot be read '
                f'back to be compared: HTTP {status}.')
        size = answer.raw.length_remaining
        if size is None or size in sizes:
            found = digesting.digest(_pieces(answer, sizes[-1]), _ALGORITHM,
                                     check)
            if found.size in sizes:
                return found
            size = found.size
        return images.Stored(size, _ALGORITHM, '')


def _pieces(answer: requests.Response, most: int) -> Iterator[bytes]:
    """Give what a server says, and no more than a piece too much of it."""
    # What has come, and not all of a piece: a byte now and then would keep
    # us for ever.
    while most >= 0 and (piece := answer.raw.read1(_PIECE,
                                                   decode_content=False)):
        most -= len(piece)
        yield piece
