# SPDX-License-Identifier: Apache-2.0
"""The body of a request, read in large pieces.

cheroot's own readers copy each byte several times in Python; with chunks
they manage a tenth of what the agent can send. Here data goes from the
socket into the caller's buffer; only the frames of chunks, and what came
together with them, take a way through a small buffer of ours.

The end of a body is an answer of its own: a connection that ends earlier is
an error, with and without chunks (RFC 9112, sections 6.3 and 8).
"""

from collections.abc import Callable

from stillframe.conductor.receiver import errors

#: Fills a buffer from the connection; 0 at its end.
Receive = Callable[[memoryview], int]

# Bytes that are looked at for the frames of chunks.
_AHEAD = 1 << 16
# The longest line that frames a chunk, and all of the trailer.
_LINE_MAX = 1024
_TRAILER_MAX = 8192


class Body:
    """A body that is read once, from its beginning to its end.

    :ivar taken: bytes of the body that were read, as they come in.
    :ivar ended: whether all of it was read, and ended as it has to.
    """

    def __init__(self, receive: Receive, ahead: bytes, length: int | None,
                 invite: Callable[[], None] | None = None):
        """Take a body as the head of its request describes it.

        :param receive: raises OSError where the connection does.
        :param ahead: what was read behind the head.
        :param length: bytes; None: it comes in chunks.
        :param invite: called before the first byte is read: the client
            waits for that.
        """
        self._receive = receive
        self._invite = invite
        self._buffer = bytearray(max(_AHEAD, len(ahead)))
        self._view = memoryview(self._buffer)
        self._start, self._end = 0, len(ahead)
        self._buffer[:len(ahead)] = ahead
        self._chunked = length is None
        # Of the body, or of the chunk that is being read.
        self._left = length or 0
        self._first = True
        self.taken = 0
        self.ended = length == 0

    @property
    def ahead(self) -> bool:
        """Whether something was read that is no part of this body."""
        return self.ended and self._start < self._end

    def readinto(self, into: memoryview) -> int:
        """Read some bytes.

        :return: how many; 0 at the end of the body alone.
        :raises Truncated: the connection ended before the body.
        :raises Malformed: the frames of its chunks are not right.
        :raises OSError: the connection failed, or was silent too long.
        """
        if self._invite is not None and not self.ended:
            invite, self._invite = self._invite, None
            invite()
        if self._chunked and not self._left and not self.ended:
            self._begin_chunk()
        if self.ended:
            return 0
        into = into[:self._left]
        count = min(len(into), self._end - self._start)
        if count:
            into[:count] = self._view[self._start:self._start + count]
            self._start += count
        elif len(into) < _AHEAD and self._chunked:
            # More of small chunks at once.
            self._fill()
            return self.readinto(into)
        else:
            count = self._receive(into)
            if not count:
                raise self._truncated()
        self._left -= count
        self.taken += count
        if not self._left and not self._chunked:
            self.ended = True
        return count

    def fill(self, into: memoryview) -> int:
        """Read until a buffer is full or the body ends; see readinto.

        :return: bytes that were read.
        """
        done = 0
        while done < len(into):
            count = self.readinto(into[done:])
            if not count:
                break
            done += count
        return done

    def read(self, size: int = -1) -> bytes:
        """Read for those who expect a file; small bodies only."""
        if size is None or size < 0:
            size = _AHEAD
        data = bytearray(min(size, _AHEAD))
        return bytes(data[:self.fill(memoryview(data))])

    def _begin_chunk(self) -> None:
        """Read up to the data of the next chunk, or the end of the body."""
        if not self._first and self._line():
            raise errors.Malformed(
                reason='a chunk is longer than it says')
        self._first = False
        size = self._line().partition(b';')[0].strip()
        if not 0 < len(size) <= 15 or not all(
                one in b'0123456789abcdefABCDEF' for one in size):
            raise errors.Malformed(reason='a chunk does not say its size')
        self._left = int(size, 16)
        if self._left:
            return
        trailer = 0
        while line := self._line():
            trailer += len(line)
            if trailer > _TRAILER_MAX:
                raise errors.Malformed(reason='its trailer is too long')
        self.ended = True

    def _line(self) -> bytes:
        """Take a line, without its end."""
        while True:
            at = self._buffer.find(b'\r\n', self._start, self._end)
            if at >= 0:
                line = bytes(self._view[self._start:at])
                self._start = at + 2
                return line
            if self._end - self._start > _LINE_MAX:
                raise errors.Malformed(
                    reason='a line between chunks is too long')
            self._fill()

    def _fill(self) -> None:
        """Read ahead."""
        left = self._end - self._start
        if left and self._start:
            self._view[:left] = bytes(self._view[self._start:self._end])
        self._start, self._end = 0, left
        count = self._receive(self._view[left:])
        if not count:
            raise self._truncated()
        self._end += count

    def _truncated(self) -> errors.Truncated:
        of = ('' if self._chunked
              else f' of {self.taken + self._left}')
        return errors.Truncated(received=self.taken, of=of)
