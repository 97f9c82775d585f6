# SPDX-License-Identifier: Apache-2.0
"""Build the ramdisk: a kernel, Python, and the stand-alone agent on a CD.

In two parts that the boot loader puts together: the operating system,
which is built once, and the agent as it is in this tree now.  Python comes
from Debian's packages, compiled beforehand: under software emulation that
saves ten seconds of each boot.
"""

from __future__ import annotations

from dataclasses import dataclass
import os
from pathlib import Path
import shutil
import tempfile

from tests.lab import cpio
from tests.lab import firmware
from tests.lab import ingredients

SOURCES = Path(__file__).with_name("baremetal")
#: What goes in from there, and where.
INSIDE = {"ramdisk-init": "init", "take-lease": "bin/take-lease"}
PACKAGE = Path(__file__).parents[2] / "stillframe"
#: What of our own goes in.
AGENT = ("agent", "qcow2")
#: In the order in which they must be loaded.
MODULES = ("virtio_ring", "virtio", "virtio_pci_legacy_dev",
           "virtio_pci_modern_dev", "virtio_pci", "virtio_blk", "failover",
           "net_failover", "virtio_net")
APPLETS = ("sh", "awk", "cat", "cut", "dd", "dmesg", "echo", "head", "insmod",
           "ip", "kill", "ln", "ls", "mkdir", "mount", "pidof", "ps",
           "reboot", "rm", "sleep", "stty", "sync", "touch", "udhcpc",
           "umount", "wget")
#: Folders of the standard library that no agent needs.
LEFT_OUT = frozenset((
    "__pycache__", "asyncio", "curses", "dbm", "distutils", "ensurepip",
    "idlelib", "lib2to3", "multiprocessing", "pydoc_data", "sqlite3", "test",
    "tkinter", "turtledemo", "unittest", "venv", "wsgiref", "xmlrpc"))
#: Modules in C that no agent needs, by how their names begin.
LEFT_OUT_C = ("_codecs_", "_ctypes_test", "_curses", "_dbm", "_sqlite3",
              "_test", "_tkinter", "_xxtestfuzz", "audioop", "nis",
              "ossaudiodev", "readline", "xxlimited")
#: Take the shortest way to the first program, and restart when that dies.
KERNEL_OPTIONS = ("console=ttyS0 quiet panic=-1 nokaslr mitigations=off "
                  "tsc=reliable no_timer_check")
ISOLINUX = Path("/usr/lib/ISOLINUX/isolinux.bin")
LDLINUX = Path("/usr/lib/syslinux/modules/bios/ldlinux.c32")


@dataclass(frozen=True)
class Ramdisk:
    """The files to boot the ramdisk from; both initrds are needed.

    :ivar system: the operating system, an initrd.
    :ivar agent: the agent, an initrd.
    """

    kernel: Path
    system: Path
    agent: Path


def ramdisk() -> Ramdisk:
    """Return the ramdisk, building what there is not yet.

    :raises LabError: when a package cannot be had or a program is missing.
    """
    common = (Path(__file__), Path(cpio.__file__), Path(ingredients.__file__))
    system = ingredients.built(
        "ramdisk", (*common, *(SOURCES / name for name in INSIDE)),
        _build_system)
    agent = ingredients.built(
        "agent", (*common, *_agent_files(), str(_agent_files())),
        lambda scratch, into: _build_agent(system, scratch, into))
    return Ramdisk(system / "kernel", system / "initrd", agent / "initrd")


def write_iso(into: Path, options: str, uefi: bool = False) -> None:
    """Write a CD that boots the ramdisk.

    :param options: for the kernel's command line, such as
        ``ipa-api-url=http://192.0.2.1:8774``.
    :param uefi: for machines with UEFI; else for those with a BIOS.
    :raises LabError: a program or a package is missing.
    """
    parts = ramdisk()
    line = f"{KERNEL_OPTIONS} {options}"
    with tempfile.TemporaryDirectory(dir=into.parent) as scratch:
        tree = Path(scratch) / "tree"
        tree.mkdir()
        boot = (_for_uefi(Path(scratch), tree, parts, line) if uefi
                else _for_bios(tree, parts, line))
        ingredients.run(["xorriso", "-as", "mkisofs", "-quiet",
                         "-V", "RAMDISK", "-J", "-R", *boot,
                         "-no-emul-boot", "-o", into, tree])


def _for_bios(tree: Path, parts: Ramdisk, line: str) -> list[str]:
    for source, name in ((parts.kernel, "vmlinuz"),
                         (parts.system, "system.img"),
                         (parts.agent, "agent.img"),
                         (ISOLINUX, "isolinux.bin"),
                         (LDLINUX, "ldlinux.c32")):
        shutil.copyfile(source, tree / name)
    # In this order: the kernel takes nothing after what lz4 packed.
    (tree / "isolinux.cfg").write_text(
        "SERIAL 0\nPROMPT 0\nDEFAULT ramdisk\nLABEL ramdisk\n"
        "KERNEL /vmlinuz\nINITRD /agent.img,/system.img\n"
        f"APPEND {line}\n")
    return ["-b", "isolinux.bin", "-c", "boot.cat", "-boot-load-size", "4",
            "-boot-info-table"]


def _for_uefi(scratch: Path, tree: Path, parts: Ramdisk, line: str
              ) -> list[str]:
    program = scratch / "program"
    firmware.write_program(program, parts.kernel,
                           (parts.agent, parts.system), line)
    firmware.write_esp(tree / "efi.img", program, 48)
    return ["-e", "efi.img"]


# --- the operating system -------------------------------------------------

def _build_system(scratch: Path, into: Path) -> None:
    root = scratch / "root"
    root.mkdir()
    ingredients.unpack((ingredients.KERNEL, "busybox-static"), root)
    shutil.copyfile(next((root / "boot").glob("vmlinuz-*")), into / "kernel")
    python = _unpack_python(scratch)
    plain = scratch / "initrd"
    with plain.open("wb") as file:
        archive = cpio.Archive(file)
        archive.character_device("dev/console", 5, 1)
        for directory in ("proc", "sys", "run", "tmp"):
            archive.directory(directory)
        for source, place in INSIDE.items():
            archive.file(place, (SOURCES / source).read_bytes(),
                         executable=True)
        ingredients.add_busybox(archive, root, APPLETS)
        ingredients.add_modules(archive, root, MODULES)
        _add_python(archive, python)
        archive.close()
    # The old format of lz4 is the one that kernels read.
    ingredients.run(["lz4", "-q", "-l", "-9", plain, into / "initrd"])
    # The agent is compiled by the Python that will run it.
    shutil.move(python, into / "python")


def _unpack_python(scratch: Path) -> Path:
    root = scratch / "python"
    root.mkdir()
    ingredients.unpack((ingredients.PYTHON,), root)
    version = next((root / "usr/bin").glob("python3.*")).name
    ingredients.unpack((f"lib{version}-minimal", f"lib{version}-stdlib"),
                       root)
    library = root / "usr/lib" / version
    for path in list(library.iterdir()):
        if path.name in LEFT_OUT:
            shutil.rmtree(path)
    for path in (library / "lib-dynload").iterdir():
        if path.name.startswith(LEFT_OUT_C):
            path.unlink()
    return root


def _python(root: Path) -> Path:
    return next((root / "usr/bin").glob("python3.*"))


def _compile(root: Path, folder: Path) -> None:
    """Compile below a folder, each module to a file that needs no source."""
    ingredients.run(
        [_python(root), "-S", "-m", "compileall", "-q", "-b", "-s", folder,
         folder],
        env={"PYTHONHOME": str(root / "usr"), "PATH": os.defpath})


def _add_python(archive: cpio.Archive, root: Path) -> None:
    program = _python(root)
    library = root / "usr/lib" / program.name
    modules = sorted((library / "lib-dynload").glob("*.so"))
    _add_tree(archive, library, f"usr/lib/{program.name}", root)
    for module in modules:
        archive.file(f"usr/lib/{program.name}/lib-dynload/{module.name}",
                     module.read_bytes(), executable=True)
    archive.file(f"usr/bin/{program.name}", program.read_bytes(),
                 executable=True)
    archive.link("usr/bin/python3", program.name)
    # Loaded by name when it's wanted, so that no program tells of it.
    zstd = sorted(Path("/usr/lib").glob("*/libzstd.so.1"))
    for name in sorted({*ingredients.libraries(program, *modules),
                        *map(str, zstd)}):
        archive.file(name, Path(name).read_bytes(), executable=True)


def _add_tree(archive: cpio.Archive, folder: Path, place: str,
              python: Path) -> None:
    """Add all modules below a folder, compiled."""
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch) / "tree"
        shutil.copytree(folder, copy,
                        ignore=shutil.ignore_patterns("__pycache__"))
        _compile(python, copy)
        for path in sorted(copy.rglob("*.pyc")):
            archive.file(f"{place}/{path.relative_to(copy)}",
                         path.read_bytes())


# --- the agent ------------------------------------------------------------

def _agent_files() -> list[Path]:
    return [PACKAGE / "__init__.py",
            *sorted(path for folder in AGENT
                    for path in (PACKAGE / folder).rglob("*.py"))]


def _build_agent(system: Path, scratch: Path, into: Path) -> None:
    tree = scratch / "stillframe"
    for path in _agent_files():
        copy = tree / path.relative_to(PACKAGE)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
    python = system / "python"
    with (into / "initrd").open("wb") as file:
        archive = cpio.Archive(file)
        _add_tree(archive, tree, f"usr/lib/{_python(python).name}/stillframe",
                  python)
        archive.close()


