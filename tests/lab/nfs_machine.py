# SPDX-License-Identifier: Apache-2.0
"""A machine that mounts NFS, and serves it to itself.

For kernels of test machines that have none: QEMU runs the ramdisk's kernel
and the ramdisk with our agent, with the programs of NFS added.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
import re
import shutil

from tests.lab import cpio
from tests.lab import ingredients
from tests.lab import ramdisk
from tests.lab.control import Control
from tests.lab.processes import LabError
from tests.lab.processes import Process
from tests.lab.processes import wait_until

#: Unpacked, never installed: their services would start.
PACKAGES = ("nfs-common", "nfs-kernel-server", "libtirpc3",
            "libtirpc-common", "libevent-core-2.1-7", "libkeyutils1",
            "libnfsidmap1", "libwrap0")
UNPACKED = ("sbin/mount.nfs", "usr/sbin/exportfs", "usr/sbin/rpc.mountd",
            "usr/sbin/rpc.nfsd")
OURS = ("/usr/bin/mount", "/usr/bin/umount", "/usr/bin/qemu-img")
MODULES = ("nfsv4", "nfsd")
FILES = {"exports": "/srv 127.0.0.1(rw,no_root_squash,insecure,fsid=0,sync)\n",
         "services": "nfs 2049/tcp\nsunrpc 111/tcp\n",
         "protocols": "tcp 6 TCP\nudp 17 UDP\n",
         "hosts": "127.0.0.1 localhost\n"}
# Seconds; the machine is emulated, and others want the processor too.
BOOT = 240.0


def _initrd() -> Path:
    made = ingredients.built(
        "nfs", (Path(__file__), Path(cpio.__file__),
                Path(ingredients.__file__)), _build)
    return made / "initrd"


def _build(scratch: Path, into: Path) -> None:
    root = scratch / "root"
    root.mkdir()
    ingredients.unpack((ingredients.KERNEL, *PACKAGES), root)
    with (into / "initrd").open("wb") as file:
        archive = cpio.Archive(file)
        order: list[str] = []
        for name in MODULES:
            _add_module(archive, root, name, order)
        archive.file("nfs/order", "\n".join(order).encode())
        _add_programs(archive, root)
        for name, text in FILES.items():
            archive.file(f"etc/{name}", text.encode())
        archive.file("etc/netconfig",
                     (root / "etc/netconfig").read_bytes())
        archive.file("var/lib/nfs/etab", b"")
        archive.close()


def _add_module(archive: cpio.Archive, root: Path, name: str,
                order: list[str]) -> None:
    """Add a module after those that it depends on."""
    if name in order:
        return
    data = ingredients.module(root, name)
    needed = re.search(rb"\0depends=([^\0]*)\0", data)
    for one in needed[1].decode().split(",") if needed else ():
        if one:
            _add_module(archive, root, one, order)
    archive.file(f"nfs/{name}.ko", data)
    order.append(name)


def _add_programs(archive: cpio.Archive, root: Path) -> None:
    unpacked = [root / name for name in UNPACKED]
    # The libraries of these are not installed, or need not be.
    folders = {str(path.parent) for path in root.rglob("lib*.so.*")}
    needed = ingredients.libraries(*unpacked, *map(Path, OURS),
                                   path=":".join(sorted(folders)))
    for name in sorted(needed):
        inside = Path("/") / Path(name).relative_to(
            root if name.startswith(str(root)) else "/")
        archive.file(str(inside), Path(name).read_bytes(), executable=True)
    for path in unpacked:
        archive.file(f"sbin/{path.name}", path.read_bytes(),
                     executable=True)
    for name in OURS:
        archive.file(f"sbin/{Path(name).name}", Path(name).read_bytes(),
                     executable=True)


class NfsMachine:
    """The machine, up, with /srv exported to itself as ``nfs://127.0.0.1/``.

    :ivar disk: path of the file that is its disk /dev/vda.
    """

    def __init__(self, folder: Path, disk: Path):
        self.disk = disk
        self._folder = folder
        self._stack = contextlib.ExitStack()
        self._control: Control | None = None

    def __enter__(self) -> NfsMachine:
        parts = ramdisk.ramdisk()
        whole = self._folder / "initrd"
        with whole.open("wb") as file:
            # In this order: the kernel takes nothing after what lz4 packed.
            for part in (_initrd(), parts.agent, parts.system):
                file.write(part.read_bytes())
                file.write(b"\0" * (-file.tell() % 4))
        line = self._folder / "line"
        process = Process("nfs-machine", [
            shutil.which("qemu-system-x86_64") or "qemu-system-x86_64",
            "-nodefaults", "-display", "none", "-no-reboot", "-m", "640",
            "-machine", "q35,accel=tcg",
            "-kernel", parts.kernel, "-initrd", whole,
            "-append", f"{ramdisk.KERNEL_OPTIONS} sf.agent=off",
            "-serial", f"file:{self._folder / 'console'}",
            "-serial", f"unix:{line},server=on,wait=off",
            "-nic", "user,model=virtio-net-pci",
            "-drive", f"file={self.disk},format=raw,if=virtio,readonly=on",
        ], self._folder / "qemu.log")
        self._stack.callback(process.stop)
        process.start()
        try:
            wait_until(lambda: self._console_has("RAMDISK UP"), BOOT,
                       "the ramdisk", 0.2)
            self._control = Control(line)
            self._stack.callback(self._control.close)
            self._serve()
        except BaseException as exc:
            console = self._folder / "console"
            self._stack.close()
            if isinstance(exc, LabError) and console.exists():
                raise LabError(f"{exc}\n{console.read_text()[-3000:]}"
                               ) from exc
            raise
        return self

    def __exit__(self, *_exc: object) -> None:
        self._stack.close()

    def _console_has(self, text: str) -> bool:
        with contextlib.suppress(OSError):
            return text in (self._folder / "console").read_text(
                errors="replace")
        return False

    def run(self, script: str, timeout: float = BOOT) -> str:
        """Run a line of shell in it; return what it prints."""
        if self._control is None:
            raise LabError("the machine is not up")
        return self._control.run(script, timeout)

    def _serve(self) -> None:
        for line in (
                "for m in $(cat /nfs/order); do insmod /nfs/$m.ko || exit 1;"
                " done",
                "mkdir -p /srv && mount -t tmpfs -o size=64m srv /srv",
                "mount -t nfsd nfsd /proc/fs/nfsd",
                "mkdir /var/lib/nfs/v4recovery",
                "exportfs -a",
                "rpc.mountd -N 3 </dev/null >/dev/null 2>&1",
                "rpc.nfsd -N 3 1",
                # Nobody has locks from before.
                "echo Y >/proc/fs/nfsd/v4_end_grace"):
            self.run(f"export PATH=/sbin:$PATH; {line}")
