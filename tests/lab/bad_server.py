# SPDX-License-Identifier: Apache-2.0
"""Servers that answer as no server should, for who has to bear it."""

from __future__ import annotations

from collections.abc import Callable
import contextlib
import socket
import struct
import threading

#: Does something to a connection whose request was read; may look at the
#: event, which is set when the server ends.
Behaviour = Callable[[socket.socket, threading.Event], None]

OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


class BadServer:
    """Listen on a port of 127.0.0.1: ``with BadServer(hang) as server``.

    :ivar requests: the head of each request, in order.
    """

    def __init__(self, behaviour: Behaviour):
        self.behaviour = behaviour
        self.requests: list[bytes] = []
        self._closing = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(0.1)
        self.port: int = self._listener.getsockname()[1]
        self._threads = [threading.Thread(target=self._accept, daemon=True)]

    @property
    def url(self) -> str:
        """Its address as the beginning of a URL."""
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> BadServer:
        self._threads[0].start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._closing.set()
        for thread in self._threads:
            thread.join(10)
        self._listener.close()

    def _accept(self) -> None:
        while not self._closing.is_set():
            try:
                connection, _ = self._listener.accept()
            except TimeoutError:
                continue
            thread = threading.Thread(target=self._serve, daemon=True,
                                      args=(connection,))
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            connection.settimeout(10)
            head = b""
            while b"\r\n\r\n" not in head:
                piece = connection.recv(65536)
                if not piece:
                    return
                head += piece
            self.requests.append(head)
            self.behaviour(connection, self._closing)


def hang(_connection: socket.socket, closing: threading.Event) -> None:
    """Say nothing."""
    closing.wait(60)


def reset(connection: socket.socket, _closing: threading.Event) -> None:
    """Reset the connection."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                          struct.pack("ii", 1, 0))


def hang_up(_connection: socket.socket, _closing: threading.Event) -> None:
    """Close the connection without a word."""


def say(*pieces: bytes) -> Behaviour:
    """Say something, whatever was asked, and close the connection."""
    def behaviour(connection: socket.socket,
                  _closing: threading.Event) -> None:
        for piece in pieces:
            connection.sendall(piece)
        connection.shutdown(socket.SHUT_WR)
        # Data that came unread would have the answer thrown away.
        connection.settimeout(0.2)
        connection.recv(65536)

    return behaviour


def answer(body: bytes) -> Behaviour:
    """Give a good answer with some body."""
    return say(OK, b"Content-Length: %d\r\n\r\n" % len(body), body)


def trickle(head: bytes, piece: bytes, interval: float = 0.05) -> Behaviour:
    """Say the same again and again, slowly, for ever."""
    def behaviour(connection: socket.socket,
                  closing: threading.Event) -> None:
        connection.sendall(head)
        while not closing.wait(interval):
            connection.sendall(piece)

    return behaviour


def flood(connection: socket.socket, closing: threading.Event) -> None:
    """Give an answer that has no end, as fast as it is taken."""
    connection.sendall(OK + b"\r\n")
    while not closing.is_set():
        connection.sendall(b" " * 65536)


#: All of them, by name, but the fast and the slow.
RUBBISH: dict[str, Behaviour] = {
    "no HTTP": say(b"SSH-2.0-dropbear\r\n"),
    "no JSON": answer(b"<html>Please log in</html>"),
    "a list": answer(b"[]"),
    "a number": answer(b"5"),
    "an empty body": answer(b""),
    "deep": answer(b"[" * 100_000),
    "no UTF-8": answer(b"\xff\xfe\x00"),
    "other types": answer(b'{"Systems": 5, "commands": {"a": 1}, '
                          b'"@odata.id": [], "Id": null}'),
}
