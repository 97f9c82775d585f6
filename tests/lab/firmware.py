# SPDX-License-Identifier: Apache-2.0
"""UEFI for machines, and what it boots: a kernel that is one program.

Kernel, initrd and command line are put into one file (a unified kernel
image), so that no boot loader has to find them.  Debian's packages are only
unpacked.
"""

from __future__ import annotations

from pathlib import Path
import shutil

from tests.lab import ingredients

#: Where the parts go in memory; the stub and the kernel fit below.
PLACES = {".cmdline": 0x30000, ".linux": 0x2000000, ".initrd": 0x3000000}


def _files() -> Path:
    return ingredients.built("firmware", (Path(__file__),), _build)


def _build(scratch: Path, into: Path) -> None:
    ingredients.unpack(("ovmf", "systemd-boot-efi"), scratch)
    for name, place in (
            ("code", "usr/share/OVMF/OVMF_CODE_4M.fd"),
            ("variables", "usr/share/OVMF/OVMF_VARS_4M.fd"),
            ("stub", "usr/lib/systemd/boot/efi/linuxx64.efi.stub")):
        shutil.copyfile(scratch / place, into / name)


def uefi(folder: Path) -> tuple[Path, Path]:
    """Copy the firmware and its template of variables into a folder."""
    code, variables = folder / "uefi-code", folder / "uefi-variables"
    shutil.copyfile(_files() / "code", code)
    shutil.copyfile(_files() / "variables", variables)
    return code, variables


def write_program(into: Path, kernel: Path, initrds: tuple[Path, ...],
                  line: str) -> None:
    """Make a program for UEFI of a kernel, initrds and a command line."""
    options = into.with_suffix(".cmdline")
    options.write_text(line)
    initrd = into.with_suffix(".initrd")
    with initrd.open("wb") as file:
        for one in initrds:
            data = one.read_bytes()
            file.write(data + b"\0" * (-len(data) % 4))
    command: list[str | Path] = ["objcopy"]
    for section, part in ((".cmdline", options), (".linux", kernel),
                          (".initrd", initrd)):
        command += ["--add-section", f"{section}={part}",
                    "--change-section-vma",
                    f"{section}={PLACES[section]:#x}"]
    ingredients.run([*command, _files() / "stub", into])


def write_esp(into: Path, program: Path, size: int) -> None:
    """Make a FAT file system from which UEFI boots a program.

    :param size: MiB.
    """
    ingredients.run(["mkfs.vfat", "-C", into, str(size << 10)])
    add_program(into, program)


def add_program(esp: Path, program: Path) -> None:
    """Put what UEFI boots by default into a FAT file system."""
    ingredients.run(["mmd", "-i", esp, "::EFI", "::EFI/BOOT"])
    ingredients.run(["mcopy", "-i", esp, program, "::EFI/BOOT/BOOTX64.EFI"])
