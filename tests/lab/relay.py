# SPDX-License-Identifier: Apache-2.0
"""A fixed address for something that moves.

Cinder reads the address of its compute endpoint once, at its start, while
each test has a Stillframe of its own.  The relay keeps one port for all of
them and passes each connection on to whoever is the target now.
"""

from __future__ import annotations

import contextlib
import socket
import threading

CHUNK = 65536


class Relay:
    """Listen on a port of 127.0.0.1, pass connections on.

    ``with Relay() as relay: relay.point_at(port)``.  Without a target,
    connections are reset at once, as if nobody listened.
    """

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._target: int | None = None
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._closed = False

    def __enter__(self) -> Relay:
        self._start(self._accept)
        return self

    def __exit__(self, *_exc: object) -> None:
        self._closed = True
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.point_at(None)
        for thread in self._threads:
            thread.join(5)

    @property
    def url(self) -> str:
        """Its address as the beginning of a URL."""
        return f"http://127.0.0.1:{self.port}"

    def point_at(self, port: int | None) -> None:
        """Choose the target of new connections; cut the present ones.

        :param port: of 127.0.0.1; None for nobody.
        """
        with self._lock:
            self._target = port
            cut, self._open = self._open, set()
        for one in cut:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def _start(self, target, *arguments: object) -> None:
        thread = threading.Thread(target=target, args=arguments,
                                  name=f"lab-relay-{self.port}", daemon=True)
        self._threads = [one for one in self._threads if one.is_alive()]
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while not self._closed:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            self._connect(near)

    def _connect(self, near: socket.socket) -> None:
        with self._lock:
            target = self._target
        try:
            if target is None:
                raise ConnectionRefusedError("the relay has no target")
            far = socket.create_connection(("127.0.0.1", target), timeout=5)
        except OSError:
            # Close with a reset, so that a client sees no empty answer.
            near.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                            b"\x01\x00\x00\x00\x00\x00\x00\x00")
            near.close()
            return
        far.settimeout(None)
        with self._lock:
            self._open |= {near, far}
        self._start(self._both_ways, near, far)

    def _both_ways(self, near: socket.socket, far: socket.socket) -> None:
        back = threading.Thread(target=self._pump, args=(far, near),
                                name=f"lab-relay-{self.port}-back",
                                daemon=True)
        back.start()
        self._pump(near, far)
        back.join()
        with self._lock:
            self._open -= {near, far}
        near.close()
        far.close()

    @staticmethod
    def _pump(source: socket.socket, into: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(CHUNK):
                into.sendall(data)
        with contextlib.suppress(OSError):
            into.shutdown(socket.SHUT_WR)
