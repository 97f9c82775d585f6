# SPDX-License-Identifier: Apache-2.0
"""A server that takes a PUT into a file, and can be told to misbehave.

For the sender's tests: a real receiver behaves, and cannot be made to cut a
connection at a certain byte.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
from pathlib import Path
import socket
import ssl
import threading

_CHUNK = 1 << 20


@dataclasses.dataclass
class Manners:
    """How it behaves.

    :ivar answer: status of the final answer; None to close without one.
    :ivar reason: body of that answer.
    :ivar at_once: answer when the headers are there, and read no body.
    :ivar cut_after: bytes of the body after which it resets the
        connection; None for never.
    :ivar answer_after: bytes of the body after which it answers and closes.
    :ivar stall_after: bytes of the body after which it reads no more.
    :ivar asks: whether it knows what Expect means.
    """

    answer: int | None = 201
    reason: str = ""
    at_once: bool = False
    cut_after: int | None = None
    answer_after: int | None = None
    stall_after: int | None = None
    asks: bool = True


class Taker:
    """Listen on 127.0.0.1, take PUTs one after the other.

    :ivar headers: of the last request, names in lower case.
    :ivar received: bytes of the last body.
    :ivar digest: SHA-256 of the last body, in hex; "" of a broken one.
    """

    def __init__(self, path: Path, manners: Manners | None = None,
                 tls: ssl.SSLContext | None = None):
        self.path = path
        self.manners = manners or Manners()
        self.headers: dict[str, str] = {}
        self.request = ""
        self.received = 0
        self.digest = ""
        self.stalled = threading.Event()
        self._tls = tls
        self._end = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._open: socket.socket | None = None
        self._thread = threading.Thread(target=self._serve, daemon=True,
                                        name="lab-taker")

    def __enter__(self) -> Taker:
        self._thread.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._end.set()
        for one in (self._listener, self._open):
            if one is not None:
                with contextlib.suppress(OSError):
                    socket.socket.shutdown(one, socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(10)

    @property
    def url(self) -> str:
        """Where to put an image."""
        scheme = "https" if self._tls else "http"
        return f"{scheme}://127.0.0.1:{self.port}/transfers/image"

    def _serve(self) -> None:
        while not self._end.is_set():
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            near.settimeout(60)
            self._open = near
            with contextlib.suppress(OSError), near:
                if self._tls:
                    near = self._tls.wrap_socket(near, server_side=True)
                with near:
                    self._take(near)

    def _take(self, near: socket.socket) -> None:
        manners = self.manners
        stream = near.makefile("rb", buffering=_CHUNK)
        self.request = stream.readline().decode().strip()
        self.headers = {}
        self.received = 0
        self.digest = ""
        while line := stream.readline().decode().strip():
            name, _, value = line.partition(":")
            self.headers[name.lower()] = value.strip()
        if manners.at_once:
            self._answer(near)
            return
        if manners.asks and "expect" in self.headers:
            near.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        digest = hashlib.sha256()
        with self.path.open("wb") as file:
            for piece in self._body(stream):
                digest.update(piece)
                file.write(piece)
                self.received += len(piece)
                if self._over(manners.cut_after):
                    near.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                                    b"\1\0\0\0\0\0\0\0")
                    return
                if self._over(manners.stall_after):
                    self.stalled.set()
                    self._end.wait(60)
                    return
                if self._over(manners.answer_after):
                    break
        self.digest = digest.hexdigest()
        self._answer(near)

    def _over(self, limit: int | None) -> bool:
        return limit is not None and self.received >= limit

    def _body(self, stream):
        """Give the body, piece by piece."""
        if "content-length" in self.headers:
            left = int(self.headers["content-length"])
            while left:
                piece = self._all(stream, min(left, _CHUNK))
                left -= len(piece)
                yield piece
            return
        while size := int(stream.readline() or b"-1", 16):
            yield self._all(stream, size)
            stream.readline()
        stream.readline()

    @staticmethod
    def _all(stream, size: int) -> bytes:
        data = stream.read(size) if size > 0 else b""
        if len(data) != size:
            raise ConnectionError("the sender broke off")
        return data

    def _answer(self, near: socket.socket) -> None:
        if self.manners.answer is None:
            return
        body = self.manners.reason.encode()
        near.sendall(f"HTTP/1.1 {self.manners.answer} Whatever\r\n"
                     f"Content-Length: {len(body)}\r\n"
                     "Connection: close\r\n\r\n".encode() + body)
