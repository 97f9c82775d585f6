# SPDX-License-Identifier: Apache-2.0
"""A reader of one NBD export."""

from collections import deque
from collections.abc import Iterable
from collections.abc import Iterator
import struct
from types import TracebackType

from stillframe.nbd import protocol
from stillframe.nbd import reading
from stillframe.nbd import wire
from stillframe.nbd.protocol import NBDError as NBDError


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
        self.size = 0
        self.max_read = protocol.MAX_READ
        self._context: int | None = None
        self._reader: reading.Reader | None = None
        self._wire = wire.Wire(path, f'NBD export {name!r} at {path}',
                               timeout)
        try:
            with self._wire.told():
                self._shake_hands(name)
        except BaseException:
            self._wire.close()
            raise

    def __enter__(self) -> 'Export':
        return self

    def __exit__(self, kind: type[BaseException] | None,
                 exc: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """End reading, say good-bye and close; safe to call twice."""
        self._end()
        self._wire.close()

    # -- handshake ---------------------------------------------------------

    def _shake_hands(self, name: str) -> None:
        init, word, flags = protocol.GREETING.unpack(
            self._wire.take(protocol.GREETING.size))
        if init != protocol.INIT_MAGIC or word != protocol.OPTION_MAGIC:
            raise self._wire.bad(
                'this is no NBD server that we can speak to.')
        if not flags & protocol.FLAG_FIXED_NEWSTYLE:
            raise self._wire.bad('the server knows no options.')
        self._wire.send(protocol.CLIENT_FLAGS.pack(
            protocol.FLAG_FIXED_NEWSTYLE | flags & protocol.FLAG_NO_ZEROES))
        self._wire.send(protocol.option(protocol.OPT_STRUCTURED_REPLY))
        for _ in self._option_replies():
            raise self._wire.bad('an answer that was not asked for.')
        self._wire.send(protocol.set_meta_context(name))
        for kind, data in self._option_replies():
            if (kind == protocol.REP_META_CONTEXT
                    and data[4:] == protocol.BASE_ALLOCATION):
                self._context = struct.unpack('>I', data[:4])[0]
        if self._context is None:
            raise self._wire.bad(
                'the server does not tell what is allocated.')
        self._wire.send(protocol.go(name))
        for kind, data in self._option_replies():
            if kind == protocol.REP_INFO:
                self._learn(data)
        if not self.size:
            raise self._wire.bad('the export is empty.')

    def _option_replies(self) -> Iterator[tuple[int, bytes]]:
        """Give the replies to one option until its acknowledgement."""
        while True:
            magic, _, kind, length = protocol.OPTION_REPLY.unpack(
                self._wire.take(protocol.OPTION_REPLY.size))
            if (magic != protocol.OPTION_REPLY_MAGIC
                    or length > protocol.MAX_SMALL):
                raise self._wire.bad('the handshake is garbled.')
            data = self._wire.take(length)
            if kind == protocol.REP_ACK:
                return
            if kind & protocol.REP_FLAG_ERROR:
                text = data.decode(errors='replace') or 'no reason given'
                raise self._wire.bad(
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

    def allocated(self) -> Iterator[tuple[int, int]]:
        """Give the ranges that are not known to read as zeroes.

        :return: pairs of offset and length in bytes, ascending; one that
            follows another without a gap is possible.
        :raises NBDError: the export cannot be read.
        """
        offset = 0
        while offset < self.size:
            length = min(protocol.MAX_STATUS, self.size - offset)
            with self._wire.told():
                extents = self._status(offset, length)
            for extent, flags in extents:
                extent = min(extent, self.size - offset)
                if not flags & protocol.STATE_ZERO:
                    yield offset, extent
                offset += extent

    def _status(self, offset: int, length: int) -> list[tuple[int, int]]:
        cookie = self._wire.ask(protocol.CMD_BLOCK_STATUS, offset, length)
        extents: list[tuple[int, int]] = []
        while True:
            flags, kind, answered, size = self._wire.chunk()
            if answered != cookie or size > protocol.MAX_STATUS_REPLY:
                raise self._wire.bad('an answer that was not asked for.')
            data = self._wire.take(size)
            self._wire.check(kind, data, offset)
            if kind == protocol.REPLY_BLOCK_STATUS:
                extents.extend(struct.iter_unpack('>II', data[4:]))
            if flags & protocol.REPLY_FLAG_DONE:
                break
        if not extents or any(not extent for extent, _ in extents):
            raise self._wire.bad(
                f'no status for {length} bytes at {offset}.')
        return extents

    def read(self, pieces: Iterable[tuple[int, int]],
             ahead: int = 4, kept: int = 0) -> Iterator[memoryview]:
        """Read pieces of the disk, several of them ahead.

        Nothing else may be asked of the export until the generator was run
        to its end; if it is closed before, the connection is broken.

        :param pieces: pairs of offset and length in bytes; none longer
            than :attr:`max_read`. They are made in another thread.
        :param ahead: how many are asked for, or wait to be taken.
        :param kept: how many more may be taken while one is used.
        :return: the data of each, in order. Each is good until the next
            is taken, and while `kept` more are.
        :raises NBDError: the export cannot be read.
        :raises ValueError: a piece is not inside the disk or too long.
        """
        self._end()
        # Besides those: the one that is used.
        self._reader = reader = reading.Reader(
            self._wire, self.size, self.max_read, pieces, ahead + kept + 1)
        used: deque[reading.Read] = deque()
        try:
            while (read := reader.next()) is not None:
                yield read.view
                used.append(read)
                if len(used) > kept:
                    reader.give_back(used.popleft())
        finally:
            reader.end()

    def _end(self) -> None:
        if self._reader is not None:
            self._reader.end()
