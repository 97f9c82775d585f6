# SPDX-License-Identifier: Apache-2.0
"""A disk with sectors that cannot be read: the kernel's own errors."""

from __future__ import annotations

from collections.abc import Iterator
import contextlib
from pathlib import Path
import subprocess

from tests.lab.processes import Process
from tests.lab.processes import wait_until


@contextlib.contextmanager
def bad_disk(content: Path, bad: list[tuple[int, int]], folder: Path
             ) -> Iterator[Path]:
    """Show a file as a file some of whose bytes cannot be read.

    Where :func:`tests.lab.fuse.why_not` knows no reason against it.

    :param content: of the disk.
    :param bad: offsets and lengths of what cannot be read; multiples of
        512, ascending.
    :param folder: empty; for what is needed.
    :return: path of what is shown.
    """
    table = folder / "bad.map"
    table.write_text("0x0 + 1\n" + "".join(
        f"{begin:#x} {length:#x} {state}\n" for begin, length, state
        in _map(content.stat().st_size, bad)))
    mounted = folder / "mounted"
    mounted.mkdir()
    shown = mounted / "disk"
    server = Process(
        "nbdfuse", ["nbdfuse", shown, "[", "nbdkit", "--exit-with-parent",
                    "--readonly", "--filter=ddrescue", "file", content,
                    f"ddrescue-mapfile={table}", "]"],
        folder / "nbdfuse.log")
    server.start()
    try:
        wait_until(lambda: shown.exists() and shown.stat().st_size, 30,
                   "the disk to be shown")
        yield shown
    finally:
        subprocess.run(["fusermount3", "-u", "-z", mounted], check=False,
                       capture_output=True)
        server.stop()


def _map(size: int, bad: list[tuple[int, int]]
         ) -> Iterator[tuple[int, int, str]]:
    """Give the parts of a disk, as ddrescue notes them."""
    reached = 0
    for begin, length in bad:
        if begin > reached:
            yield reached, begin - reached, "+"
        yield begin, length, "-"
        reached = begin + length
    if size > reached:
        yield reached, size - reached, "+"
