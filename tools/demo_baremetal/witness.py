# SPDX-License-Identifier: Apache-2.0
"""The witness: looks at disks from outside, and asks nobody."""

from __future__ import annotations

from dataclasses import dataclass
import hashlib
import json
from pathlib import Path
import stat

from tests.lab import ingredients
from tests.lab import node_disk
from tools.demo.performance import DemoFailed


@dataclass(frozen=True)
class Image:
    """An image as it lies there.

    :ivar size: of the file, bytes.
    :ivar virtual_size: of the disk in it, bytes.
    """

    size: int
    virtual_size: int
    sha256: str


def examine(path: Path) -> Image:
    """Look at a qcow2 image, which must be whole and stand alone.

    :raises DemoFailed: it is not so.
    """
    command = ["qemu-img", "info", "--output", "json", "-f", "qcow2", path]
    info = json.loads(ingredients.run(list(command)))
    if "backing-filename" in info:
        raise DemoFailed(f"the image needs {info['backing-filename']}")
    ingredients.run(["qemu-img", "check", "-q", "-f", "qcow2", path])
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return Image(path.stat().st_size, info["virtual-size"], digest)


def to_disk(image: Path, disk: Path) -> None:
    """Write an image to a disk, as whoever restores it does."""
    ingredients.run(["qemu-img", "convert", "-f", "qcow2", "-O", "raw",
                     image, disk])


def copy_disk(disk: Path, into: Path) -> None:
    """Copy a raw disk as it is now."""
    ingredients.run(["cp", "--sparse=always", disk, into])


def same_tables(one: Path, other: Path) -> bool:
    """Tell whether two disks have the same partition table and boot code."""
    size = node_disk.ESP_START
    with one.open("rb") as first, other.open("rb") as second:
        return first.read(size) == second.read(size)


def files(disk: Path, scratch: Path) -> dict[str, tuple[int, str]]:
    """Read the root file system of a disk, which must be sound.

    :param scratch: a folder to be made, to unpack it to.
    :return: for each path its mode and the SHA-256 of what it holds.
    """
    node_disk.check_root(disk)
    node_disk.unpack_root(disk, scratch)
    found = {}
    for path in sorted(scratch.rglob("*")):
        mode = path.lstat().st_mode
        content = b""
        if stat.S_ISLNK(mode):
            content = str(path.readlink()).encode()
        elif stat.S_ISREG(mode):
            content = path.read_bytes()
        found[str(path.relative_to(scratch))] = (
            mode, hashlib.sha256(content).hexdigest())
    return found


def larger_than(folder: Path, size: int) -> list[str]:
    """Name the files below a folder with more bytes than that."""
    return [str(path) for path in folder.rglob("*")
            if path.is_file() and path.stat().st_size > size]
