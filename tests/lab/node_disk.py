# SPDX-License-Identifier: Apache-2.0
"""The disk of a bare-metal machine: boots, and holds files to compare.

A GPT with an EFI system partition, from which UEFI boots or the BIOS, and
a root file system in ext4.  Built without mounting anything.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
import random
import shutil
import subprocess
import tempfile

from tests.lab import cpio
from tests.lab import firmware
from tests.lab import ingredients
from tests.lab import ramdisk
from tests.lab.processes import LabError

MIB = 1 << 20
SIZE = 512 * MIB
ESP_START, ESP_SIZE = 1 * MIB, 40 * MIB
ROOT_START = ESP_START + ESP_SIZE
#: The end of the disk is the second copy of the partition table's.
ROOT_SIZE = SIZE - ROOT_START - 1 * MIB
ROOT_UUID = "8d2f6f0e-6b9c-4c2b-9a51-3d1f0c7e5a42"
DISK_GUID = "5B0E1F7A-93D4-4E0C-8C55-7A1E2D3C4B6F"
#: Bytes that cannot be compressed: in files, and in files deleted since.
KEPT, DELETED = 48 * MIB, 32 * MIB
SOURCES = ramdisk.SOURCES
MODULES = ("virtio_ring", "virtio", "virtio_pci_legacy_dev",
           "virtio_pci_modern_dev", "virtio_pci", "virtio_blk")
APPLETS = ("sh", "cat", "cut", "echo", "findfs", "head", "insmod", "mount",
           "poweroff", "sleep", "switch_root", "sync")
GPTMBR = Path("/usr/lib/syslinux/mbr/gptmbr.bin")


def make_node_disk(into: Path, uefi: bool = False) -> None:
    """Write a raw disk to boot a machine from; it's sparse.

    :param uefi: for machines with UEFI; else for those with a BIOS.
    :raises LabError: when a package cannot be had or a program is missing.
    """
    finished = ingredients.built(
        "node-disk-uefi" if uefi else "node-disk",
        (Path(__file__), Path(cpio.__file__), Path(ingredients.__file__),
         Path(firmware.__file__), *sorted(SOURCES.glob("disk-*"))),
        lambda scratch, into: _build(scratch, into, uefi))
    ingredients.run(["cp", "--sparse=always", "--reflink=auto",
                     finished / "disk.raw", into])


# --- looking into a disk, from outside ------------------------------------

def root_of(disk: Path) -> str:
    """Name the root file system in a raw disk as e2fsprogs call it."""
    return f"{disk}?offset={ROOT_START}"


def _debugfs(disk: Path, request: str, write: bool = False) -> bytes:
    done = subprocess.run(
        ["debugfs", *(["-w"] if write else []), "-R", request,
         root_of(disk)], capture_output=True, check=False, timeout=300,
        env={"LC_ALL": "C", "PATH": "/usr/sbin:/sbin"})
    # debugfs ends with 0 whatever happens, and begins with its version.
    complaints = done.stderr.decode(errors="replace").partition("\n")[2]
    if done.returncode or complaints.strip():
        raise LabError(f"debugfs {request} on {disk}: {complaints}")
    return done.stdout


def boots_of(disk: Path) -> int:
    """Read how often a disk was booted from; nobody may be writing it."""
    return int(_debugfs(disk, "cat /var/boots"))


def make_deaf(disk: Path) -> None:
    """Have its system ignore the power button from the next boot on."""
    _debugfs(disk, "mkdir /etc/deaf", write=True)


def check_root(disk: Path) -> None:
    """Check the root file system, writing nothing.

    :raises LabError: something is wrong with it.
    """
    ingredients.run(["e2fsck", "-f", "-n", root_of(disk)])


def unpack_root(disk: Path, into: Path) -> None:
    """Copy all files of the root file system, without mounting it."""
    with contextlib.suppress(FileExistsError):
        into.mkdir()
    _debugfs(disk, f"rdump / {into}")


# --- building -------------------------------------------------------------

def _build(scratch: Path, into: Path, uefi: bool) -> None:
    packages = scratch / "packages"
    packages.mkdir()
    ingredients.unpack((ingredients.KERNEL, "busybox-static"), packages)
    disk = into / "disk.raw"
    with disk.open("wb") as file:
        file.truncate(SIZE)
    ingredients.run([
        "sgdisk", "--disk-guid", DISK_GUID,
        "--new", f"1:{ESP_START // 512}:+{ESP_SIZE // MIB}M",
        "--typecode", "1:ef00", "--attributes", "1:set:2",
        "--new", f"2:{ROOT_START // 512}:+{ROOT_SIZE // MIB}M",
        "--typecode", "2:8300", disk])
    if not uefi:
        _put(GPTMBR, disk, 0)
    _put(_esp(scratch, packages, uefi), disk, ESP_START)
    _put(_root(scratch, packages), disk, ROOT_START)


def _put(source: Path, disk: Path, offset: int) -> None:
    ingredients.run([
        "dd", f"if={source}", f"of={disk}", "bs=64K", "conv=notrunc,sparse",
        "oflag=seek_bytes", f"seek={offset}", "status=none"])


def _esp(scratch: Path, packages: Path, uefi: bool) -> Path:
    """Make the partition that firmware boots from."""
    image = scratch / "esp"
    initrd = scratch / "initrd"
    with initrd.open("wb") as file:
        archive = cpio.Archive(file)
        archive.character_device("dev/console", 5, 1)
        for directory in ("proc", "sys", "root"):
            archive.directory(directory)
        archive.file("init", (SOURCES / "disk-initramfs-init").read_bytes(),
                     executable=True)
        ingredients.add_busybox(archive, packages, APPLETS)
        ingredients.add_modules(archive, packages, MODULES)
        archive.close()
    kernel = next((packages / "boot").glob("vmlinuz-*"))
    line = f"{ramdisk.KERNEL_OPTIONS} root=UUID={ROOT_UUID}"
    if uefi:
        program = scratch / "program"
        firmware.write_program(program, kernel, (initrd,), line)
        firmware.write_esp(image, program, ESP_SIZE // MIB)
        return image
    config = scratch / "syslinux.cfg"
    config.write_text(
        "SERIAL 0\nPROMPT 0\nDEFAULT node\nLABEL node\nKERNEL /vmlinuz\n"
        f"INITRD /initrd\nAPPEND {line}\n")
    ingredients.run(["mkfs.vfat", "-C", image, str(ESP_SIZE >> 10)])
    ingredients.run(["syslinux", "--install", image])
    for source, name in ((kernel, "vmlinuz"), (initrd, "initrd"),
                         (config, "syslinux.cfg")):
        ingredients.run(["mcopy", "-i", image, source, f"::{name}"])
    return image


def _root(scratch: Path, packages: Path) -> Path:
    """Make the root file system, with files that are deleted again."""
    image = scratch / "root.ext4"
    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        tree = Path(folder)
        tree.chmod(0o755)
        _fill(tree, packages)
        with image.open("wb") as file:
            file.truncate(ROOT_SIZE)
        ingredients.run(["mkfs.ext4", "-q", "-U", ROOT_UUID, "-L", "root",
                         "-d", tree, image])
    ingredients.run(["debugfs", "-w", "-R", "rm /srv/deleted", image])
    return image


def _fill(tree: Path, packages: Path) -> None:
    for name in ("bin", "dev", "etc", "modules", "proc", "sbin", "srv", "sys",
                 "var"):
        (tree / name).mkdir()
    shutil.copyfile(next(packages.glob("**/bin/busybox")),
                    tree / "bin/busybox")
    (tree / "bin/busybox").chmod(0o755)
    for applet in APPLETS:
        (tree / "bin" / applet).symlink_to("busybox")
    shutil.copyfile(SOURCES / "disk-init", tree / "sbin/init")
    (tree / "sbin/init").chmod(0o755)
    for module in ("evdev", "button"):
        (tree / f"modules/{module}.ko").write_bytes(
            ingredients.module(packages, module))
    (tree / "var/boots").write_text("0\n")
    # The same each time: what is compared must be the disk, not the dice.
    dice = random.Random(4)
    (tree / "srv/large").write_bytes(dice.randbytes(KEPT))
    (tree / "srv/deleted").write_bytes(dice.randbytes(DELETED))
    for number in range(300):
        folder = tree / f"srv/small/{number % 12:02}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number}.bin").write_bytes(
            dice.randbytes(dice.randrange(1, 40_000)))
