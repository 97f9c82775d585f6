# SPDX-License-Identifier: Apache-2.0
"""A connection to an NBD server: bytes out, bytes in, errors with a name.

Every wait is bounded by the socket's time-out.
"""

from collections.abc import Iterator
import contextlib
import errno
import os
import socket
import struct

from stillframe.nbd import protocol
from stillframe.nbd.protocol import NBDError


class Wire:
    """A connected UNIX socket."""

    def __init__(self, path: str, what: str, timeout: float):
        """Connect.

        :param path: of the UNIX socket.
        :param what: is read through it, for errors.
        :param timeout: seconds of silence after which the server is taken
            to be dead.
        :raises NBDError: nobody listens.
        """
        self._what = what
        self._cookie = 0
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(timeout)
        try:
            with self.told():
                self._socket.connect(path)
        except BaseException:
            self._socket.close()
            raise

    def close(self) -> None:
        """Say good-bye and close; safe to call twice."""
        if self._socket.fileno() >= 0:
            with contextlib.suppress(OSError):
                self._socket.sendall(protocol.request(
                    protocol.CMD_DISC, 0))
            self._socket.close()

    def abort(self) -> None:
        """Break the connection from another thread: waits end at once."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    @contextlib.contextmanager
    def told(self) -> Iterator[None]:
        """Say of an error what it happened to."""
        try:
            yield
        except OSError as exc:
            raise NBDError(f'{self._what} cannot be read: {exc}') from exc
        except struct.error as exc:
            raise self.bad('a reply is garbled.') from exc

    def bad(self, text: str) -> NBDError:
        """Give the error that something is wrong with what came."""
        return NBDError(f'{self._what}: {text}')

    def send(self, data: bytes) -> None:
        """Send all of some bytes."""
        self._socket.sendall(data)

    def ask(self, command: int, offset: int, length: int) -> int:
        """Send a request; give its cookie."""
        self._cookie += 1
        self.send(protocol.request(command, self._cookie, offset, length))
        return self._cookie

    def fill(self, view: memoryview) -> None:
        """Take as many bytes as there is room for.

        :raises NBDError: the connection ended before.
        """
        while view:
            count = self._socket.recv_into(view)
            if not count:
                raise self.bad('the connection was closed half-way.')
            view = view[count:]

    def take(self, length: int) -> bytes:
        """Take some bytes; see :meth:`fill`."""
        data = bytearray(length)
        self.fill(memoryview(data))
        return bytes(data)

    def chunk(self) -> tuple[int, int, int, int]:
        """Take the head of a structured reply.

        :return: flags, kind, cookie, length of what follows.
        :raises NBDError: it is none.
        """
        magic = protocol.MAGIC.unpack(self.take(protocol.MAGIC.size))[0]
        if magic != protocol.STRUCTURED_REPLY_MAGIC:
            raise self.bad('a reply is garbled.')
        return protocol.STRUCTURED_REPLY.unpack(
            self.take(protocol.STRUCTURED_REPLY.size))

    def check(self, kind: int, data: bytes, offset: int) -> None:
        """Raise what a chunk says of an error.

        :param offset: where was to be read.
        :raises NBDError: it says so.
        """
        if kind & protocol.REPLY_ERROR_BIT:
            number, length = struct.unpack_from('>IH', data)
            text = data[6:6 + length].decode(errors='replace')
            name = errno.errorcode.get(number, str(number))
            raise self.bad(f'reading at {offset}: {name} '
                           f'{text or os.strerror(number)}')
