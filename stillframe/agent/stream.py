# SPDX-License-Identifier: Apache-2.0
"""An order in, a disk out, a result back.

The disk is read, laid out as an image, digested and sent at once: nothing
of it is kept in the ramdisk. Memory is some buffers and one byte for each
64 KiB of the disk.
"""

import base64
from collections import deque
from collections.abc import Generator
from collections.abc import Iterable
from collections.abc import Iterator
from concurrent import futures
import contextlib
import hashlib
import time

from stillframe.agent import apart
from stillframe.agent import choose
from stillframe.agent import compressing
from stillframe.agent import disks
from stillframe.agent import failures
from stillframe.agent import members
from stillframe.agent import orders
from stillframe.agent import source
from stillframe.agent import upload
from stillframe.agent import zstd
from stillframe.agent.freespace import finding
from stillframe.qcow2 import allocation
from stillframe.qcow2 import compressed
from stillframe.qcow2 import writer

Pieces = Generator[bytes | bytearray | memoryview, None, None]


class Stream:
    """One disk on its way.

    ``Stream(order).run()``; :meth:`stop` ends it, from another thread.
    """

    def __init__(self, order: orders.Order,
                 progress: upload.Progress | None = None):
        """Take an order.

        :param progress: told after each piece the bytes that were sent,
            and those that there are, or None where that is not known.
        :raises BadOrder: the order's certificates are none.
        """
        self._order = order
        self._progress = progress
        self._stopped = False
        self._apart: apart.Apart[orders.Result] = apart.Apart('stream')
        self._put = upload.Put(order)
        self._source: source.Source | None = None

    def stop(self) -> None:
        """End it as soon as can be: :meth:`run` raises Stopped."""
        self._stopped = True
        self._put.stop()
        if self._source is not None:
            self._source.stop()
        self._apart.leave()

    def _check(self) -> None:
        if self._stopped:
            raise failures.Stopped('The stream was stopped.')

    def run(self, disk: disks.Disk | None = None) -> orders.Result:
        """Send the disk; once.

        :param disk: to send; None for the one that the order chooses.
        :raises NoDisk, AmbiguousDisk, WrongDisk: it is not known which.
        :raises ReadFailed: it cannot be read.
        :raises SendFailed: the receiver did not take it.
        :raises Stopped: :meth:`stop` was called.
        """
        return self._apart.run(lambda: self._run(disk))

    def _run(self, disk: disks.Disk | None) -> orders.Result:
        order = self._order
        began = time.monotonic()
        started = orders.now()
        notes: list[str] = []
        if disk is None:
            choice = choose.choose(disks.found(), order)
            disk, notes = choice.disk, list(choice.notes)
        with source.Source(disk.name, disk.sector,
                           order.on_read_error == 'zero') as opened:
            self._source = opened
            self._check()
            result = orders.Result(
                order.transport, order.disk_format, disk.document(),
                opened.size, started, notes=notes)
            result.notes += members.notes(opened)
            wanted = self._wanted(opened, result)
            if order.disk_format == 'raw':
                self._send_raw(opened, wanted, result)
            elif order.compress is None:
                self._send_plain(opened, wanted, result)
            else:
                self._send_compressed(opened, wanted, result)
            result.read_errors = [list(one) for one in opened.bad]
        result.duration = round(time.monotonic() - began, 3)
        result.finished_at = orders.now()
        return result

    def _wanted(self, opened: source.Source, result: orders.Result
                ) -> allocation.Allocation:
        """Map what has to be looked at: no holes, no free space."""
        free = None
        if self._order.skip_free_space:
            free, notes = finding.find(opened)
            result.free_bytes = sum(length for _, length in free.ranges())
            result.notes += notes
        wanted = allocation.Allocation(opened.size)
        for offset, length in opened.data():
            wanted.mark(offset, length)
        if free is not None:
            wanted.remove(free)
        return wanted

    def _send_raw(self, opened: source.Source,
                  wanted: allocation.Allocation,
                  result: orders.Result) -> None:
        asked: deque[tuple[int, int]] = deque()

        def pieces() -> Iterator[tuple[int, int]]:
            for piece in _pieces(wanted.ranges()):
                asked.append(piece)
                yield piece

        def data() -> Pieces:
            reached = 0
            for read in opened.fetch(pieces()):
                offset, length = asked.popleft()
                yield from _zeroes(offset - reached)
                yield read
                reached = offset + length
            yield from _zeroes(opened.size - reached)

        result.zero_bytes = (opened.size - result.free_bytes
                             - sum(length for _, length in wanted.ranges()))
        self._send(data(), opened.size, opened.size, result)

    def _send_plain(self, opened: source.Source,
                    wanted: allocation.Allocation,
                    result: orders.Result) -> None:
        """Look for what is not zero first, then send that."""
        used = allocation.Allocation(opened.size)
        for offset, length, buffer in opened.scan(wanted.ranges()):
            used.scan(offset, buffer.memory, buffer.start, length)
        layout = writer.Layout(used)
        result.zero_bytes = (opened.size - result.free_bytes
                             - layout.data_length)
        self._send(layout.stream(opened.fetch, source.PIECE),
                   layout.length, layout.length, result)

    def _send_compressed(self, opened: source.Source,
                         wanted: allocation.Allocation,
                         result: orders.Result) -> None:
        """Send what is not zero as it is found, and the tables last."""
        library = zstd.load()
        image = compressed.Image(opened.size)
        result.zero_bytes = opened.size - result.free_bytes

        def data() -> Pieces:
            yield from image.begin()
            for piece in compressing.pieces(library, opened,
                                            _pieces(wanted.ranges())):
                if piece.frames:
                    yield from image.packed(piece.frames, piece.data)
                for cluster, content in piece.plain:
                    yield from image.plain(cluster, content)
                result.zero_bytes -= piece.length - piece.zero_bytes
            yield from image.end()

        self._send(data(), None, compressed.limit(opened.size), result)
        result.patch = {'offset': 0, 'data': base64.b64encode(
            image.header()).decode()}

    def _send(self, data: Pieces, length: int | None, limit: int,
              result: orders.Result) -> None:
        """Send and digest."""
        digest = hashlib.sha256()
        # Closed at once where it breaks off: a thread reads for it.
        with contextlib.closing(data), self._put as put, \
                futures.ThreadPoolExecutor(1, 'digest') as helper:
            put.begin(length, limit)
            for piece in data:
                # Both give up Python's lock.
                digested = helper.submit(digest.update, piece)
                try:
                    put.write(piece)
                finally:
                    digested.result()
                if self._progress is not None:
                    self._progress(put.sent, length)
            put.end()
            result.size = put.sent
        result.sha256 = digest.hexdigest()


def _pieces(ranges: Iterable[tuple[int, int]]
            ) -> Iterator[tuple[int, int]]:
    """Cut ranges at all multiples of a piece's length."""
    for offset, length in ranges:
        end = offset + length
        while offset < end:
            border = (offset // source.PIECE + 1) * source.PIECE
            yield offset, min(border, end) - offset
            offset = min(border, end)


def _zeroes(count: int) -> Iterator[bytes]:
    """Give so many zeroes, in pieces."""
    zeroes = bytes(min(count, source.PIECE))
    for _ in range(count // source.PIECE):
        yield zeroes
    if count % source.PIECE:
        yield bytes(count % source.PIECE)
