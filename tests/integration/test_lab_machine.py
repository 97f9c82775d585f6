# SPDX-License-Identifier: Apache-2.0
"""A machine of the laboratory is one that bare-metal software can use."""

from collections.abc import Iterator
import contextlib
import http.server
import json
from pathlib import Path
import socket
import threading
from typing import Any
from urllib import parse

import pytest
import sushy

from tests.lab import node_disk
from tests.lab.machine import Machine
from tests.lab.network import TapNetwork
from tests.lab.network import UserNetwork
from tests.lab.processes import wait_until
from tests.lab.rack import Rack
from tests.lab.redfish import PASSWORD
from tests.lab.redfish import USER

NODE = "7f0b4f4e-0d0c-4f5c-8a58-51b1c2a3d4e5"


class _Api(http.server.BaseHTTPRequestHandler):
    """As much of the bare-metal API as an agent asks for at first."""

    asked: list[str]

    def _answer(self, status: int, content: Any) -> None:
        body = b"" if content is None else json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        self.asked.append(self.path)
        if self.path == "/":
            self._answer(200, {"default_version": {"version": "1.115"}})
            return
        self._answer(200, {
            "node": {"uuid": NODE, "properties": {}, "instance_info": {},
                     "driver_internal_info": {}},
            "config": {"heartbeat_timeout": 300, "agent_token": "t" * 43}})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.asked.append(
            f"{self.path} {json.loads(body)['callback_url']}")
        self._answer(202, None)

    def log_message(self, *_args: object) -> None:
        """Tests have no use for it."""


@contextlib.contextmanager
def _api(address: str) -> Iterator[tuple[int, list[str]]]:
    """Serve; yield the port and what was asked for so far."""
    asked: list[str] = []
    server = http.server.ThreadingHTTPServer(
        (address, 0), type("Api", (_Api,), {"asked": asked}))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_port, asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _system(rack: Rack, machine: Machine) -> Any:
    assert rack.bmc is not None
    root = sushy.Sushy(
        f"{rack.bmc.url}/redfish/v1", username=USER, password=PASSWORD,
        verify=str(rack.bmc.certificate))
    return root.get_system(f"/redfish/v1/Systems/{machine.uuid}")


def _media(system: Any) -> Any:
    return next(medium for medium in
                system.managers[0].virtual_media.get_members()
                if sushy.VIRTUAL_MEDIA_CD in medium.media_types)


NETWORKS = [pytest.param(TapNetwork, id="tap", marks=pytest.mark.skipif(
    not TapNetwork.possible(), reason="no right to make a namespace")),
    pytest.param(UserNetwork, id="user")]


@pytest.mark.parametrize("network", NETWORKS)
def test_boots_its_disk_then_the_ramdisk_then_its_disk(network: Any) -> None:
    _boot(network(), uefi=False)


def test_boots_with_uefi() -> None:
    _boot(None, uefi=True)


def _boot(network: Any, uefi: bool) -> None:
    with (Rack(network) as rack,
          _api(rack.network.listen) as (port, asked)):
        machine = rack.machine(10, more_disks=(8 << 20,), uefi=uefi)
        cd = rack.cd(machine, f"http://{rack.network.address}:{port}")
        system = _system(rack, machine)
        system.reset_system(sushy.RESET_ON)
        machine.wait_disk_boots(1)
        system.reset_system(sushy.RESET_GRACEFUL_SHUTDOWN)
        machine.wait_off()
        assert node_disk.boots_of(machine.disks[0]) == 1
        node_disk.check_root(machine.disks[0])

        _media(system).insert_media(cd)
        system.set_system_boot_options(
            sushy.BOOT_SOURCE_TARGET_CD,
            enabled=sushy.BOOT_SOURCE_ENABLED_ONCE)
        system.reset_system(sushy.RESET_ON)
        wait_until(lambda: len(asked) >= 3, 120, "the agent's heartbeat")
        assert machine.disk_boots() == 1
        assert asked[0] == "/"
        assert f"addresses={machine.mac}" in asked[1]
        beat, _, callback = asked[2].partition(" ")
        assert beat == f"/v1/heartbeat/{NODE}"
        assert machine.run("ls /sys/block").split() == ["vda", "vdb"]
        # What the agent says it can be called at, it can be called at.
        _wait_port(callback)

        system.reset_system(sushy.RESET_FORCE_OFF)
        machine.wait_off()
        _media(system).eject_media()
        system.set_system_boot_options(
            sushy.BOOT_SOURCE_TARGET_HDD,
            enabled=sushy.BOOT_SOURCE_ENABLED_CONTINUOUS)
        system.reset_system(sushy.RESET_ON)
        machine.wait_disk_boots(2)
        assert machine.ramdisk_boots() == 1


def _wait_port(url: str) -> None:
    parts = parse.urlsplit(url)

    def opens() -> bool:
        with socket.socket() as probe:
            probe.settimeout(2)
            return probe.connect_ex((parts.hostname, parts.port)) == 0

    wait_until(opens, 30, f"the agent to listen at {url}")


def test_a_disk_can_be_read_from_outside(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    node_disk.make_node_disk(disk)
    node_disk.check_root(disk)
    node_disk.unpack_root(disk, tmp_path / "root")
    assert (tmp_path / "root/srv/large").stat().st_size == node_disk.KEPT
    assert len(list((tmp_path / "root/srv/small").rglob("*.bin"))) == 300
    assert not (tmp_path / "root/srv/deleted").exists()
