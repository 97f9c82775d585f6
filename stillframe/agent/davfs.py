# SPDX-License-Identifier: Apache-2.0
"""The transport ``davfs``: mount the receiver with davfs2, and qemu-img.

davfs2 keeps a whole file in its cache until it is closed, uploads it then,
and reports success whatever becomes of that: qemu-img, fsync and umount
have all ended well for files that never arrived, or arrived as torsos. So:

- the room that the cache needs is measured before anything is mounted;
- the digest is taken of what is in the cache, before it is uploaded;
- a mount whose copy failed loses its daemon before it is unmounted, since
  an orderly end would upload the torso;
- nothing has arrived before the receiver was asked, and said so.
"""

import contextlib
import logging
import os
import pathlib
import select
import shutil
import signal
import urllib.parse

from stillframe.agent import arrival
from stillframe.agent import children
from stillframe.agent import converting
from stillframe.agent import credentials
from stillframe.agent import disks
from stillframe.agent import failures
from stillframe.agent import mounted
from stillframe.agent import workplace
from stillframe.qcow2 import writer

LOG = logging.getLogger(__name__)

_DAEMON = 'mount.davfs'
# As whom the daemon works; a cache that belongs to others it refuses.
_GROUP = 'davfs2'
# Bytes of memory to be left for everything else.
_RESERVE = 64 << 20
# Seconds: for the daemon to do what it does beside moving data, and for a
# killed one to be gone.
_IDLE = 15.0
_GONE = 10.0

# delay_upload: seconds after a file was closed. An unmount uploads at once,
# and before that one nothing shall be: qemu-img closes the file once when it
# has made it, and once when it has failed.
# use_locks, drop_weak_etags: some servers refuse the PUT otherwise.
_CONFIGURATION = """\
secrets {folder}/secrets
cache_dir {folder}/cache
{trust}ask_auth 0
use_locks 0
drop_weak_etags 1
delay_upload 86400
read_timeout {timeout}
"""


class Transfer(mounted.Mounted):
    """One disk on its way through davfs2."""

    def _check(self) -> None:
        children.need(_DAEMON)
        # Of use in the end, when the whole disk has been copied.
        credentials.context(self._order)

    def _room(self, layout: writer.Layout) -> int:
        needed = layout.length + converting.SLACK
        free = _available() - _RESERVE
        if needed > free:
            raise failures.SendFailed(
                f'davfs2 keeps the whole image in memory: {needed >> 20} MiB '
                f'are needed and {max(0, free) >> 20} MiB are free. The '
                'transport webdav needs none.')
        return needed

    def _send(self, disk: disks.Disk, place: workplace.Workplace
              ) -> tuple[int, str]:
        url, _, name = self._order.url.rpartition('/')
        where = place.path('mount')
        try:
            self._mount(place, url + '/', where)
            target = where / urllib.parse.unquote(name)
            # There is no cache but that of davfs2, which is asked in the
            # end; and to sync it means nothing.
            converting.convert(self._runner, self._order, disk.name, target,
                               'unsafe')
            size, sha256 = converting.digest(
                _cached(place.path('cache'), target.name), self._runner)
            self._upload(where)
        finally:
            # Of one that has ended well there is no daemon any more.
            _kill(where)
        arrival.verify(self._order, size, sha256)
        return size, sha256

    def _mount(self, place: workplace.Workplace, url: str,
               where: pathlib.Path) -> None:
        order = self._order
        cache = place.path('cache')
        where.mkdir()
        cache.mkdir()
        try:
            shutil.chown(cache, group=_GROUP)
        except LookupError:
            raise failures.BadOrder(
                f'This ramdisk has no group {_GROUP}, which {_DAEMON} '
                'needs.') from None
        cache.chmod(0o770)
        trust = ''
        if order.ca:
            # Read by the daemon, which does not work as root.
            trusted = place.write('ca.pem', order.ca, 0o644)
            trust = f'trust_ca_cert {trusted}\n'
        place.write('secrets', ' '.join(map(_quoted, (
            url, order.username, order.password))) + '\n')
        configuration = place.write('conf', _CONFIGURATION.format(
            folder=place.folder, trust=trust,
            timeout=max(1, round(order.timeout))))
        place.mount('davfs', url, where, f'conf={configuration}')

    def _upload(self, where: pathlib.Path) -> None:
        """Unmount in order, which waits until all was uploaded."""
        pid = _daemon(where)
        if pid is None:
            raise failures.SendFailed(
                'The daemon of davfs2 ended before the image was uploaded.')
        self._runner.run(
            'umount', str(where), silence=self._order.timeout + _IDLE,
            watch=lambda _pid: children.moved(pid))


def _quoted(text: str) -> str:
    """Write a word as davfs2's files have it."""
    return '"' + text.replace('\\', '\\\\').replace('"', '\\"') + '"'


def _available() -> int:
    """Tell how much memory could be had, in bytes."""
    for line in pathlib.Path('/proc/meminfo').read_text().splitlines():
        if line.startswith('MemAvailable:'):
            return int(line.split()[1]) << 10
    return 0


def _cached(cache: pathlib.Path, name: str) -> pathlib.Path:
    """Find the file in which the daemon keeps what was written."""
    found = list(cache.glob(f'*/{name}-*'))
    if len(found) != 1:
        raise failures.SendFailed(
            'The image is not in the cache of davfs2 any more.')
    return found[0]


def _daemon(where: pathlib.Path) -> int | None:
    """Find the process that serves a mount."""
    for process in pathlib.Path('/proc').glob('[0-9]*'):
        try:
            words = (process / 'cmdline').read_bytes().split(b'\0')
        except OSError:
            # It has ended since it was listed.
            continue
        if (os.path.basename(words[0]) == _DAEMON.encode()
                and os.fsencode(where) in words):
            return int(process.name)
    return None


def _kill(where: pathlib.Path) -> None:
    """End the daemon of a mount at once, if there still is one."""
    pid = _daemon(where)
    if pid is None:
        return
    LOG.warning('ending the daemon of davfs2, which still runs')
    with contextlib.suppress(ProcessLookupError):
        handle = os.pidfd_open(pid)
        try:
            signal.pidfd_send_signal(handle, signal.SIGKILL)
            select.select([handle], [], [], _GONE)
        finally:
            os.close(handle)
    _forget(pid)


def _forget(pid: int) -> None:
    """Remove what a killed daemon leaves, which would hinder the next."""
    for path in pathlib.Path('/run/mount.davfs').glob('*.pid'):
        with contextlib.suppress(OSError, ValueError):
            if int(path.read_text()) == pid:
                path.unlink()
