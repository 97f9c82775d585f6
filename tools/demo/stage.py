# SPDX-License-Identifier: Apache-2.0
"""The stage: a hypervisor, three guests, and Stillframe beside them."""

from __future__ import annotations

import contextlib
from pathlib import Path
import sys
from typing import TYPE_CHECKING

from tests.lab.domain_xml import nova_metadata
from tests.lab.guests import Guest
from tests.lab.libvirtd import Libvirtd
from tests.lab.processes import Process
from tests.lab.processes import free_port
from tests.lab.processes import port_open

if TYPE_CHECKING:
    from collections.abc import Iterator

#: In the order in which they are frozen; thawed the other way round.
SERVERS = ("web", "app", "db")
PROJECT = "5f1b6f0c-7d5e-4a5b-9c56-0c1d0f3b7a11"
USER = "0d8f2a4e-3b6c-4a63-8e0a-6f9c1d2e3b44"


@contextlib.contextmanager
def guests(host: Libvirtd) -> Iterator[dict[str, Guest]]:
    """Boot all servers at once; remove them at the end.

    They look as if Nova had made them.
    """
    with contextlib.ExitStack() as stack:
        made = {}
        for name in SERVERS:
            guest = Guest(host, f"instance-{len(made) + 1:08x}",
                          metadata=nova_metadata(name, PROJECT, USER))
            stack.callback(guest.remove)
            guest.make_disks()
            guest.start()
            made[name] = guest
        for guest in made.values():
            guest.wait_booted()
        for guest in made.values():
            guest.wait_counter(above=0)
        yield made


@contextlib.contextmanager
def stillframe(host: Libvirtd) -> Iterator[str]:
    """Run all of Stillframe in one process; yield its address."""
    port = free_port()
    with running(host.path, f"""\
[compute]
host = hypervisor-a
connection_uri = {host.uri}
[api]
host = 127.0.0.1
port = {port}
""", "127.0.0.1", port):
        yield f"http://127.0.0.1:{port}"


@contextlib.contextmanager
def running(folder: Path, config: str, address: str, port: int
            ) -> Iterator[Process]:
    """Run all of Stillframe in one process; wait until it listens.

    :param folder: where its files go.
    :param config: its configuration without what says where they go.
    """
    log = folder / "stillframe.log"
    (folder / "stillframe.conf").write_text(f"""\
[DEFAULT]
state_path = {folder / "stillframe"}
log_file = {log}
{config}""")
    process = Process("stillframe",
                      [Path(sys.executable).with_name("stillframe"),
                       "--config-file", folder / "stillframe.conf"],
                      log=folder / "stillframe.out").start()
    try:
        # Generous: a busy machine takes long to load the program, and one
        # that ends is noticed at once.
        process.wait_ready(lambda: port_open(port, address), timeout=180)
        yield process
    except Exception:
        # Whoever has to find out why will want this.
        sys.stdout.write("\nThe log of Stillframe ends so:\n")
        sys.stdout.writelines(_last_lines(log))
        raise
    finally:
        process.stop()


def _last_lines(log: Path, count: int = 20) -> list[str]:
    if not log.exists():
        return []
    return log.read_text(errors="replace").splitlines(True)[-count:]
