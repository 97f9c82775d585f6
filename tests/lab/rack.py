# SPDX-License-Identifier: Apache-2.0
"""A rack: bare-metal machines, their network, a BMC, a place for CDs."""

from __future__ import annotations

import contextlib
import functools
import http.server
from pathlib import Path
import threading
from typing import Any

from tests.lab import node_disk
from tests.lab import ramdisk
from tests.lab.libvirtd import Libvirtd
from tests.lab.machine import Machine
from tests.lab.network import TapNetwork
from tests.lab.network import UserNetwork
from tests.lab.network import best_network
from tests.lab.redfish import Redfish


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_args: object) -> None:
        """Tests have no use for it."""


class Rack:
    """One rack: ``with Rack() as rack: ...``.

    From its begin to its end the thread is in the rack's network, with all
    that it starts: services there listen for machines, and services outside
    cannot be reached.  So start no fixture in between that others share.

    :param network: None for the best that can be had.
    """

    def __init__(self, network: TapNetwork | UserNetwork | None = None):
        self.network = network or best_network()
        self.host = Libvirtd("rack", wrapper=self.network.wrapper)
        self._stack = contextlib.ExitStack()
        self.bmc: Redfish | None = None
        self._cds = ""

    def __enter__(self) -> Rack:
        with contextlib.ExitStack() as stack:
            stack.enter_context(self.network)
            stack.enter_context(self.network.entered())
            stack.enter_context(self.host)
            self._make_pool()
            self._cds = stack.enter_context(_served(self._folder("cds")))
            self.bmc = stack.enter_context(
                Redfish(libvirt_uri=self.host.uri))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._stack.close()

    def _folder(self, name: str) -> Path:
        path = self.host.path / name
        path.mkdir()
        self.host.give_away(path)
        return path

    def _make_pool(self) -> None:
        # Where the BMC keeps what is put into the drives of machines.
        self.host.connection.storagePoolCreateXML(
            "<pool type='dir'><name>default</name><target>"
            f"<path>{self._folder('media')}</path></target></pool>")

    # --- what is in it ------------------------------------------------------

    def machine(self, number: int, *, deaf: bool = False,
                more_disks: tuple[int, ...] = (), uefi: bool = False,
                **options: Any) -> Machine:
        """Put in a machine; it's off.

        :param number: 2 to 250; another for each.
        :param deaf: whether its system ignores the power button.
        :param more_disks: sizes in bytes of empty disks beside the first.
        :param uefi: whether it has UEFI instead of a BIOS.
        :param options: of Machine.
        """
        first = self.host.disks / f"{number}.raw"
        # What is missing is fetched from the world outside.
        with self.network.left():
            node_disk.make_node_disk(first, uefi)
        if deaf:
            node_disk.make_deaf(first)
        disks = [first]
        for index, size in enumerate(more_disks):
            path = self.host.disks / f"{number}-{index + 1}.raw"
            with path.open("wb") as file:
                file.truncate(size)
            disks.append(path)
        return self.with_disks(number, disks, uefi=uefi, **options)

    def with_disks(self, number: int, disks: list[Path],
                   **options: Any) -> Machine:
        """Put in a machine with these raw disks; see machine()."""
        for path in disks:
            self.host.give_away(path)
        return self._stack.enter_context(
            Machine(self.host, self.network, number, disks, **options))

    def cd(self, machine: Machine, api: str, options: str = "") -> str:
        """Make the ramdisk's CD for a machine.

        :param api: URL of the bare-metal API, as the machine sees it.
        :param options: for the kernel, on top.
        :return: URL for whoever puts it into the drive.
        """
        name = f"{machine.name}.iso"
        with self.network.left():
            ramdisk.write_iso(
                self.host.path / "cds" / name,
                f"ipa-api-url={api} {self.network.options(machine.number)} "
                f"{options}", machine.uefi)
        return f"{self._cds}/{name}"

    def driver_info(self, machine: Machine, **changes: Any
                    ) -> dict[str, Any]:
        """Give what a node needs in driver_info to be a machine."""
        if self.bmc is None:
            raise ValueError("the rack is not in use")
        return self.bmc.driver_info(machine.uuid, **changes)


@contextlib.contextmanager
def _served(folder: Path) -> Any:
    """Serve a folder over HTTP; yield its URL."""
    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(_Quiet, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever, name="cds")
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
