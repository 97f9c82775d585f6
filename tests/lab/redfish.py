# SPDX-License-Identifier: Apache-2.0
"""A BMC: sushy-tools' Redfish service, for fake machines or for VMs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field
import os
from pathlib import Path
import sys
from typing import Any
import uuid

import bcrypt

from tests.lab import certificates
from tests.lab.processes import Process
from tests.lab.processes import free_port
from tests.lab.processes import port_open
from tests.lab.service import Service

TOP = Path(__file__).parents[2]
USER = "admin"
PASSWORD = "bmc-pass-4711"


def _mac() -> str:
    return "52:54:00:" + ":".join(f"{byte:02x}" for byte in os.urandom(3))


@dataclass(frozen=True)
class FakeMachine:
    """A machine of the emulator's fake driver: power and boot device only.

    :param deaf: whether it takes no notice of a graceful shutdown.
    """

    uuid: str = field(default_factory=lambda: str(uuid.uuid4()))
    mac: str = field(default_factory=_mac)
    power: str = "Off"
    deaf: bool = False


class Redfish(Service):
    """One service: ``with Redfish([FakeMachine()]) as bmc: ...``.

    :param machines: fake ones. Give these or the next.
    :param libvirt_uri: its domains are the machines. Each insertion of a
        medium needs the pool ``default`` there.
    :param tls: whether it speaks HTTPS, with a certificate of its own.
    :param auth: whether it asks for :data:`USER` and :data:`PASSWORD`.
    :param power_delay: whole seconds until a fake machine is on or off.
    :param settings: of sushy-tools, by name, on top.
    """

    purpose = "bmc"
    # Its machines stay as they are.
    patience = 0

    def __init__(self, machines: Sequence[FakeMachine] = (), *,
                 libvirt_uri: str | None = None, tls: bool = True,
                 auth: bool = True, power_delay: int = 0,
                 settings: dict[str, Any] | None = None):
        super().__init__()
        self.machines = machines
        self.libvirt_uri = libvirt_uri
        self.tls = tls
        self.auth = auth
        self.power_delay = power_delay
        self.settings = settings or {}
        self.port = free_port()
        self.certificate: Path | None = None

    # --- doors ------------------------------------------------------------

    @property
    def url(self) -> str:
        """Its address, without a path."""
        return f"http{'s' if self.tls else ''}://127.0.0.1:{self.port}"

    def driver_info(self, system: str, **changes: Any) -> dict[str, Any]:
        """Give what a node needs in driver_info to be such a machine.

        :param system: UUID of the fake machine or of the domain.
        :param changes: further keys, or others of these.
        """
        info: dict[str, Any] = {
            "redfish_address": self.url,
            "redfish_system_id": f"/redfish/v1/Systems/{system}"}
        if self.auth:
            info |= {"redfish_username": USER, "redfish_password": PASSWORD}
        if self.certificate:
            info["redfish_verify_ca"] = str(self.certificate)
        return info | changes

    def log(self) -> str:
        """Return what it wrote so far: a line for each request."""
        return (self.path / "log").read_text(errors="replace")

    # --- life -------------------------------------------------------------

    def start(self) -> None:
        """Start it, or start it again with what it knew; wait for it."""
        self.process = Process(
            "redfish", [sys.executable, "-m", "tests.lab.redfish_emulator"],
            self.path / "log", cwd=TOP, env={
                **os.environ, "TMPDIR": str(self.path / "tmp"),
                "SUSHY_EMULATOR_CONFIG": str(self.path / "emulator.conf")})
        self.process.start()
        self.process.wait_ready(lambda: port_open(self.port), 60)

    # --- below ------------------------------------------------------------

    def _set_up(self) -> None:
        for name in ("state", "tmp"):
            (self.path / name).mkdir()
        settings: dict[str, Any] = {
            "SUSHY_EMULATOR_LISTEN_IP": "127.0.0.1",
            "SUSHY_EMULATOR_LISTEN_PORT": self.port,
            "SUSHY_EMULATOR_STATE_DIR": str(self.path / "state"),
        }
        if self.libvirt_uri:
            settings["SUSHY_EMULATOR_LIBVIRT_URI"] = self.libvirt_uri
        else:
            settings |= {
                "SUSHY_EMULATOR_FAKE_DRIVER": True,
                "SUSHY_EMULATOR_FAKE_SYSTEMS": [
                    {"uuid": one.uuid, "name": one.uuid,
                     "power_state": one.power, "external_notifier": False,
                     "nics": [{"mac": one.mac, "ip": "192.0.2.1"}]}
                    for one in self.machines],
                "STILLFRAME_POWER_DELAY": self.power_delay,
                "STILLFRAME_DEAF": [one.uuid for one in self.machines
                                    if one.deaf]}
        if self.tls:
            self.certificate, key = certificates.self_signed(self.path, "bmc")
            settings |= {"SUSHY_EMULATOR_SSL_CERT": str(self.certificate),
                         "SUSHY_EMULATOR_SSL_KEY": str(key)}
        if self.auth:
            accounts = self.path / "accounts"
            # The cheapest digest: it is computed for each request.
            digest = bcrypt.hashpw(PASSWORD.encode(), bcrypt.gensalt(4))
            accounts.write_text(f"{USER}:{digest.decode()}\n")
            settings["SUSHY_EMULATOR_AUTH_FILE"] = str(accounts)
        (self.path / "emulator.conf").write_text("".join(
            f"{name} = {value!r}\n"
            for name, value in (settings | self.settings).items()))
