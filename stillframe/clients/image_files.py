# SPDX-License-Identifier: Apache-2.0
"""An image as a file below a folder that the operator named.

No symbolic link is followed below that folder, nothing that is there is
replaced, and a file is there as a whole or not at all.
"""

from collections.abc import Iterable
from collections.abc import Iterator
import contextlib
import errno
import os
import stat
import urllib.parse

from stillframe.clients import digesting
from stillframe.clients import images

_ALGORITHM = 'sha256'
_MODE = 0o640


def write(path: str, prefixes: Iterable[str], source: images.Source,
          length: int, progress: images.Progress) -> images.Stored:
    """Write an image.

    :param path: where; a folder that is missing is not made.
    :param prefixes: URLs; it has to be below one that is of a folder.
    :param length: bytes of the image.
    :raises ImageRefused: it cannot be written there.
    :raises ImageStoreFull: there is no room.
    :raises ImageDamaged: something else was written.
    :raises StoreUnavailable: the file system has trouble.
    :raises: what ``source`` raises.
    """
    name = os.path.basename(path)
    with _told(name), _folder(path, prefixes) as folder:
        _nothing_there(name, folder)
        with _unnamed(folder, name) as handle:
            _take_room(handle, length)
            passage = digesting.Passage(source(), _ALGORITHM, progress)
            with contextlib.closing(passage):
                for piece in passage:
                    while piece:
                        piece = piece[os.write(handle, piece):]
            os.fsync(handle)
            stored = passage.stored()
            if not stored.size == os.fstat(handle).st_size == length:
                raise images.ImageDamaged(
                    image=name, reason=f'{stored.size} bytes were written '
                    f'of {length}.')
            os.link(f'/proc/self/fd/{handle}', name, dst_dir_fd=folder)
        os.fsync(folder)
    return stored


def check(path: str, prefixes: Iterable[str]) -> None:
    """See that an image could be written, before one is made.

    :raises ImageRefused: its folder is not there, or its name is taken.
    :raises StoreUnavailable: the file system has trouble.
    """
    name = os.path.basename(path)
    with _told(name), _folder(path, prefixes) as folder:
        _nothing_there(name, folder)


def holds(path: str, prefixes: Iterable[str], sizes: range | None = None,
          check: images.Check = images.unchecked) -> images.Stored | None:
    """Tell what is there; None when nothing is.

    Asked by who takes over from a try that was killed, so what that left
    beside the name is removed.

    :param sizes: bytes that it may have: what has another size is not
        read, and then has an empty digest; None for any.
    :param check: called for each piece that is read.
    :raises ImageRefused: it cannot be looked at.
    :raises: what ``check`` raises.
    :raises StoreUnavailable: the file system has trouble.
    """
    name = os.path.basename(path)
    with _told(name), _folder(path, prefixes) as folder:
        with contextlib.suppress(OSError):
            # Of no matter for the answer; who writes next hears of it.
            os.unlink(_part(name), dir_fd=folder)
        try:
            # Not waiting, for a named pipe would hold us for ever.
            handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW
                             | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
        except FileNotFoundError:
            return None
        with open(handle, 'rb', buffering=0) as file:
            found = os.fstat(handle)
            if not stat.S_ISREG(found.st_mode):
                return None
            if sizes is not None and found.st_size not in sizes:
                return images.Stored(found.st_size, _ALGORITHM, '')
            return digesting.digest(digesting.pieces(file), _ALGORITHM,
                                    check)


@contextlib.contextmanager
def _told(name: str) -> Iterator[None]:
    """Say of an operating-system error what it means for an image.

    Never the operator's folders: who named the image need not know them.
    """
    try:
        yield
    except FileExistsError as exc:
        raise images.ImageRefused(
            image=name, reason='there is a file of that name. Choose '
            'another one.') from exc
    except FileNotFoundError as exc:
        raise images.ImageRefused(
            image=name, reason='its folder is not there. An '
            'administrator has to make it, where the conductor is.'
        ) from exc
    except NotADirectoryError as exc:
        raise images.ImageRefused(
            image=name, reason='its folder is none, or is a symbolic '
            'link.') from exc
    except PermissionError as exc:
        raise images.ImageRefused(
            image=name, reason='the conductor may not write there.'
        ) from exc
    except OSError as exc:
        if exc.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise images.ImageStoreFull(
                image=name, reason=f'{exc.strerror}.') from exc
        if exc.errno in (errno.ELOOP, errno.ENAMETOOLONG):
            raise images.ImageRefused(
                image=name, reason=f'{exc.strerror}.') from exc
        raise images.StoreUnavailable(
            reason=f'folder of images: {exc.strerror}') from exc


@contextlib.contextmanager
def _folder(path: str, prefixes: Iterable[str]) -> Iterator[int]:
    """Open the folder of a path, step by step below its prefix."""
    base = _base(path, prefixes)
    handle = os.open(base, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in os.path.dirname(path[len(base):]).split('/'):
            if part in ('', '.'):
                continue
            if part == '..':
                raise NotADirectoryError(errno.ENOTDIR, 'not a folder')
            below = os.open(part, os.O_RDONLY | os.O_DIRECTORY
                            | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=handle)
            os.close(handle)
            handle = below
        yield handle
    finally:
        os.close(handle)


def _base(path: str, prefixes: Iterable[str]) -> str:
    folders = [urllib.parse.urlsplit(one).path.rstrip('/') + '/'
               for one in prefixes if one.lower().startswith('file:///')]
    for folder in sorted(folders, key=len, reverse=True):
        if path.startswith(folder) and len(path) > len(folder):
            return folder
    raise images.ImageRefused(
        image=os.path.basename(path), reason='no administrator allows '
        'images there ([images]url_prefixes).')


@contextlib.contextmanager
def _unnamed(folder: int, name: str) -> Iterator[int]:
    """Open a file without a name: it is gone when nobody has it open."""
    temporary = None
    try:
        handle = os.open('.', os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC,
                         _MODE, dir_fd=folder)
    except OSError as exc:
        if exc.errno not in (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL):
            raise
        # A file system without them, such as NFS.
        temporary = _part(name)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=folder)
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL
                         | os.O_NOFOLLOW | os.O_CLOEXEC, _MODE,
                         dir_fd=folder)
    try:
        yield handle
    finally:
        os.close(handle)
        if temporary is not None:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary, dir_fd=folder)


def _part(name: str) -> str:
    """Give the name under which an image is written where it needs one.

    The same each time, so that it is known what a killed try left. No
    image has such a name: none may begin with a dot.
    """
    return f'.{name}.part'


def _nothing_there(name: str, folder: int) -> None:
    """Find out before all is written; the link at the end does for sure."""
    with contextlib.suppress(FileNotFoundError):
        os.stat(name, dir_fd=folder, follow_symlinks=False)
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))


def _take_room(handle: int, length: int) -> None:
    """See that there is room, without writing."""
    room = os.fstatvfs(handle)
    if room.f_bavail * room.f_frsize < length:
        raise OSError(
            errno.ENOSPC, f'it needs {length} bytes, and '
            f'{room.f_bavail * room.f_frsize} are free')
