# SPDX-License-Identifier: Apache-2.0
"""A folder for one transfer: what is mounted in it, and its end.

It is a file system of its own in memory, with a bound. When it goes, all
that was in it goes at once: secrets, caches, torsos.
"""

import contextlib
import logging
import os
import pathlib
import tempfile
from typing import Self

from stillframe.agent import children
from stillframe.agent import failures

LOG = logging.getLogger(__name__)

_RUN = pathlib.Path('/run')
# Seconds.
_MOUNT = 60.0
_UNMOUNT = 30.0


class Workplace:
    """A context manager; the folder is there inside of it.

    :ivar folder: only root can list it, others may pass through it.
    :ivar left: sentences on what could not be removed.
    """

    def __init__(self, size: int, runner: children.Children):
        """Prepare.

        :param size: bytes that may be written into it.
        :param runner: runs the programs that mount.
        """
        self.left: list[str] = []
        self._size = size
        self._runner = runner
        self._mounts: list[pathlib.Path] = []

    def __enter__(self) -> Self:
        parent = _RUN if os.access(_RUN, os.W_OK) else None
        self.folder = pathlib.Path(
            tempfile.mkdtemp(prefix='stillframe-', dir=parent))
        try:
            self.mount('tmpfs', 'stillframe', self.folder,
                       f'mode=0711,size={self._size}')
        except BaseException:
            self._clear()
            raise
        return self

    def __exit__(self, *_exc: object) -> None:
        self._clear()

    def path(self, name: str) -> pathlib.Path:
        """Give the path of a name in the folder."""
        return self.folder / name

    def mount(self, kind: str, what: str, where: pathlib.Path,
              options: str) -> None:
        """Mount something, to be unmounted at the end.

        :param kind: of file system.
        :raises SendFailed: it cannot be mounted.
        :raises Stopped: the transfer was stopped.
        """
        # Before: one that is killed may have mounted already.
        self._mounts.append(where)
        self._runner.run('mount', '-t', kind, '-o', options, what,
                         str(where), limit=_MOUNT)
        # An exit status has been no proof of it.
        if not os.path.ismount(where):
            raise failures.SendFailed(
                f'Mounting a file system of kind {kind} did not fail, but '
                'nothing is mounted.')

    def write(self, name: str, text: str, mode: int = 0o600
              ) -> pathlib.Path:
        """Write a file.

        :param mode: who may do what with it; if not given only root.
        """
        path = self.path(name)
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with os.fdopen(handle, 'w') as file:
            file.write(text)
        return path

    def _clear(self) -> None:
        while self._mounts:
            where = self._mounts.pop()
            if where == self.folder or _is_mount(where):
                self._unmount(where)
        try:
            self.folder.rmdir()
        except OSError as exc:
            self.leave(f'{self.folder} cannot be removed: {exc.strerror}.')

    def _unmount(self, where: pathlib.Path) -> None:
        # A runner of its own: the transfer's may have been stopped. And no
        # helpers: they would wait for a server, and send it torsos.
        runner = children.Children()
        for argv in (('umount', '-i', str(where)),
                     ('umount', '-i', '-l', str(where))):
            if not _is_mount(where):
                return
            with contextlib.suppress(failures.SendFailed):
                runner.run(*argv, limit=_UNMOUNT)
        if _is_mount(where):
            self.leave(f'{where} cannot be unmounted.')

    def leave(self, sentence: str) -> None:
        """Say what could not be removed."""
        LOG.error('%s', sentence)
        self.left.append(sentence)


def _is_mount(where: pathlib.Path) -> bool:
    """Say whether something is mounted there.

    By the kernel's list: a look into the mount itself may hang.
    """
    listed = pathlib.Path('/proc/self/mounts').read_text()
    # The kernel writes blanks and the like as octal numbers; there are
    # none in our names.
    return any(line.split()[1] == str(where)
               for line in listed.splitlines())
