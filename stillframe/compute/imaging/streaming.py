# SPDX-License-Identifier: Apache-2.0
"""From an export to an image store, as a qcow2 image made on the way.

Memory is a few pieces and one byte for each 64 KiB of the disk; nothing is
written to this host's disks.
"""

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
import dataclasses
import os
import threading

from oslo_log import log

from stillframe.clients import images
from stillframe.compute import clock
from stillframe.nbd import client
from stillframe.qcow2 import allocation
from stillframe.qcow2 import writer

LOG = log.getLogger(__name__)

# Bytes of one read. Larger ones were slower when measured: the data falls
# out of the processor's cache between reading and digesting.
_PIECE = 1 << 20
_AHEAD = 2


class Interrupted(Exception):
    """This worker is stopping."""


class TooLong(Exception):
    """The time for an image is over."""


class NoRoom(Exception):
    """There is no room for what guests overwrite meanwhile."""


@dataclasses.dataclass(frozen=True)
class Bounds:
    """What ends a transfer.

    :ivar silence: seconds without a byte.
    :ivar until: moment (:func:`clock.now`) at which it is given up.
    :ivar retries: further tries when the store has trouble.
    :ivar retry_wait: seconds before the first of them; doubled each time.
    :ivar stopping: this worker is stopping.
    :ivar scratch: where the guest's overwritten data goes.
    :ivar reserve: bytes that have to stay free there.
    """

    silence: float
    until: float
    retries: int
    retry_wait: float
    stopping: threading.Event
    scratch: str
    reserve: int

    def check(self) -> None:
        """Raise when it has to end."""
        if self.stopping.is_set():
            raise Interrupted('The compute worker was stopped.')
        if clock.now() > self.until:
            raise TooLong('It took too long.')
        room = os.statvfs(self.scratch)
        if room.f_bavail * room.f_frsize < self.reserve:
            raise NoRoom(f'Less than {self.reserve} bytes are free in '
                         f'{self.scratch}.')


def send(socket: str, export: str, store: images.Store, image_id: str,
         bounds: Bounds, progress: Callable[[float], None]) -> images.Stored:
    """Send one disk.

    :param socket: path of the socket that exports it.
    :param progress: told the fraction that has been sent, 0 to 1.
    :raises StoreUnavailable: also after all tries.
    :raises ImageGone, ImageRefused, ImageDamaged: see :mod:`images`.
    :raises NBDError: the export cannot be read.
    :raises Interrupted, TooLong, NoRoom: see there.
    """
    wait = bounds.retry_wait
    for left in range(bounds.retries, -1, -1):
        try:
            return _try(socket, export, store, image_id, bounds, progress)
        except images.StoreUnavailable as exc:
            if not left:
                raise
            LOG.warning('Sending image %s again in %.1f s: %s', image_id,
                        wait, exc)
            bounds.stopping.wait(wait)
            bounds.check()
            wait *= 2
    raise AssertionError('unreachable')


def _try(socket: str, export: str, store: images.Store, image_id: str,
         bounds: Bounds, progress: Callable[[float], None]
         ) -> images.Stored:
    bounds.check()
    with client.Export(socket, export, bounds.silence) as disk:
        data = allocation.Allocation(disk.size)
        for offset, length in disk.allocated():
            data.mark(offset, length)
        layout = writer.Layout(data)

        def fetch(pieces: Iterable[tuple[int, int]]
                  ) -> Iterator[memoryview]:
            for data in disk.read(pieces, _AHEAD, images.LAG):
                bounds.check()
                yield data

        return store.upload(
            image_id, lambda: images.Lasting(layout.stream(fetch, _PIECE)),
            layout.length, lambda sent: progress(sent / layout.length))
