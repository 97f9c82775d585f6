# SPDX-License-Identifier: Apache-2.0
"""Hypervisors: unprivileged libvirt daemons, any number side by side.

Each keeps all its files in a directory of its own and its guests are plain
QEMU processes without hardware acceleration.  When the tests run as root
it runs as nobody, in session mode: no system-wide configuration is read
or written.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
import shutil
import time
import uuid

import libvirt

from tests.lab.events import DomainEvents
from tests.lab.events import EventLoop
from tests.lab.guest_image import GuestImage
from tests.lab.guest_image import guest_image
from tests.lab.processes import LabError
from tests.lab.processes import Process
from tests.lab.processes import state_dir
from tests.lab.processes import unprivileged_user

LIBVIRTD = "/usr/sbin/libvirtd"


def _no_stderr(_opaque, _error) -> None:
    """Errors arrive as exceptions; libvirt need not print them too."""


class Libvirtd:
    """One hypervisor: ``with Libvirtd("a") as host: ...``.

    :param name: short; names the host in messages and paths.
    :param wrapper: begins the daemon's command, and gives up the rights of
        root before it goes on.
    """

    def __init__(self, name: str = "a", wrapper: tuple[str, ...] = ()):
        self.name = name
        self._wrapper = wrapper
        self._stack = contextlib.ExitStack()
        self._processes: list[Process] = []
        self._connection: libvirt.virConnect | None = None
        self._events: DomainEvents | None = None
        self._image: GuestImage | None = None
        self.path = Path()

    # --- life -------------------------------------------------------------

    def __enter__(self) -> Libvirtd:
        try:
            self._set_up()
            self.start()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_exc: object) -> None:
        self._stack.close()

    def _set_up(self) -> None:
        self.path = self._stack.enter_context(state_dir(self.name))
        for name in ("run", "config/libvirt", "cache", "data", "disks"):
            (self.path / name).mkdir(parents=True)
        (self.path / "libvirtd.conf").write_text(
            # Two hosts on one machine must not look like the same one, or
            # libvirt refuses to migrate between them.
            f'host_uuid = "{uuid.uuid4()}"\n')
        (self.path / "config/libvirt/qemu.conf").write_text(
            # Without this, a logging daemon is started beside libvirtd.
            'stdio_handler = "file"\n')
        self.give_away(self.path)
        libvirt.registerErrorHandler(_no_stderr, None)
        EventLoop.acquire()
        self._stack.callback(EventLoop.release)
        self._stack.callback(self._stop_all)
        self._stack.callback(self.disconnect)

    def start(self) -> None:
        """Start the daemon; return when it answers."""
        # Earlier processes stay in the list: their keepers keep the guests.
        environment = {"PATH": os.defpath + ":/usr/sbin:/sbin",
                       "LC_ALL": "C", "HOME": str(self.path)}
        for variable, place in (("RUNTIME_DIR", "run"),
                                ("CONFIG_HOME", "config"),
                                ("CACHE_HOME", "cache"),
                                ("DATA_HOME", "data")):
            environment[f"XDG_{variable}"] = str(self.path / place)
        daemon = Process(
            f"libvirtd {self.name}",
            [*self._wrapper, LIBVIRTD,
             "--config", self.path / "libvirtd.conf",
             "--pid-file", self.path / "run/libvirtd.pid"],
            log=self.path / "libvirtd.log", env=environment, cwd=self.path,
            user=None if self._wrapper else unprivileged_user())
        self._processes.append(daemon.start())
        daemon.wait_ready(self._answers)

    def _answers(self) -> bool:
        try:
            libvirt.open(self.uri).close()
        except libvirt.libvirtError:
            return False
        return True

    def _stop_all(self) -> None:
        # The newest is the living daemon; older ones keep guests only.
        for process in reversed(self._processes):
            process.stop()
        self._processes = []

    # --- what tests do to it ------------------------------------------------

    @property
    def daemon(self) -> Process:
        """The daemon's present process."""
        return self._processes[-1]

    def restart(self) -> None:
        """Stop and start the daemon; guests go on."""
        self.disconnect()
        self.daemon.terminate()
        self.start()

    def kill(self) -> None:
        """Crash the daemon; guests go on.  start() brings it back."""
        self.disconnect()
        self.daemon.kill()

    def suspend(self) -> None:
        """Make the daemon deaf: calls to it hang until resume()."""
        self.daemon.suspend()

    def resume(self) -> None:
        """Undo suspend()."""
        self.daemon.resume()

    # --- doors --------------------------------------------------------------

    @property
    def uri(self) -> str:
        """What to give to libvirt.open, virsh -c or [compute]."""
        socket = self.path / "run/libvirt/libvirt-sock"
        return f"qemu+unix:///session?socket={socket}"

    @property
    def connection(self) -> libvirt.virConnect:
        """The laboratory's own connection; opened when needed."""
        if self._connection is not None and not self._connection.isAlive():
            self.disconnect()
        if self._connection is None:
            self._connection = libvirt.open(self.uri)
            self._events = DomainEvents(self._connection)
        return self._connection

    @property
    def events(self) -> DomainEvents:
        """What the laboratory's own connection hears."""
        if self.connection is None or self._events is None:
            raise LabError(f"libvirtd {self.name} is not connected")
        return self._events

    def disconnect(self) -> None:
        """Close the laboratory's own connection."""
        if self._events is not None:
            self._events.close()
            self._events = None
        if self._connection is not None:
            with contextlib.suppress(libvirt.libvirtError):
                self._connection.close()
            self._connection = None

    # --- files --------------------------------------------------------------

    def give_away(self, path: Path) -> None:
        """Make a file, or all below a directory, the daemon's own."""
        user = unprivileged_user()
        if user is None:
            return
        for one in (path, *path.rglob("*")):
            shutil.chown(one, user, "nogroup")

    @property
    def disks(self) -> Path:
        """The directory for disk images that guests may use."""
        return self.path / "disks"

    @property
    def image(self) -> GuestImage:
        """The guest's kernel and initramfs, where the daemon can read."""
        if self._image is None:
            original = guest_image()
            copy = GuestImage(self.path / "kernel", self.path / "initramfs")
            shutil.copyfile(original.kernel, copy.kernel)
            shutil.copyfile(original.initramfs, copy.initramfs)
            self._image = copy
        return self._image

    def wait_gone(self, domain_uuid: str, timeout: float = 10) -> None:
        """Wait until a domain is known no more."""
        deadline = time.monotonic() + timeout
        while True:
            try:
                self.connection.lookupByUUIDString(domain_uuid)
            except libvirt.libvirtError as error:
                if error.get_error_code() == libvirt.VIR_ERR_NO_DOMAIN:
                    return
                raise
            if time.monotonic() > deadline:
                raise LabError(f"domain {domain_uuid} is still there")
            time.sleep(0.02)
