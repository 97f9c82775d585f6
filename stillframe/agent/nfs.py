# SPDX-License-Identifier: Apache-2.0
"""The transport ``nfs``: mount a share, and qemu-img.

The url of the order, ``nfs://host/folder/name``, names a file in a folder
that the host exports. It is written past this client's cache, since that
would lose the errors of a server that is full. And it is read again through
a second mount: that is the digest of what the server has.
"""

import os
import pathlib
import urllib.parse

from stillframe.agent import addresses
from stillframe.agent import children
from stillframe.agent import converting
from stillframe.agent import disks
from stillframe.agent import failures
from stillframe.agent import mounted
from stillframe.agent import workplace
from stillframe.qcow2 import writer

# Memory for the mount points alone.
_ROOM = 1 << 20
# Seconds to remove a file.
_REMOVE = 60.0
# Tenths of a second until a request is repeated, and how often: a server
# that is gone becomes an error, where a hard mount would hang.
_PATIENCE = 'soft,timeo=150,retrans=3'


class Transfer(mounted.Mounted):
    """One disk on its way to an NFS share."""

    #: Kind of file system, and what is said to ``mount`` of it.
    kind = 'nfs'
    options = f'{_PATIENCE},nosuid,nodev,noexec'

    def _check(self) -> None:
        children.need(f'mount.{self.kind}')

    def _room(self, layout: writer.Layout) -> int:
        return _ROOM

    def _share(self) -> tuple[str, str]:
        """Take the url apart: what to mount, and the file's name."""
        url = urllib.parse.urlsplit(self._order.url)
        folder, _, name = urllib.parse.unquote(url.path).rpartition('/')
        if not name or name in ('.', '..') or '\0' in url.path:
            raise failures.BadOrder('The url of the order names no file.')
        host = addresses.in_url(url.hostname or '')
        return f'{host}:{folder or "/"}', name

    def _send(self, disk: disks.Disk, place: workplace.Workplace
              ) -> tuple[int, str]:
        share, name = self._share()
        target = self._mount(place, share, 'write', 'rw') / name
        try:
            # Only what we have made ourselves is written over.
            handle = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL
                             | os.O_CLOEXEC, 0o600)
        except OSError as exc:
            raise failures.SendFailed(
                f'The file cannot be made: {exc.strerror}.') from exc
        try:
            try:
                # Past this client's cache; a server that is full is heard
                # of by who writes then, and not by nobody.
                converting.convert(self._runner, self._order, disk.name,
                                   target, 'none')
                _sync(handle)
            finally:
                os.close(handle)
            self._runner.run('umount', str(target.parent),
                             silence=self._order.timeout)
        except BaseException:
            self._remove(target, place)
            raise
        again = self._mount(place, share, 'read', 'ro') / name
        return converting.digest(again, self._runner)

    def _mount(self, place: workplace.Workplace, share: str, name: str,
               how: str) -> pathlib.Path:
        where = place.path(name)
        where.mkdir()
        place.mount(self.kind, share, where, f'{how},{self.options}')
        return where

    def _remove(self, target: pathlib.Path,
                place: workplace.Workplace) -> None:
        """Remove a torso, if its server still answers."""
        try:
            # In a process: a thread that hangs there could not be ended.
            children.Children().run('rm', '-f', '--', str(target),
                                    limit=_REMOVE)
        except failures.SendFailed as exc:
            place.leave(f'The unfinished file {target.name} is left on the '
                        f'share: {exc}')


def _sync(handle: int) -> None:
    """Hear of each write that failed since the handle was opened.

    :raises SendFailed: one did.
    """
    try:
        os.fsync(handle)
    except OSError as exc:
        raise failures.SendFailed(
            f'The share did not take all of it: {exc.strerror}.') from exc
