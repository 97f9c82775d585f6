# SPDX-License-Identifier: Apache-2.0
"""What kernels, ramdisks and disks are built from, and where they are kept.

Debian's packages are only unpacked, never installed.  What was built is
kept below .lab, under a name made from its ingredients, and made anew when
those change.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Iterable
import fcntl
import hashlib
import lzma
import os
from pathlib import Path
import re
import shutil
import subprocess
import tempfile

from tests.lab import cpio
from tests.lab.processes import LabError

CACHE = Path(__file__).parents[2] / ".lab"
KERNEL = "linux-image-cloud-amd64"
PYTHON = "python3-minimal"


def run(command: list[str | Path], cwd: Path | None = None,
        env: dict[str, str] | None = None) -> str:
    """Run a program; return what it prints.

    :raises LabError: it failed, took 300 s, or is not installed.
    """
    try:
        done = subprocess.run(command, cwd=cwd, env=env, check=True,
                              capture_output=True, text=True, timeout=300)
    except subprocess.CalledProcessError as error:
        raise LabError(f"{error}: {error.stderr}") from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise LabError(f"cannot run {command[0]}: {error}") from error
    return done.stdout


def built(kind: str, ingredients: Iterable[Path | str],
          build: Callable[[Path, Path], None]) -> Path:
    """Return the folder of what was built, building it when there is none.

    What was built from other ingredients is removed.

    :param kind: names the folder below .lab.
    :param ingredients: files and texts that the result depends on.
    :param build: called with a scratch folder, and the folder to fill.
    :raises LabError: whatever build raises.
    """
    digest = hashlib.sha256()
    for one in ingredients:
        digest.update(one.encode() if isinstance(one, str)
                      else one.read_bytes())
    kept = CACHE / kind
    kept.mkdir(parents=True, exist_ok=True)
    finished = kept / digest.hexdigest()[:16]
    with (kept / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not finished.exists():
            with tempfile.TemporaryDirectory(dir=kept) as scratch:
                into = Path(scratch) / "built"
                into.mkdir()
                build(Path(scratch), into)
                into.rename(finished)
            for path in kept.iterdir():
                if path.is_dir() and path != finished:
                    shutil.rmtree(path)
    return finished


# --- packages ---------------------------------------------------------------

def unpack(names: Iterable[str], into: Path) -> None:
    """Unpack the newest packages of these names, fetching each but once.

    A name that only points to the present version (of the kernel, of
    Python) stands for what it points to.

    :raises LabError: when a package cannot be had.
    """
    for package in _packages(tuple(names)):
        run(["dpkg-deb", "--extract", package, into])


def _packages(names: tuple[str, ...]) -> list[Path]:
    folder = CACHE / "packages"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        missing = [name for name in names if not (folder / name).exists()]
        if missing:
            try:
                _fetch(missing, folder)
            except LabError:
                # Lists of packages may be missing or out of date; only
                # root can bring them up to date.
                if os.geteuid():
                    raise
                run(["apt-get", "-q", "-o", "DPkg::Lock::Timeout=300",
                     "update"])
                _fetch(missing, folder)
    return [next((folder / name).glob("*.deb")) for name in names]


def _fetch(names: list[str], folder: Path) -> None:
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        real = {name: _newest(name) for name in names}
        command: list[str | Path] = ["apt-get", "-q", "download",
                                     *real.values()]
        if os.geteuid() == 0:
            command[1:1] = ["-o", "APT::Sandbox::User=root"]
        run(command, cwd=Path(scratch))
        for name, package in real.items():
            file = next(Path(scratch).glob(f"{package}_*.deb"))
            place = Path(scratch) / "done" / name
            place.mkdir(parents=True)
            file.rename(place / file.name)
            place.rename(folder / name)


def _newest(name: str) -> str:
    pattern = {KERNEL: r"Depends: (linux-image-\S+)",
               PYTHON: r"Depends: (python3\.\d+-minimal)"}.get(name)
    if pattern is None:
        return name
    found = re.search(pattern, run(["apt-cache", "depends", name]))
    if found is None:
        raise LabError(f"{name} points to no package")
    return found.group(1)


# --- parts of a ramdisk -----------------------------------------------------

def add_busybox(archive: cpio.Archive, root: Path,
                applets: Iterable[str]) -> None:
    """Add busybox-static, unpacked below root, under these names."""
    busybox = next(root.glob("**/bin/busybox"))
    archive.file("bin/busybox", busybox.read_bytes(), executable=True)
    for applet in applets:
        archive.link(f"bin/{applet}", "busybox")


def add_modules(archive: cpio.Archive, root: Path,
                names: Iterable[str]) -> None:
    """Add modules of the kernel unpacked below root.

    :param names: in the order in which they must be loaded.
    """
    order = []
    for name in names:
        archive.file(f"modules/{name}.ko", module(root, name))
        order.append(f"{name}.ko")
    archive.file("modules/order", "\n".join(order).encode())


def module(root: Path, name: str) -> bytes:
    """Return a module of the kernel unpacked below root, ready to load."""
    path = next(root.glob(f"**/{name}.ko*"))
    data = path.read_bytes()
    return lzma.decompress(data) if path.suffix == ".xz" else data


def libraries(*programs: Path, path: str = "") -> set[str]:
    """Tell which libraries of this machine programs need.

    :param path: folders with colons between, to be looked in first.
    :raises LabError: when one is missing.
    """
    found: set[str] = set()
    for program in programs:
        needed = run(["env", f"LD_LIBRARY_PATH={path}", "ldd", program])
        if "not found" in needed:
            raise LabError(f"libraries of {program} are missing: {needed}")
        found.update(re.findall(r"(/\S+) \(0x", needed))
    return found
