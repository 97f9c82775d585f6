# SPDX-License-Identifier: Apache-2.0
"""Images that a web server in front receives, on the same disk.

The web server asks here before it takes an upload (nginx: auth_request),
writes it aside and renames it when it is whole::

    PATH/web/incoming/      what is being received, under names of its own
    PATH/web/NAME/image     an image that arrived

What arrived is digested when the agent says that it has sent it. The folder
NAME is there as long as its transfer: an upload that ends later finds no
place to be renamed to.

Which file of ``incoming`` belongs to which transfer nobody tells. They are
numbered as they begin, so the oldest that is not known goes to the transfer
that was let in first.
"""

from collections.abc import Callable
import contextlib
import dataclasses
import hashlib
import os
import pathlib
import re
import shutil
import stat
import threading
import time

from stillframe.conductor.receiver import errors
from stillframe.conductor.receiver import storing
from stillframe.conductor.receiver import transfers
from stillframe.states.transfers import State

_INCOMING = 'incoming'
_NAME = re.compile(r'[0-9a-f]{32}')
# Seconds in which a file that belongs to an upload is expected: a small
# image never has one.
_PATIENCE = 10.0
# Seconds without a byte after which a file belongs to nobody: the web server
# has given up long before, or was killed.
_ABANDONED = 3600.0


@dataclasses.dataclass
class _Upload:
    """An upload that was let in.

    :ivar bound: most bytes that it may have.
    :ivar reserved: bytes that were promised to it.
    :ivar inode: of its file, once it is known.
    :ivar heard: bytes, and when they had been fewer last.
    """

    total: int | None
    bound: int
    reserved: int
    since: float
    inode: int | None = None
    heard: tuple[int, float] = (0, 0.0)


class WebServer:
    """The part of the intermediate store that a web server writes to.

    :param path: of the intermediate store.
    """

    def __init__(self, path: pathlib.Path,
                 clock: Callable[[], float] = time.monotonic):
        self._path = path / 'web'
        self._clock = clock
        self._lock = threading.Lock()
        self._uploads: dict[str, _Upload] = {}

    def own(self) -> None:
        """Make the folders; forget what a former life let in.

        :raises CannotReceive: they cannot be made.
        """
        try:
            (self._path / _INCOMING).mkdir(mode=0o700, parents=True,
                                           exist_ok=True)
        except OSError as exc:
            raise errors.CannotReceive(
                reason=f'its folder cannot be used: {exc.strerror}'
            ) from exc

    def names(self) -> set[str]:
        """Give the names of which there is a folder."""
        try:
            return {one for one in os.listdir(self._path)
                    if _NAME.fullmatch(one)}
        except FileNotFoundError:
            return set()

    def open(self, name: str) -> None:
        """Let the image of a name have a place.

        :raises StoreFailed: it cannot.
        """
        with storing.told():
            (self._path / name).mkdir(mode=0o700)

    def remove(self, name: str) -> None:
        """Remove what a name has; no error when it has nothing.

        :raises OSError: it cannot be removed.
        """
        with self._lock:
            self._uploads.pop(name, None)
        try:
            shutil.rmtree(self._path / name)
        except FileNotFoundError:
            pass

    def tidy(self, now: Callable[[], float] = time.time) -> None:
        """Remove what a web server that was killed has left.

        :raises OSError: it cannot be removed.
        """
        for entry in os.scandir(self._path / _INCOMING):
            try:
                age = now() - entry.stat(follow_symlinks=False).st_mtime
                if age > _ABANDONED:
                    os.unlink(entry.path)
            except FileNotFoundError:
                continue

    def let_in(self, transfer: transfers.Transfer, total: int | None,
               bound: int, reserved: int) -> None:
        """Let an upload begin.

        What arrived before is removed for it.

        :param bound: most bytes that it may have.
        :param reserved: bytes that are promised to it.
        :raises Busy: another one runs.
        :raises StoreFailed: the disk does not work.
        """
        with self._lock:
            sizes = self._look()
            old = self._uploads.get(transfer.name)
            if old is not None and old.inode in sizes:
                age = self._clock() - old.heard[1]
                if age < transfers.SILENT:
                    raise errors.Busy(age=age)
            with storing.told():
                for name in ('image', 'taken'):
                    (self._path / transfer.name / name).unlink(
                        missing_ok=True)
            # Behind those that wait for their file to appear.
            self._uploads.pop(transfer.name, None)
            self._uploads[transfer.name] = _Upload(
                total, bound, reserved, self._clock())

    def outstanding(self) -> int:
        """Tell how many bytes may still come without room of their own.

        :raises StoreFailed: the disk does not work.
        """
        with self._lock:
            sizes = self._look()
            return sum(
                max(0, one.reserved - sizes.get(one.inode or 0, 0))
                for name, one in self._uploads.items()
                if self._image(name) is None)

    def progress(self, transfer: transfers.Transfer
                 ) -> transfers.Received | None:
        """Tell how far an upload is; None when the web server has none.

        :raises StoreFailed: the disk does not work.
        """
        with self._lock:
            sizes = self._look()
            here = self._image(transfer.name)
            upload = self._uploads.get(transfer.name)
            if here is not None:
                return transfers.Received(
                    here, here, State.ARRIVED, False, 0.0, None)
            if upload is None:
                return None
            runs = upload.inode in sizes
            count, since = upload.heard
            elapsed = since - upload.since
            return transfers.Received(
                count if runs else 0, upload.total, State.WAITING, runs,
                count / elapsed if runs and elapsed > 0 else 0.0,
                None if runs or upload.inode is None else
                'The upload to the web server broke off.')

    def take(self, name: str) -> tuple[int, str]:
        """Take an image that arrived out of the web server's hands.

        It may be done again; :meth:`hand_over` follows.

        :return: bytes, and the SHA-256 of it, hexadecimal.
        :raises NotArrived: there is none.
        :raises TooLarge: it has more bytes than it might have.
        :raises StoreFailed: it cannot be read.
        """
        arrived = self._path / name / 'image'
        taken = self._path / name / 'taken'
        with storing.told():
            try:
                # Nothing that comes later can touch it then.
                os.rename(arrived, taken)
            except FileNotFoundError:
                if not taken.exists():
                    raise errors.NotArrived(
                        reason='the web server has no whole image of '
                        'it') from None
            size, sha256 = _digest(taken)
        with self._lock:
            upload = self._uploads.get(name)
        # After a restart nobody knows any more what it was let in for.
        if upload is not None and size > upload.bound:
            raise errors.TooLarge(size=size, limit=upload.bound)
        return size, sha256

    def hand_over(self, name: str, folder: storing.Folder) -> None:
        """Put an image that was taken where all images are.

        :raises StoreFailed: that cannot be done.
        """
        with storing.told():
            os.rename(self._path / name / 'taken', folder.image(name))
            folder.sync()

    def _image(self, name: str) -> int | None:
        """Give the size of an image that arrived."""
        for part in ('image', 'taken'):
            with storing.told(), contextlib.suppress(FileNotFoundError):
                return (self._path / name / part).stat().st_size
        return None

    def _look(self) -> dict[int, int]:
        """See which files there are; give their sizes by inode."""
        now = self._clock()
        with storing.told():
            sizes = _sizes(self._path / _INCOMING)
        known = {one.inode for one in self._uploads.values()}
        waiting = [one for one in self._uploads.values()
                   if one.inode is None and now - one.since < _PATIENCE]
        for inode in sizes:
            if inode not in known and waiting:
                waiting.pop(0).inode = inode
        for one in self._uploads.values():
            size = sizes.get(one.inode or 0, 0)
            if size != one.heard[0]:
                one.heard = (size, now)
        return sizes


def _sizes(folder: pathlib.Path) -> dict[int, int]:
    """Give the sizes of its files by inode, by the order of their names."""
    sizes: dict[int, int] = {}
    for entry in sorted(os.scandir(folder), key=lambda one: one.name):
        with contextlib.suppress(FileNotFoundError):
            status = entry.stat(follow_symlinks=False)
            sizes[status.st_ino] = status.st_size
    return sizes


def _digest(path: pathlib.Path) -> tuple[int, str]:
    """Digest a file, and see that it is on the disk."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
                     | os.O_CLOEXEC)
    with open(handle, 'rb', buffering=0) as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise errors.StoreFailed(reason='it is no regular file')
        os.fchmod(handle, 0o600)
        digest = hashlib.file_digest(file, 'sha256')
        os.fsync(handle)
        return file.tell(), digest.hexdigest()
