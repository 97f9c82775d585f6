# SPDX-License-Identifier: Apache-2.0
"""Build the small guest: a kernel and an initramfs from Debian's packages.

Boots in three seconds under software emulation: the kernel is taken out of
its compressed wrapper and entered by the PVH door, the initramfs is not
compressed.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
import subprocess

from tests.lab import cpio
from tests.lab import ingredients
from tests.lab.processes import LabError

SOURCES = Path(__file__).with_name("guest")
PACKAGES = (ingredients.KERNEL, "busybox-static", "qemu-guest-agent")
#: In the order in which they must be loaded.
MODULES = ("virtio_ring", "virtio", "virtio_pci_legacy_dev",
           "virtio_pci_modern_dev", "virtio_pci", "virtio_blk",
           "virtio_console")
APPLETS = ("sh", "cat", "cp", "dd", "echo", "fsync", "insmod", "kill", "ls",
           "md5sum", "mkdir", "mount", "mv", "pidof", "ps", "reboot", "rm",
           "setsid", "sleep", "stty", "sync", "touch", "umount")


@dataclass(frozen=True)
class GuestImage:
    """The files to boot the guest from."""

    kernel: Path
    initramfs: Path


def guest_image() -> GuestImage:
    """Return the guest, building it when there is none yet.

    :raises LabError: when a package cannot be had or a program is missing.
    """
    finished = ingredients.built(
        "guest", (Path(__file__), Path(cpio.__file__),
                  Path(ingredients.__file__), *sorted(SOURCES.iterdir())),
        _build)
    return GuestImage(finished / "kernel", finished / "initramfs")


def _build(scratch: Path, into: Path) -> None:
    root = scratch / "root"
    root.mkdir()
    ingredients.unpack(PACKAGES, root)
    kernel = next((root / "boot").glob("vmlinuz-*"))
    (into / "kernel").write_bytes(_unwrapped_kernel(kernel.read_bytes()))
    writer = scratch / "writer"
    ingredients.run(["gcc", "-Os", "-static", "-s", "-o", writer,
                     SOURCES / "writer.c"])
    with (into / "initramfs").open("wb") as file:
        archive = cpio.Archive(file)
        _fill(archive, root, writer)
        archive.close()


# --- the kernel -------------------------------------------------------------

def _unwrapped_kernel(image: bytes) -> bytes:
    """Take the kernel proper out of a bzImage.

    Where its parts lie: the kernel's Documentation/arch/x86/boot.rst.
    """
    def field(offset: int, size: int) -> int:
        return int.from_bytes(image[offset:offset + size], "little")

    start = (field(0x1f1, 1) + 1) * 512 + field(0x248, 4)
    # The last four bytes tell the size of what was compressed.
    payload = image[start:start + field(0x24c, 4) - 4]
    if not payload.startswith(b"\x02\x21\x4c\x18"):
        # Not packed by lz4: boots as it is, half a second slower.
        return image
    done = subprocess.run(["lz4", "-d", "-c"], input=payload,
                          capture_output=True, timeout=60, check=False)
    if not done.stdout.startswith(b"\x7fELF"):
        raise LabError(f"lz4 cannot unpack the kernel: {done.stderr!r}")
    return done.stdout


# --- the initramfs ----------------------------------------------------------

def _fill(archive: cpio.Archive, root: Path, writer: Path) -> None:
    archive.character_device("dev/console", 5, 1)
    for directory in ("proc", "sys", "run", "data", "tmp"):
        archive.directory(directory)
    for name in ("init", "freeze-hook"):
        place = "init" if name == "init" else f"bin/{name}"
        archive.file(place, (SOURCES / name).read_bytes(), executable=True)
    archive.file("bin/writer", writer.read_bytes(), executable=True)
    ingredients.add_busybox(archive, root, APPLETS)
    agent = next(root.glob("**/qemu-ga"))
    archive.file("bin/qemu-ga", agent.read_bytes(), executable=True)
    for name in sorted(ingredients.libraries(agent)):
        archive.file(name, Path(name).read_bytes(), executable=True)
    ingredients.add_modules(archive, root, MODULES)
