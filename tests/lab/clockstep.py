# SPDX-License-Identifier: Apache-2.0
"""A wall clock of their own for some processes, to be stepped at will.

A few lines of C that are preloaded: libfaketime cannot be used, since with
it ``time.sleep(0)`` of Python 3.11 fails (its absolute clock_nanosleep gets
a time that is over).
"""

from __future__ import annotations

from pathlib import Path
import struct
import subprocess

SOURCE = Path(__file__).with_suffix(".c")


class ClockStep:
    """Compiles the library below a folder.

    :param folder: where library and offset are kept; theirs who use it.
    """

    def __init__(self, folder: Path):
        self._library = folder / "clockstep.so"
        self._offset = folder / "offset"
        self._offset.write_bytes(struct.pack("=q", 0))
        subprocess.run(
            ["gcc", "-shared", "-fPIC", "-O2", "-Wall", "-Werror", "-o",
             self._library, SOURCE, "-ldl"], check=True, timeout=60)

    @property
    def environment(self) -> dict[str, str]:
        """What a process needs in its environment to follow this clock."""
        return {"LD_PRELOAD": str(self._library),
                "CLOCKSTEP_FILE": str(self._offset)}

    def step(self, seconds: int) -> None:
        """Set the wall clock so many seconds off, at once, for all."""
        with self._offset.open("r+b") as offset:
            offset.write(struct.pack("=q", seconds))
