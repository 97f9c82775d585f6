# SPDX-License-Identifier: Apache-2.0
"""Reading a disk and compressing it, several pieces at a time, in order.

Each thread reads a piece, drops what is zero and compresses the rest. The
pieces come out in the disk's order, and no more of them are in memory than
there are slots.
"""

from collections import deque
from collections.abc import Iterable
from collections.abc import Iterator
from concurrent import futures
import ctypes
import dataclasses
import os
import queue
import threading
import time

from stillframe.agent import buffers
from stillframe.agent import source
from stillframe.agent import zstd
from stillframe.qcow2 import allocation
from stillframe.qcow2 import compressed

CLUSTER = allocation.CLUSTER

_ZEROES = bytes(CLUSTER)
# So that one thread can read while the others compress.
_THREADS = (os.cpu_count() or 1) + 1
_SLOTS = _THREADS + 2


@dataclasses.dataclass
class Piece:
    """What became of one piece of the disk.

    :ivar length: its bytes.
    :ivar frames: numbers of clusters, and the bytes that each became.
    :ivar data: those bytes, one cluster's after the other's.
    :ivar plain: clusters that do not get smaller, and what they hold.
    :ivar zero_bytes: bytes that were left out as zeroes.
    """

    length: int
    frames: list[tuple[int, int]] = dataclasses.field(default_factory=list)
    data: memoryview = memoryview(b'')
    plain: list[tuple[int, memoryview]] = dataclasses.field(
        default_factory=list)
    zero_bytes: int = 0


class _Slot:
    """Memory for one piece, and the means to compress it."""

    def __init__(self, library: ctypes.CDLL):
        self._compressor = zstd.Compressor(library)
        self._read = buffers.Buffer(source.PIECE)
        self._made = buffers.Buffer(source.PIECE)
        self.close = self._compressor.close

    def fill(self, opened: source.Source, offset: int, length: int
             ) -> Piece:
        """Read a piece and compress it."""
        view = self._read.view
        opened.read_into(view[:length], offset)
        # The disk's last cluster may be a part of one.
        end = -(-length // CLUSTER) * CLUSTER
        view[length:end] = bytes(end - length)
        piece = Piece(length)
        room = 0
        for at in range(0, end, CLUSTER):
            if self._read.memory.startswith(_ZEROES,
                                            self._read.start + at):
                piece.zero_bytes += min(CLUSTER, length - at)
                continue
            cluster = (offset + at) // CLUSTER
            size = self._compressor.compress(
                self._read.address + at, CLUSTER,
                self._made.address + room, compressed.WORTHLESS)
            if size:
                piece.frames.append((cluster, size))
                room += size
            else:
                piece.plain.append((cluster, view[at:at + CLUSTER]))
        piece.data = self._made.view[:room]
        return piece


def pieces(library: ctypes.CDLL, opened: source.Source,
           ranges: Iterable[tuple[int, int]]) -> Iterator[Piece]:
    """Give the pieces of ranges of the disk, in order.

    :param library: as :func:`zstd.load` gives it.
    :param ranges: offsets and lengths, at most
        :data:`stillframe.agent.source.PIECE`; whole clusters, but for the
        disk's end.
    :return: each is good until the next is taken.
    :raises ReadFailed: the disk cannot be read.
    :raises Stopped: reading was stopped.
    """
    slots = [_Slot(library) for _ in range(_SLOTS)]
    free = list(slots)
    begun: deque[tuple[_Slot, futures.Future[Piece]]] = deque()
    team = _Team(opened)
    try:
        for offset, length in ranges:
            if not free:
                slot, piece = begun.popleft()
                yield piece.result()
                free.append(slot)
            slot = free.pop()
            begun.append((slot, team.fill(slot, offset, length)))
        for _, piece in begun:
            yield piece.result()
    finally:
        # Who hangs in a read still uses the memory of its slot.
        if team.end():
            for slot in slots:
                slot.close()


class _Team:
    """The threads that fill slots.

    Not a pool of the library's: for the end of its threads the process
    waits when it ends, and a read of a disk that hangs has none.
    """

    def __init__(self, opened: source.Source):
        self._opened = opened
        self._ending = False
        self._asked: queue.SimpleQueue = queue.SimpleQueue()
        self._threads = [
            threading.Thread(target=self._work, name='compress', daemon=True)
            for _ in range(_THREADS)]
        for one in self._threads:
            one.start()

    def fill(self, slot: _Slot, offset: int, length: int
             ) -> futures.Future[Piece]:
        """Have a slot filled."""
        piece: futures.Future[Piece] = futures.Future()
        self._asked.put((piece, slot, offset, length))
        return piece

    def end(self) -> bool:
        """Begin nothing more.

        :return: whether all threads have ended.
        """
        self._ending = True
        for _ in self._threads:
            self._asked.put(None)
        until = time.monotonic() + source.LAST_READ
        for one in self._threads:
            one.join(max(0.0, until - time.monotonic()))
        return not any(one.is_alive() for one in self._threads)

    def _work(self) -> None:
        while (asked := self._asked.get()) is not None:
            if self._ending:
                continue
            piece, slot, offset, length = asked
            try:
                piece.set_result(slot.fill(self._opened, offset, length))
            except BaseException as exc:  # noqa: BLE001
                # Raised anew by who waits for the piece.
                piece.set_exception(exc)
