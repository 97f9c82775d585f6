# SPDX-License-Identifier: Apache-2.0
"""A lock file that tells who holds it.

POSIX record locks: the kernel drops them when the holder dies, children do
not inherit them, and anyone may ask for the holder's process id without
taking the lock.

Standard library only: the guard uses this too.
"""

import fcntl
import os
import pathlib
import struct

# struct flock of 64-bit Linux: type, whence, start, length, pid.
_FLOCK = 'hhqqi4x'


class PidLock:
    """A lock that one process at a time can hold until it ends.

    Only one object a process may be made for a path: closing any handle on
    the file would drop the lock.
    """

    def __init__(self, path: pathlib.Path):
        self._handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)

    def acquire(self) -> bool:
        """Take the lock.

        :return: False when another process holds it.
        """
        try:
            fcntl.lockf(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            return False
        return True

    def holder(self) -> int | None:
        """Give the id of another process that holds the lock, or None."""
        asked = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        kind, _whence, _start, _length, pid = struct.unpack(
            _FLOCK, fcntl.fcntl(self._handle, fcntl.F_GETLK, asked))
        return None if kind == fcntl.F_UNLCK else pid

    def close(self) -> None:
        """Let go of the lock and of the file."""
        os.close(self._handle)
