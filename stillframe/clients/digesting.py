# SPDX-License-Identifier: Apache-2.0
"""Counting and digesting data while it passes.

The digest of a piece is made by a second thread while the piece is on its
way, and the next ones are read as far as their buffers allow: all of that
gives up Python's lock, which nearly hides the cost.
"""

from collections import deque
from collections.abc import Generator
from collections.abc import Iterable
from collections.abc import Iterator
from concurrent import futures
import hashlib
import io
from typing import BinaryIO

from stillframe.clients import images

_PIECE = 1 << 20


class Passage:
    """One pass of data through here; can be read as a file.

    :ivar sent: bytes that passed.
    """

    def __init__(self, data: Iterable[images.Buffer], algorithm: str,
                 progress: images.Progress):
        """Prepare to digest.

        :param algorithm: a name that hashlib knows.
        :param progress: told after each piece.
        """
        self._hash = hashlib.new(algorithm)
        self._data = data
        self._progress = progress
        self._pieces = self._pass()
        self._rest = memoryview(b'')
        self.algorithm = algorithm
        self.sent = 0

    def __iter__(self) -> Iterator[memoryview]:
        return self._pieces

    def _pass(self) -> Generator[memoryview, None, None]:
        lag = images.LAG if isinstance(self._data, images.Lasting) else 0
        behind: deque[futures.Future[None]] = deque()
        with futures.ThreadPoolExecutor(1, 'digest') as helper:
            for piece in self._data:
                view = memoryview(piece)
                behind.append(helper.submit(self._hash.update, view))
                yield view
                while len(behind) > lag:
                    behind.popleft().result()
                self.sent += view.nbytes
                self._progress(self.sent)
            for digested in behind:
                digested.result()

    def read(self, size: int) -> bytes:
        """Give at most some bytes; none at the end."""
        if not self._rest:
            self._rest = next(self._pieces, memoryview(b''))
        data, self._rest = self._rest[:size], self._rest[size:]
        return bytes(data)

    def close(self) -> None:
        """End the pass where it is."""
        self._pieces.close()

    def stored(self) -> images.Stored:
        """Tell what passed."""
        return images.Stored(self.sent, self.algorithm,
                             self._hash.hexdigest())


def pieces(file: BinaryIO | io.RawIOBase) -> Iterator[bytes]:
    """Read a file from where it is to its end."""
    while piece := file.read(_PIECE):
        yield piece


def digest(pieces: Iterable[images.Buffer], algorithm: str,
           check: images.Check) -> images.Stored:
    """Digest all of some data.

    :param algorithm: a name that hashlib knows.
    :param check: called after each piece; what it raises goes to the
        caller.
    :raises: what the data raises.
    """
    made, size = hashlib.new(algorithm), 0
    for piece in pieces:
        made.update(piece)
        size += len(piece)
        check()
    return images.Stored(size, algorithm, made.hexdigest())


def begins(source: images.Source, part: images.Stored, check: images.Check
           ) -> bool:
    """Tell whether an image begins with what is elsewhere, or is that.

    :param source: of the image; its pieces are of bytes.
    :param part: what is elsewhere.
    :param check: called after each piece of the image.
    :raises: what ``source`` and ``check`` raise.
    """
    # What was not read is not digested here either.
    return bool(part.digest) and part == digest(
        _first(source(), part.size), part.algorithm, check)


def _first(pieces: Iterable[images.Buffer], left: int
           ) -> Iterator[images.Buffer]:
    if not left:
        return
    for piece in pieces:
        yield piece[:left]
        left -= len(piece)
        if left <= 0:
            return
