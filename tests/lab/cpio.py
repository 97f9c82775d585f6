# SPDX-License-Identifier: Apache-2.0
"""Write an archive that the Linux kernel unpacks as its initramfs.

The format ("newc") is described in the kernel's
Documentation/driver-api/early-userspace/buffer-format.rst.
"""

from __future__ import annotations

from pathlib import PurePosixPath
import stat
from typing import BinaryIO


class Archive:
    """An archive being written to a file, directories made as needed."""

    def __init__(self, file: BinaryIO):
        self._file = file
        self._inode = 0
        self._directories = {PurePosixPath("/")}

    def _entry(self, name: str, mode: int, data: bytes,
               device: tuple[int, int] = (0, 0)) -> None:
        self._inode += 1
        path = name.encode() + b"\0"
        fields = [self._inode, mode, 0, 0, 1, 0, len(data), 0, 0, *device,
                  len(path), 0]
        header = b"070701" + b"".join(b"%08X" % field for field in fields)
        for part in (header + path, data):
            self._file.write(part + b"\0" * (-len(part) % 4))

    def _parents(self, path: str) -> str:
        pure = PurePosixPath("/", path)
        for parent in reversed(pure.parents):
            if parent not in self._directories:
                self.directory(str(parent))
        return str(pure)[1:]

    def directory(self, path: str) -> None:
        """Add a directory."""
        name = self._parents(path)
        self._directories.add(PurePosixPath("/", path))
        self._entry(name, stat.S_IFDIR | 0o755, b"")

    def file(self, path: str, data: bytes, executable: bool = False) -> None:
        """Add a file."""
        mode = stat.S_IFREG | (0o755 if executable else 0o644)
        self._entry(self._parents(path), mode, data)

    def link(self, path: str, target: str) -> None:
        """Add a symbolic link."""
        self._entry(self._parents(path), stat.S_IFLNK | 0o777,
                    target.encode())

    def character_device(self, path: str, major: int, minor: int) -> None:
        """Add a character device."""
        self._entry(self._parents(path), stat.S_IFCHR | 0o600, b"",
                    (major, minor))

    def close(self) -> None:
        """Write the trailer; the file stays open."""
        self._entry("TRAILER!!!", 0, b"")
