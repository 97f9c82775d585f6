# SPDX-License-Identifier: Apache-2.0
"""Files of the intermediate store: written aside, whole or not at all.

``NAME.part`` is being written; ``NAME.image`` arrived. Nobody but this
process can read them. One thread reads from the network; a second one
digests and writes what came, which both give up Python's lock for.
"""

import collections
from collections.abc import Iterator
from concurrent import futures
import contextlib
import ctypes
import errno
import fcntl
import hashlib
import os
import pathlib
from typing import Any

from oslo_log import log

from stillframe.conductor.receiver import body as bodies
from stillframe.conductor.receiver import errors

LOG = log.getLogger(__name__)

_PART = '.part'
_IMAGE = '.image'
_SUFFIXES = (_PART, _IMAGE)

# Bytes that are digested and written at a time, and how many such pieces
# there are: what one upload costs in memory.
_PIECE = 1 << 20
_PIECES = 3
# How much may be on its way to the disk, twice: what is written last is all
# that the agent waits for at the end.
_SYNC_EVERY = 256 << 20

# From linux/falloc.h: the file does not grow by it.
_FALLOC_FL_KEEP_SIZE = 1
_libc = ctypes.CDLL(None, use_errno=True)


class Folder:
    """The intermediate store.

    :param path: its folder; made on demand.
    :param reserve: bytes that have to stay free.
    """

    def __init__(self, path: pathlib.Path, reserve: int):
        self._path = path
        self._reserve = reserve
        self._owner = -1

    def own(self) -> None:
        """Make the folder on demand, and keep others out until release().

        :raises CannotReceive: it cannot be had.
        """
        if self._owner >= 0:
            return
        try:
            self._path.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.chmod(self._path, 0o700)
            owner = os.open(self._path / '.owner', os.O_WRONLY | os.O_CREAT
                            | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except OSError as exc:
            raise errors.CannotReceive(
                reason=f'its folder cannot be used: {exc.strerror}'
            ) from exc
        try:
            fcntl.flock(owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as exc:
            os.close(owner)
            raise errors.CannotReceive(
                reason='another conductor uses its folder; each needs a '
                'path of its own') from exc
        self._owner = owner

    def release(self) -> None:
        """Let others have the folder; no error when nobody owned it."""
        if self._owner >= 0:
            os.close(self._owner)
            self._owner = -1

    def image(self, name: str) -> pathlib.Path:
        """Give the path of an image that arrived."""
        return self._path / f'{name}{_IMAGE}'

    def free(self) -> int:
        """Tell how many bytes may be used; 0 when the reserve is touched.

        :raises StoreFailed: the file system does not tell.
        """
        with told():
            stat = os.statvfs(self._path)
        return max(0, stat.f_bavail * stat.f_frsize - self._reserve)

    def names(self) -> set[str]:
        """Give the names of which there is a file."""
        return {one.name.removesuffix(suffix)
                for suffix in _SUFFIXES
                for one in self._path.glob(f'*{suffix}')}

    def remove(self, name: str) -> None:
        """Remove the files of a name; no error when there are none.

        :raises OSError: one of them cannot be removed.
        """
        for suffix in _SUFFIXES:
            (self._path / f'{name}{suffix}').unlink(missing_ok=True)

    def remove_part(self, name: str) -> None:
        """Remove what an upload that was killed left."""
        (self._path / f'{name}{_PART}').unlink(missing_ok=True)

    def begin(self, name: str, size: int) -> 'Incoming':
        """Begin a file that will not be larger than some size.

        Room for it is taken at once where the file system can do that.

        :raises StoreFull: there is none.
        :raises StoreFailed: the file cannot be made.
        """
        with told():
            path = self._path / f'{name}{_PART}'
            path.unlink(missing_ok=True)
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL
                             | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        incoming = Incoming(self, name, handle)
        try:
            incoming.allocate(size)
        except BaseException:
            # Whatever it was, nobody else knows of the open file.
            incoming.discard()
            raise
        return incoming

    def keep(self, name: str) -> None:
        """Make a part that was written and synced the image of its name."""
        part = self._path / f'{name}{_PART}'
        with told():
            os.rename(part, self.image(name))
            self.sync()

    def sync(self) -> None:
        """See that names are on the disk."""
        handle = os.open(self._path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


@contextlib.contextmanager
def told(what: str = '') -> Iterator[None]:
    """Say of an operating-system error what it means for an image.

    :param what: failed; its reason follows.
    :raises StoreFailed: in its place.
    """
    try:
        yield
    except OSError as exc:
        raise errors.StoreFailed(
            reason=what + (exc.strerror or type(exc).__name__)) from exc


class Incoming:
    """One image while it is written; see :meth:`Folder.begin`.

    :ivar allocated: whether its room on the disk is its own.
    """

    def __init__(self, folder: Folder, name: str, handle: int):
        self._folder = folder
        self._name = name
        self._handle = handle
        self._size = 0
        self.allocated = False

    def allocate(self, size: int) -> None:
        """Take room; see :meth:`Folder.begin`."""
        if not size or not hasattr(_libc, 'fallocate'):
            return
        if _libc.fallocate(self._handle, _FALLOC_FL_KEEP_SIZE,
                           ctypes.c_int64(0), ctypes.c_int64(size)) == 0:
            self.allocated = True
            return
        code = ctypes.get_errno()
        if code in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise errors.StoreFull(needed=size, free=self._folder.free())
        LOG.debug('No room is allocated ahead: %s', os.strerror(code))

    def receive(self, body: bodies.Body, limit: int) -> str:
        """Write a body to the file, to its end.

        :param limit: most bytes that are taken.
        :return: the SHA-256 of it, hexadecimal.
        :raises TooLarge: there are more.
        :raises StoreFull: there is no more room.
        :raises StoreFailed: the disk does not take it.
        :raises: what the body raises.
        """
        digest = hashlib.sha256()
        pieces = [memoryview(bytearray(_PIECE)) for _ in range(_PIECES)]
        busy: collections.deque[futures.Future] = collections.deque()
        syncing: futures.Future | None = None
        synced = turn = 0
        with (futures.ThreadPoolExecutor(1, 'receive-write') as writer,
              futures.ThreadPoolExecutor(1, 'receive-sync') as syncer):
            while True:
                if len(busy) == _PIECES:
                    busy.popleft().result()
                piece = pieces[turn % _PIECES]
                turn += 1
                count = body.fill(piece)
                if body.taken > limit:
                    raise errors.TooLarge(
                        size=f'more than {limit}', limit=limit)
                if not count:
                    break
                busy.append(writer.submit(
                    self._take, piece[:count], digest))
                if body.taken - synced >= _SYNC_EVERY:
                    if syncing is not None:
                        syncing.result()
                    synced = body.taken
                    syncing = syncer.submit(self._sync)
            for one in (*busy, *filter(None, [syncing])):
                one.result()
        self._size = body.taken
        return digest.hexdigest()

    def _sync(self) -> None:
        try:
            os.fdatasync(self._handle)
        except OSError as exc:
            raise self._error(exc) from exc

    def _take(self, piece: memoryview, digest: Any) -> None:
        digest.update(piece)
        try:
            while piece:
                piece = piece[os.write(self._handle, piece):]
        except OSError as exc:
            raise self._error(exc) from exc

    def _error(self, exc: OSError) -> errors.ReceiverError:
        if exc.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            return errors.StoreFull(needed='more', free=self._folder.free())
        return errors.StoreFailed(
            reason=exc.strerror or type(exc).__name__)

    def finish(self) -> int:
        """See that all of it is on the disk, and give its size.

        :raises StoreFailed: it is not.
        :raises StoreFull: the same.
        """
        try:
            # What was allocated beyond its end is given back.
            os.ftruncate(self._handle, self._size)
            os.fsync(self._handle)
        except OSError as exc:
            raise self._error(exc) from exc
        finally:
            self.close()
        return self._size

    def close(self) -> None:
        """Close the file; no error when it was closed."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1

    def discard(self) -> None:
        """Remove what was written."""
        self.close()
        self._folder.remove_part(self._name)
