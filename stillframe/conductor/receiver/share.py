# SPDX-License-Identifier: Apache-2.0
"""Images that ramdisks write to an NFS share of this host.

A share has no credentials, and who has a file open there can write to it as
long as he likes. So an image counts only once it was copied into the
receiver's own folder, digested on the way; from there on it is like one
that was sent. What is on the share is trusted in nothing: not in being a
file, not in its size.
"""

from collections.abc import Iterator
import contextlib
import os
import pathlib
import stat
import threading

from stillframe.conductor.receiver import body as bodies
from stillframe.conductor.receiver import errors
from stillframe.conductor.receiver import intake as intakes
from stillframe.conductor.receiver import storing
from stillframe.conductor.receiver import transfers


class Share:
    """The folder that ramdisks mount.

    :param url: what they mount, ``nfs://host/folder``.
    :param path: where it is here.
    """

    def __init__(self, url: str, path: pathlib.Path):
        self._url = url.rstrip('/')
        self._path = path

    def url(self, name: str) -> str:
        """Tell where the image of a name is to be written.

        :raises CannotReceive: the folder is not here.
        """
        if not self._path.is_dir():
            raise errors.CannotReceive(reason='share_path is no folder')
        return f'{self._url}/{name}'

    def grown(self, name: str) -> int:
        """Tell how many bytes there are of the image of a name.

        :raises StoreFailed: the share does not tell.
        """
        with storing.told(), contextlib.suppress(FileNotFoundError):
            return os.lstat(self._path / name).st_size
        return 0

    def collect(self, transfer: transfers.Transfer,
                intake: intakes.Intake) -> None:
        """Copy an image into the receiver's folder; it has arrived then.

        :raises NotArrived: there is none.
        :raises BadImage: it is no file of its own.
        :raises ReceiverError: it was not copied.
        """
        cut = threading.Event()
        with self._opened(transfer.name) as (handle, size):

            def read(into: memoryview) -> int:
                if cut.is_set():
                    raise errors.Revoked()
                return os.readv(handle, [into])

            # It may become what it is now.
            intake.receive(transfer, bodies.Body(read, b'', size), size,
                           size, cut.set)

    @contextlib.contextmanager
    def _opened(self, name: str) -> Iterator[tuple[int, int]]:
        try:
            # Neither follows a link nor waits for the end of a pipe.
            handle = os.open(self._path / name, os.O_RDONLY | os.O_NOFOLLOW
                             | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            raise errors.NotArrived(
                reason='there is nothing on the share') from None
        except OSError as exc:
            raise errors.NotArrived(
                reason='what is on the share cannot be opened: '
                f'{exc.strerror}') from exc
        try:
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1:
                raise errors.BadImage(
                    reason='what is on the share is no file of its own')
            yield handle, status.st_size
        finally:
            os.close(handle)

    def remove(self, name: str) -> None:
        """Remove the image of a name; no error when there is none.

        :raises OSError: it cannot be removed.
        """
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._path / name)
