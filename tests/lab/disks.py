# SPDX-License-Identifier: Apache-2.0
"""Disk images: make them, copy them, look into them from outside."""

from __future__ import annotations

from pathlib import Path
import subprocess


def make_ext4(path: Path, size_mib: int = 48) -> None:
    """Make a raw image that holds one ext4 file system.

    :param size_mib: of the image, in MiB; it's sparse.
    """
    with path.open("wb") as file:
        file.truncate(size_mib << 20)
    subprocess.run(["mkfs.ext4", "-q", "-F", "-E", "nodiscard", path],
                   check=True, timeout=30)


def to_qcow2(raw: Path, into: Path) -> None:
    """Convert a raw image into a qcow2 one."""
    subprocess.run(["qemu-img", "convert", "-f", "raw", "-O", "qcow2", raw,
                    into], check=True, timeout=60)


def copy(source: Path, into: Path, image_format: str = "raw") -> None:
    """Copy an image as a storage array would: at once, in use or not.

    The copy is raw.  qemu-img is told not to care that a guest uses it.
    """
    subprocess.run(["qemu-img", "convert", "-U", "-f", image_format, "-O",
                    "raw", source, into], check=True, timeout=60)


def needs_recovery(image: Path) -> bool:
    """Tell whether an ext4 image was cut off in the middle of its work.

    ext4 has the feature flag of this name set as long as it is mounted for
    writing, and clears it only when it was unmounted or frozen: after that
    the image is whole without a replay of its journal.

    :param image: a raw image of one ext4 file system.
    """
    done = subprocess.run(["dumpe2fs", "-h", image], capture_output=True,
                          text=True, check=True, timeout=30,
                          env={"LC_ALL": "C", "PATH": "/usr/sbin:/sbin"})
    for line in done.stdout.splitlines():
        if line.startswith("Filesystem features:"):
            return "needs_recovery" in line.split()
    raise ValueError(f"dumpe2fs tells no features of {image}")


def replay(image: Path) -> None:
    """Replay the journal of a copy, as the next one to mount it would.

    What was synced in the guest may be in the journal alone: without this
    it's read as it was before.

    :param image: a raw image of one ext4 file system, in use by nobody.
    """
    done = subprocess.run(["e2fsck", "-y", "-E", "journal_only", image],
                          capture_output=True, text=True, check=False,
                          timeout=60,
                          env={"LC_ALL": "C", "PATH": "/usr/sbin:/sbin"})
    # Nothing else is mended: what is torn is for the test to find.
    if done.returncode not in (0, 1):
        raise ValueError(f"e2fsck: {done.stdout}{done.stderr}")


def read_file(image: Path, path: str) -> bytes:
    """Read a file out of an ext4 image, without mounting it."""
    done = subprocess.run(["debugfs", "-R", f"cat {path}", image],
                          capture_output=True, check=True, timeout=30,
                          env={"LC_ALL": "C", "PATH": "/usr/sbin:/sbin"})
    return done.stdout
