# SPDX-License-Identifier: Apache-2.0
"""Reading pieces of an export ahead of whoever uses them.

A thread takes every answer as soon as it comes, and asks for nothing that
it has no room for. So the server never waits for whoever uses the data,
however slow that is: a QEMU that could not get rid of an answer would stand
still, with its guest, whenever it has to drain its disks, as for a pause,
a reset of a disk, or the end of a job (nbd_drained_poll in QEMU's
nbd/server.c).
"""

import bisect
from collections import deque
from collections.abc import Iterable
import dataclasses
import queue
import struct
import threading

from stillframe.nbd import protocol
from stillframe.nbd import wire as wire_

# Seconds for the thread to end, once its connection is broken.
_END = 10.0


@dataclasses.dataclass
class Read:
    """One read on its way.

    :ivar left: bytes that have not come yet.
    :ivar filled: begin and end, in the view, of what has come; ascending.
    """

    offset: int
    buffer: bytearray
    view: memoryview
    left: int
    filled: list[tuple[int, int]] = dataclasses.field(default_factory=list)
    done: bool = False


class Reader:
    """Reads pieces, in a thread of its own, from the first :meth:`next` on.

    Until :meth:`end`, the connection is its alone.
    """

    def __init__(self, wire: wire_.Wire, size: int, max_read: int,
                 pieces: Iterable[tuple[int, int]], buffers: int):
        """Take what to read; see :meth:`client.Export.read`.

        :param size: bytes of the disk.
        :param max_read: bytes of the longest piece.
        :param buffers: how many pieces there is room for.
        """
        self._wire = wire
        self._size = size
        self._max_read = max_read
        self._pieces = iter(pieces)
        # What is free to be read into; None: nothing more is wanted.
        self._free: queue.SimpleQueue[bytearray | None] = queue.SimpleQueue()
        for _ in range(buffers):
            self._free.put(bytearray())
        # What was read; None at the end, or why there is no more.
        self._ready: queue.SimpleQueue[Read | BaseException | None] = (
            queue.SimpleQueue())
        self._reads: dict[int, Read] = {}
        self._order: deque[Read] = deque()
        self._over = False
        self._thread = threading.Thread(
            target=self._run, name='nbd-reader', daemon=True)

    def next(self) -> Read | None:
        """Give the next piece; None at the end.

        The wait is bounded by the connection's.

        :raises NBDError: the export cannot be read.
        """
        if self._over:
            return None
        if self._thread.ident is None:
            self._thread.start()
        found = self._ready.get()
        self._over = not isinstance(found, Read)
        try:
            if isinstance(found, BaseException):
                raise found
            return found
        finally:
            # An error would keep itself, and the buffers, by this frame.
            del found

    def end(self) -> None:
        """End the thread; before the last piece, this breaks the connection.

        Safe to call twice.
        """
        if not self._over:
            self._over = True
            self._wire.abort()
        self._free.put(None)
        if self._thread.ident is not None:
            self._thread.join(_END)
        # An error in it would keep the buffers.
        self._ready = queue.SimpleQueue()

    def give_back(self, read: Read) -> None:
        """Let the room of a piece be used again."""
        self._free.put(read.buffer)

    # -- in the thread -----------------------------------------------------

    def _run(self) -> None:
        try:
            self._work()
        except BaseException as exc:  # noqa: BLE001
            # The server has to be rid of what nobody will take now.
            self._wire.abort()
            # To whoever takes the pieces, who is in another thread.
            self._ready.put(exc)
        else:
            self._ready.put(None)

    def _work(self) -> None:
        more = True
        while True:
            while more:
                try:
                    # With an answer under way, that is what to wait for.
                    buffer = self._free.get(block=not self._order)
                except queue.Empty:
                    break
                piece = None if buffer is None else next(self._pieces, None)
                if buffer is None or piece is None:
                    more = False
                    break
                self._ask(piece, buffer)
            if not self._order:
                return
            first = self._order.popleft()
            with self._wire.told():
                while not first.done:
                    self._receive()
            self._ready.put(first)

    def _ask(self, piece: tuple[int, int], buffer: bytearray) -> None:
        offset, length = piece
        if not 0 < length <= self._max_read or (
                offset < 0 or offset + length > self._size):
            raise ValueError(f'{length} bytes at {offset} cannot be read '
                             f'from {self._size} bytes.')
        if len(buffer) < length:
            buffer = bytearray(length)
        read = Read(offset, buffer, memoryview(buffer)[:length], length)
        with self._wire.told():
            cookie = self._wire.ask(protocol.CMD_READ, offset, length)
        self._reads[cookie] = read
        self._order.append(read)

    def _receive(self) -> None:
        """Take one chunk of a reply and put it where it belongs."""
        flags, kind, cookie, size = self._wire.chunk()
        if cookie not in self._reads:
            raise self._wire.bad('an answer that was not asked for.')
        read = self._reads[cookie]
        if kind == protocol.REPLY_OFFSET_DATA and size > 8:
            self._wire.fill(self._place(read, size - 8))
        elif kind == protocol.REPLY_OFFSET_HOLE and size == 12:
            at = self._wire.take(8)
            length = struct.unpack('>I', self._wire.take(4))[0]
            self._place(read, length, at)[:] = bytes(length)
        elif size > protocol.MAX_SMALL:
            raise self._wire.bad('a reply is garbled.')
        else:
            self._wire.check(kind, self._wire.take(size), read.offset)
        if flags & protocol.REPLY_FLAG_DONE:
            # What no chunk filled would be what an earlier read left in the
            # buffer.
            if read.left:
                raise self._wire.bad(f'{read.left} bytes of what was read '
                                     f'at {read.offset} are missing.')
            read.done = True
            del self._reads[cookie]

    def _place(self, read: Read, length: int,
               at: bytes | None = None) -> memoryview:
        """Give the part of a read's buffer that a chunk is for."""
        where = struct.unpack(
            '>Q', at or self._wire.take(8))[0] - read.offset
        end = where + length
        if where < 0 or end > len(read.view):
            raise self._wire.bad('an answer that was not asked for.')
        # One that came twice would stand for another that did not come.
        place = bisect.bisect(read.filled, (where, end))
        if any(begun < end and where < ended for begun, ended
               in read.filled[max(0, place - 1):place + 1]):
            raise self._wire.bad('an answer that came twice.')
        read.filled.insert(place, (where, end))
        read.left -= length
        return read.view[where:end]
