# SPDX-License-Identifier: Apache-2.0
"""A relay that passes no more than so many bytes a second.

A token bucket of our own, as the kernel's traffic control is not on every
machine and would slow down all that uses the loopback device.
"""

import contextlib
import socket
import threading
import time
from types import TracebackType
from typing import Self

_PIECE = 16 << 10


class Narrow:
    """``with Narrow(port, rate) as link: link.port``.

    :param target: port of 127.0.0.1 to which everything is passed.
    :param rate: bytes a second towards it.
    :ivar port: to connect to.
    """

    def __init__(self, target: int, rate: float):
        self._target = target
        self._rate = rate
        self._listener = socket.create_server(('127.0.0.1', 0))
        self.port: int = self._listener.getsockname()[1]
        self._sockets: list[socket.socket] = []
        self._thread = threading.Thread(target=self._accept, daemon=True,
                                        name='narrow')

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None,
                 value: BaseException | None,
                 trace: TracebackType | None) -> None:
        for one in (self._listener, *self._sockets):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        self._thread.join(10)

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            far = socket.create_connection(('127.0.0.1', self._target))
            self._sockets += [near, far]
            # A link has no more on its way than this.
            near.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 256 << 10)
            for pump in (self._forth, self._back):
                threading.Thread(target=pump, args=(near, far), daemon=True,
                                 name='narrow-pump').start()

    def _forth(self, near: socket.socket, far: socket.socket) -> None:
        due = time.monotonic()
        with contextlib.suppress(OSError):
            while data := near.recv(_PIECE):
                due = max(due, time.monotonic() - 0.05)
                due += len(data) / self._rate
                time.sleep(max(0.0, due - time.monotonic()))
                far.sendall(data)
            far.shutdown(socket.SHUT_WR)

    def _back(self, near: socket.socket, far: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := far.recv(_PIECE):
                near.sendall(data)
            near.shutdown(socket.SHUT_WR)
