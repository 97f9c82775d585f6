# SPDX-License-Identifier: Apache-2.0
"""File systems in files: fill them, look into them, catch them unready.

Mounts need the rights of root. Each is made in a mount namespace of its
own, by ``python -m tests.lab.file_systems WHAT IMAGE``: one that others
could see would live on in the namespace of whoever begins one meanwhile,
and the file system would not be unmounted when it seems to be.
"""

from __future__ import annotations

from collections.abc import Iterator
import contextlib
import hashlib
import json
import os
from pathlib import Path
import random
import shutil
import subprocess
import sys
import tempfile

MIB = 1 << 20
_FILES = 140
_TOP = Path(__file__).parents[2]


def make(image: Path, mib: int, command: list[str]) -> None:
    """Make a file system in a file that held something else everywhere."""
    with image.open("wb") as file:
        for _ in range(mib):
            file.write(b"\xa5" * MIB)
    subprocess.run([*command, image], check=True, timeout=60,
                   stdout=subprocess.DEVNULL)


def fill(image: Path) -> None:
    """Write files, of all sizes, and delete half of them again."""
    _run("fill", image)


def catch(image: Path, into: Path) -> None:
    """Copy a file system while it is in use, as a power cut leaves it."""
    _run("catch", image, into)


def digests(image: Path) -> dict[str, str]:
    """Give a digest of all that each file and directory is.

    One that was not unmounted is recovered by this.
    """
    return json.loads(_run("digests", image))


def _run(what: str, *words: object) -> str:
    return subprocess.run(
        ["unshare", "--mount", "--propagation", "private", sys.executable,
         "-m", "tests.lab.file_systems", what, *map(str, words)],
        check=True, cwd=_TOP, text=True, stdout=subprocess.PIPE,
        timeout=120).stdout


@contextlib.contextmanager
def _mounted(image: Path, options: str) -> Iterator[Path]:
    place = Path(tempfile.mkdtemp(prefix="sf-mount-", dir="/tmp"))
    try:
        subprocess.run(["mount", "-o", f"loop,{options}", image, place],
                       check=True)
        try:
            yield place
        finally:
            subprocess.run(["umount", place], check=True)
    finally:
        place.rmdir()


def _write(place: Path) -> None:
    chance = random.Random(1)
    for number in range(_FILES):
        folder = place / f"folder-{number % 7}"
        folder.mkdir(exist_ok=True)
        (folder / str(number)).write_bytes(
            chance.randbytes(chance.randrange(1, 1_500_000)))
    for number in range(500):
        (place / f"small-{number}").write_bytes(
            b"y" * chance.randrange(5000))
    with (place / "sparse").open("wb") as file:
        file.truncate(50 * MIB)
        file.seek(20 * MIB)
        file.write(b"in the middle")
    with (place / "reserved").open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, 3 * MIB)
    (place / "link").symlink_to("/nowhere" * 30)


def _fill(image: Path) -> None:
    with _mounted(image, "rw") as place:
        _write(place)
        os.sync()
        for number in range(0, _FILES, 2):
            (place / f"folder-{number % 7}" / str(number)).unlink()


def _catch(image: Path, into: Path) -> None:
    with _mounted(image, "rw") as place:
        _write(place)
        os.sync()
        with (place / "last").open("wb") as file:
            file.write(b"z" * MIB)
            file.flush()
            os.fsync(file.fileno())
        shutil.copyfile(image, into)


def _digests(image: Path) -> None:
    found = {}
    with _mounted(image, "noatime") as place:
        for path in sorted(place.rglob("*")):
            if path.is_symlink():
                content = os.readlink(path).encode()
            else:
                content = b"" if path.is_dir() else path.read_bytes()
            about = path.lstat()
            found[str(path.relative_to(place))] = hashlib.sha256(
                repr((about.st_mode, about.st_size, about.st_mtime_ns,
                      about.st_uid)).encode() + content).hexdigest()
    print(json.dumps(found))


if __name__ == "__main__":
    {"fill": _fill, "catch": _catch, "digests": _digests}[sys.argv[1]](
        *map(Path, sys.argv[2:]))
