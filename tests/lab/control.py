# SPDX-License-Identifier: Apache-2.0
"""Reach into a guest by its second serial port, agent or no agent."""

from __future__ import annotations

from pathlib import Path
import re
import socket
import time

from tests.lab.processes import LabError


class Control:
    """A line to the command loop of a guest's second serial port."""

    def __init__(self, path: Path):
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(5)
        self._socket.connect(str(path))
        self._unread = b""

    def close(self) -> None:
        """Hang up."""
        self._socket.close()

    def run(self, script: str, timeout: float) -> str:
        """Send a line; return what it prints.

        :raises LabError: when it fails or takes longer than timeout s.
        """
        self._socket.sendall(script.encode() + b"\n")
        deadline = time.monotonic() + timeout
        while (end := re.search(rb"^== (\d+)\r?\n", self._unread,
                                re.MULTILINE)) is None:
            left = deadline - time.monotonic()
            if left <= 0:
                raise LabError(f"no end of {script!r} in {timeout} s")
            self._socket.settimeout(left)
            try:
                more = self._socket.recv(65536)
            except TimeoutError:
                continue
            if not more:
                raise LabError(f"the guest hung up during {script!r}")
            self._unread += more
        output = self._unread[:end.start()].decode(errors="replace")
        self._unread = self._unread[end.end():]
        if end.group(1) != b"0":
            raise LabError(f"{script!r} failed: {output}")
        return output.replace("\r\n", "\n")
