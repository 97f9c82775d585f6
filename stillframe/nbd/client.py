# SPDX-License-Identifier: Apache-2.0
"""A reader of one NBD export.

It keeps several reads in flight, so that the exporting process never waits
for us; memory is the number in flight, and of those that are still used,
times their length. Every wait is bounded by the socket's time-out.
"""

from collections import deque
from collections.abc import Iterable
from collections.abc import Iterator
import contextlib
import dataclasses
import errno
import os
import socket
import struct
from types import TracebackType

from stillframe.nbd import protocol
from stillframe.nbd.protocol import NBDError


class Export:
    """An open export; a context manager.

    :ivar size: bytes of the disk.
    :ivar max_read: longest read in bytes that the server takes.
    """

    def __init__(self, path: str, name: str, timeout: float):
        """Connect and open the export.

        :param path: of the UNIX socket.
        :param name: the export's name.
        :param timeout: seconds of silence after which the export is taken
            to be dead.
        :raises NBDError: there is no such export, or the server lacks
            what is needed (structured replies, base:allocation), or it
            does not answer.
        """
        self._what = f'NBD export {name!r} at {path}'
        self.size = 0
        self.max_read = protocol.MAX_READ
        self._context: int | None = None
        self._cookie = 0
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            with self._told():
                self._socket.settimeout(timeout)
                self._socket.connect(path)
                self._shake_hands(name)
        except BaseException:
            self._socket.close()
            raise

    def __enter__(self) -> 'Export':
        return self

    def __exit__(self, kind: type[BaseException] | None,
                 exc: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Say good-bye and close; safe to call twice."""
        if self._socket.fileno() >= 0:
            with contextlib.suppress(OSError):
                self._socket.sendall(protocol.request(
                    protocol.CMD_DISC, 0))
            self._socket.close()

    def abort(self) -> None:
        """Break the connection from another thread: reads end at once."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        """Say of an operating-system error what it happened to."""
        try:
            yield
        except OSError as exc:
            raise NBDError(f'{self._what} cannot be read: {exc}') from exc

    def _bad(self, text: str) -> NBDError:
        return NBDError(f'{self._what}: {text}')

    def _fill(self, view: memoryview) -> None:
        while view:
            count = self._socket.recv_into(view)
            if not count:
                raise self._bad('the connection was closed half-way.')
            view = view[count:]

    def _take(self, length: int) -> bytes:
        data = bytearray(length)
        self._fill(memoryview(data))
        return bytes(data)

    # -- handshake ---------------------------------------------------------

    def _shake_hands(self, name: str) -> None:
        init, word, flags = protocol.GREETING.unpack(
            self._take(protocol.GREETING.size))
        if init != protocol.INIT_MAGIC or word != protocol.OPTION_MAGIC:
            raise self._bad('this is no NBD server that we can speak to.')
        if not flags & protocol.FLAG_FIXED_NEWSTYLE:
            raise self._bad('the server knows no options.')
        self._socket.sendall(protocol.CLIENT_FLAGS.pack(
            protocol.FLAG_FIXED_NEWSTYLE | flags & protocol.FLAG_NO_ZEROES))
        self._socket.sendall(protocol.option(protocol.OPT_STRUCTURED_REPLY))
        for _ in self._option_replies():
            raise self._bad('an answer that was not asked for.')
        self._socket.sendall(protocol.set_meta_context(name))
        for kind, data in self._option_replies():
            if (kind == protocol.REP_META_CONTEXT
                    and data[4:] == protocol.BASE_ALLOCATION):
                self._context = struct.unpack('>I', data[:4])[0]
        if self._context is None:
            raise self._bad('the server does not tell what is allocated.')
        self._socket.sendall(protocol.go(name))
        for kind, data in self._option_replies():
            if kind == protocol.REP_INFO:
                self._learn(data)
        if not self.size:
            raise self._bad('the export is empty.')

    def _option_replies(self) -> Iterator[tuple[int, bytes]]:
        """Give the replies to one option until its acknowledgement."""
        while True:
            magic, _, kind, length = protocol.OPTION_REPLY.unpack(
                self._take(protocol.OPTION_REPLY.size))
            if (magic != protocol.OPTION_REPLY_MAGIC
                    or length > protocol.MAX_SMALL):
                raise self._bad('the handshake is garbled.')
            data = self._take(length)
            if kind == protocol.REP_ACK:
                return
            if kind & protocol.REP_FLAG_ERROR:
                text = data.decode(errors='replace') or 'no reason given'
                raise self._bad(
                    f'refused (error {kind - protocol.REP_FLAG_ERROR}): '
                    f'{text}')
            yield kind, data

    def _learn(self, data: bytes) -> None:
        kind = struct.unpack_from('>H', data)[0]
        if kind == protocol.INFO_EXPORT:
            self.size = struct.unpack_from('>HQH', data)[1]
        elif kind == protocol.INFO_BLOCK_SIZE:
            largest = struct.unpack_from('>HIII', data)[3]
            self.max_read = min(self.max_read, largest)

    # -- transmission ------------------------------------------------------

    def _ask(self, command: int, offset: int, length: int) -> int:
        self._cookie += 1
        self._socket.sendall(protocol.request(
            command, self._cookie, offset, length))
        return self._cookie

    def allocated(self) -> Iterator[tuple[int, int]]:
        """Give the ranges that are not known to read as zeroes.

        :return: pairs of offset and length in bytes, ascending; one that
            follows another without a gap is possible.
        :raises NBDError: the export cannot be read.
        """
        offset = 0
        while offset < self.size:
            length = min(protocol.MAX_STATUS, self.size - offset)
            with self._told():
                extents = self._status(offset, length)
            for extent, flags in extents:
                extent = min(extent, self.size - offset)
                if not flags & protocol.STATE_ZERO:
                    yield offset, extent
                offset += extent

    def _status(self, offset: int, length: int) -> list[tuple[int, int]]:
        cookie = self._ask(protocol.CMD_BLOCK_STATUS, offset, length)
        extents: list[tuple[int, int]] = []
        while True:
            flags, kind, answered, size = self._chunk()
            if answered != cookie or size > protocol.MAX_SMALL:
                raise self._bad('an answer that was not asked for.')
            data = self._take(size)
            self._check(kind, data, offset)
            if kind == protocol.REPLY_BLOCK_STATUS:
                extents.extend(struct.iter_unpack('>II', data[4:]))
            if flags & protocol.REPLY_FLAG_DONE:
                break
        if not extents or any(not extent for extent, _ in extents):
            raise self._bad(f'no status for {length} bytes at {offset}.')
        return extents

    def _chunk(self) -> tuple[int, int, int, int]:
        """Take the head of a structured reply.

        :return: flags, kind, cookie, length of what follows.
        """
        magic = protocol.MAGIC.unpack(self._take(protocol.MAGIC.size))[0]
        if magic != protocol.STRUCTURED_REPLY_MAGIC:
            raise self._bad('a reply is garbled.')
        return protocol.STRUCTURED_REPLY.unpack(
            self._take(protocol.STRUCTURED_REPLY.size))

    def _check(self, kind: int, data: bytes, offset: int) -> None:
        if kind & protocol.REPLY_ERROR_BIT:
            number, length = struct.unpack_from('>IH', data)
            text = data[6:6 + length].decode(errors='replace')
            name = errno.errorcode.get(number, str(number))
            raise self._bad(f'reading at {offset}: {name} '
                            f'{text or os.strerror(number)}')

    def read(self, pieces: Iterable[tuple[int, int]],
             in_flight: int = 4, kept: int = 0) -> Iterator[memoryview]:
        """Read pieces of the disk, several of them ahead.

        The generator must be run to its end, or the export closed.

        :param pieces: pairs of offset and length in bytes; none longer
            than :attr:`max_read`.
        :param in_flight: how many are asked for at once.
        :param kept: how many more may be taken while one is used.
        :return: the data of each, in order. Each is good until the next
            is taken, and while `kept` more are.
        :raises NBDError: the export cannot be read.
        :raises ValueError: a piece is not inside the disk or too long.
        """
        reads: dict[int, _Read] = {}
        order: deque[_Read] = deque()
        free: list[bytearray] = []
        used: deque[bytearray] = deque()
        todo = iter(pieces)
        more = True
        while True:
            while more and len(order) < in_flight:
                piece = next(todo, None)
                if piece is None:
                    more = False
                    break
                with self._told():
                    cookie, read = self._begin(piece, free)
                reads[cookie] = read
                order.append(read)
            if not order:
                return
            first = order.popleft()
            with self._told():
                while not first.done:
                    self._receive(reads)
            yield first.view
            used.append(first.buffer)
            if len(used) > kept:
                free.append(used.popleft())

    def _begin(self, piece: tuple[int, int],
               free: list[bytearray]) -> tuple[int, '_Read']:
        offset, length = piece
        if not 0 < length <= self.max_read or (
                offset < 0 or offset + length > self.size):
            raise ValueError(f'{length} bytes at {offset} cannot be read '
                             f'from {self.size} bytes.')
        buffer = free.pop() if free else bytearray()
        if len(buffer) < length:
            buffer = bytearray(length)
        read = _Read(offset, buffer, memoryview(buffer)[:length], length)
        return self._ask(protocol.CMD_READ, offset, length), read

    def _receive(self, reads: 'dict[int, _Read]') -> None:
        """Take one chunk of a reply and put it where it belongs."""
        flags, kind, cookie, size = self._chunk()
        if cookie not in reads:
            raise self._bad('an answer that was not asked for.')
        read = reads[cookie]
        if kind == protocol.REPLY_OFFSET_DATA and size > 8:
            self._fill(self._place(read, size - 8))
        elif kind == protocol.REPLY_OFFSET_HOLE and size == 12:
            at = self._take(8)
            length = struct.unpack('>I', self._take(4))[0]
            self._place(read, length, at)[:] = bytes(length)
        elif size > protocol.MAX_SMALL:
            raise self._bad('a reply is garbled.')
        else:
            self._check(kind, self._take(size), read.offset)
        if flags & protocol.REPLY_FLAG_DONE:
            # What a chunk did not fill would be what an earlier read left
            # in the buffer.
            if read.left:
                raise self._bad(f'{read.left} bytes of what was read at '
                                f'{read.offset} are missing.')
            read.done = True
            del reads[cookie]

    def _place(self, read: '_Read', length: int,
               at: bytes | None = None) -> memoryview:
        """Give the part of a read's buffer that a chunk is for."""
        where = struct.unpack('>Q', at or self._take(8))[0] - read.offset
        if where < 0 or where + length > len(read.view):
            raise self._bad('an answer that was not asked for.')
        read.left -= length
        return read.view[where:where + length]


@dataclasses.dataclass
class _Read:
    """One read on its way.

    :ivar left: bytes that have not come yet.
    """

    offset: int
    buffer: bytearray
    view: memoryview
    left: int
    done: bool = False
