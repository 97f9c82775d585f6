# SPDX-License-Identifier: Apache-2.0
"""A real RabbitMQ of our own, on loopback, as nobody in particular."""

from __future__ import annotations

import os
from pathlib import Path
import subprocess

from tests.lab.processes import Process
from tests.lab.processes import free_port
from tests.lab.processes import port_open
from tests.lab.processes import wait_until
from tests.lab.service import Service

PROGRAMS = Path("/usr/lib/rabbitmq/bin")
USER = "stillframe"
PASSWORD = "secret"


class Rabbit(Service):
    """One broker: ``with Rabbit() as broker: broker.url``.

    The port stays the same when it is stopped and started again, and so
    does what was declared durable.
    """

    purpose = "mq"

    def __init__(self) -> None:
        super().__init__()
        self._environment: dict[str, str] = {}
        self.port = 0

    def _set_up(self) -> None:
        self.port = free_port()
        distribution = free_port()
        for name in ("mnesia", "log", "home"):
            (self.path / name).mkdir()
        # The cookie that ctl and the node recognise each other by.
        cookie = self.path / "home/.erlang.cookie"
        cookie.write_text("LABORATORY")
        cookie.chmod(0o400)
        (self.path / "rabbitmq.conf").write_text(
            f"listeners.tcp.default = 127.0.0.1:{self.port}\n"
            f"default_user = {USER}\n"
            f"default_pass = {PASSWORD}\n"
            "loopback_users = none\n"
            "log.console = true\n"
            "log.file = false\n"
            "vm_memory_high_watermark.absolute = 512MB\n"
            "disk_free_limit.absolute = 50MB\n")
        (self.path / "enabled_plugins").write_text("[].\n")
        self._environment = {
            "PATH": os.defpath + ":/usr/sbin:/sbin", "LC_ALL": "C.UTF-8",
            "HOME": str(self.path / "home"),
            # A node name with the port, as several may run beside one
            # another.
            "RABBITMQ_NODENAME": f"lab{self.port}@localhost",
            "RABBITMQ_MNESIA_BASE": str(self.path / "mnesia"),
            "RABBITMQ_LOG_BASE": str(self.path / "log"),
            "RABBITMQ_CONFIG_FILE": str(self.path / "rabbitmq"),
            "RABBITMQ_CONF_ENV_FILE": str(self.path / "no-such-file"),
            "RABBITMQ_ENABLED_PLUGINS_FILE":
                str(self.path / "enabled_plugins"),
            "RABBITMQ_DIST_PORT": str(distribution),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "ERL_EPMD_PORT": str(free_port()),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS":
                "+S 2:2 -kernel inet_dist_use_interface {127,0,0,1}"}

    def _started(self) -> None:
        self.ctl("await_startup")

    def start(self) -> None:
        """Start it; return when it accepts connections."""
        process = Process("rabbitmq", [PROGRAMS / "rabbitmq-server"],
                          log=self.path / "log/stdout",
                          env=self._environment, cwd=self.path)
        self.process = process.start()
        process.wait_ready(lambda: port_open(self.port), timeout=60)

    def stop(self) -> None:
        """Stop it; its data stays."""
        if self.process is not None:
            super().stop()
            wait_until(lambda: not port_open(self.port), 10,
                       "RabbitMQ to let go of its port")

    def ctl(self, *command: str) -> str:
        """Run rabbitmqctl; return what it prints."""
        return subprocess.run(
            [PROGRAMS / "rabbitmqctl", "-q", *command], check=True,
            env=self._environment, capture_output=True, text=True,
            timeout=60).stdout

    @property
    def url(self) -> str:
        """What goes into [DEFAULT]transport_url."""
        return f"rabbit://{USER}:{PASSWORD}@127.0.0.1:{self.port}/"
