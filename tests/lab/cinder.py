# SPDX-License-Identifier: Apache-2.0
"""The volume service: a real Cinder with its real NFS driver.

Its volumes are files in `share`, which the laboratory's hypervisors may
read and write.
"""

from __future__ import annotations

from collections.abc import Iterable
import contextlib
import functools
import os
from pathlib import Path
import signal
import subprocess
import threading

from tests.lab import cinder_config
from tests.lab import openstack
from tests.lab.keystone import Keystone
from tests.lab.processes import Process
from tests.lab.processes import free_port
from tests.lab.processes import port_open
from tests.lab.processes import state_dir
from tests.lab.relay import Relay

SERVICES = ("scheduler", "volume", "api")
#: What each writes into its log when it is ready to work.
READY = {"scheduler": "Starting cinder-scheduler node", "volume":
         "Driver post RPC initialization completed successfully"}


class Cinder:
    """One Cinder: ``with Cinder(rabbit.url) as cinder: ...``.

    Its compute endpoint is a relay: ``cinder.compute.point_at(port)``
    chooses who gets the requests for assisted snapshots, below /v2.1.
    Without a Keystone, everybody is an administrator of the project that a
    token `user:project` names.

    :param transport_url: the broker, as oslo.messaging writes it.
    :param glance_url: the image service, for volumes from images.
    :param keystone: asks it about tokens, and registers itself and the
        compute endpoint there.
    """

    def __init__(self, transport_url: str, glance_url: str | None = None,
                 keystone: Keystone | None = None):
        self.transport_url = transport_url
        self.glance_url = glance_url
        self.keystone = keystone
        self.port = free_port()
        self.compute = Relay()
        self.path = Path()
        self.processes: dict[str, Process] = {}
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Cinder:
        openstack.need_venv()
        with contextlib.ExitStack() as stack:
            self.path = stack.enter_context(state_dir("cinder"))
            stack.enter_context(self.compute)
            self._configure()
            stack.callback(self.stop)
            self.start()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._stack.close()

    @property
    def endpoint(self) -> str:
        """Where it answers; a project's id follows in each URL."""
        return f"http://127.0.0.1:{self.port}/v3"

    @property
    def share(self) -> Path:
        """The directory that plays the NFS export."""
        return self.path / "share"

    # --- life -------------------------------------------------------------

    def start(self, services: Iterable[str] = SERVICES) -> None:
        """Start services, with the state they had; wait until all are ready.

        :param services: of SERVICES.
        """
        waits = {}
        for name in services:
            log = self._log(name)
            waits[name] = log.stat().st_size if log.exists() else 0
            self.processes[name] = self._process(name).start()
        for name, offset in waits.items():
            self.processes[name].wait_ready(
                functools.partial(self._ready, name, offset), 180)

    def stop(self, services: Iterable[str] = SERVICES) -> None:
        """Ask services to end, all at once, and wait; state is kept.

        A service that has not ended after ten seconds is killed.
        """
        ending = [self.processes.pop(name) for name in services
                  if name in self.processes]
        threads = [threading.Thread(target=one.stop, name=f"stop {one.name}")
                   for one in ending]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)

    def crash(self, services: Iterable[str] = SERVICES) -> None:
        """Kill services in the midst of what they do; state is kept."""
        for name in services:
            process = self.processes.pop(name)
            # The work is done by a child, which would end in good order,
            # and which its parent, when it could, would replace.
            process.suspend()
            for pid in _offspring(process.pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            process.kill()
            process.release()

    def ensure_running(self) -> None:
        """Start those services that do not run."""
        dead = [name for name in SERVICES if name not in self.processes
                or not self.processes[name].running]
        for name in dead:
            if name in self.processes:
                self.processes.pop(name).release()
        self.start(dead)

    @contextlib.contextmanager
    def down(self, services: Iterable[str] = ("api",)):
        """Have services down for the length of a with statement."""
        names = tuple(services)
        self.stop(names)
        try:
            yield
        finally:
            self.start(names)

    def log_tail(self, name: str, size: int = 4000) -> str:
        """Return the end of a service's log."""
        log = self._log(name)
        return log.read_text(errors="replace")[-size:] if log.exists() else ""

    # --- below ------------------------------------------------------------

    def _log(self, name: str) -> Path:
        return self.path / "log" / f"cinder-{name}.log"

    def _ready(self, name: str, offset: int) -> bool:
        if name == "api":
            return port_open(self.port)
        log = self._log(name)
        return (log.exists() and READY[name].encode()
                in log.read_bytes()[offset:])

    def _process(self, name: str) -> Process:
        command: list[str | Path] = [
            openstack.BIN / f"cinder-{name}", "--config-file",
            self.path / "cinder.conf"]
        if name == "volume":
            command = ["unshare", "--mount", "--propagation", "private",
                       *command]
        return Process(f"cinder-{name}", command,
                       log=self.path / "log" / f"{name}.out",
                       env=self._environment(), cwd=self.path)

    def _environment(self) -> dict[str, str]:
        return openstack.environment(PATH=str(self.path / "shims"),
                                     HOME=str(self.path))

    def _configure(self) -> None:
        for name in ("log", "state/coordination", "lock", "mnt", "share"):
            (self.path / name).mkdir(parents=True)
        # Cinder's files are root's, but open to everybody; so is their
        # directory, as it would be with an export that squashes nobody.
        self.share.chmod(0o777)
        (self.path / "shares").write_text(f"{cinder_config.EXPORT}\n")
        cinder_config.write_shims(self.path / "shims", self.share)
        if self.keystone is not None:
            self.keystone.register("volumev3", "cinderv3",
                                   f"{self.endpoint}/%(project_id)s")
            self.keystone.register("compute", "nova",
                                   f"{self.compute.url}/v2.1")
        config = self.path / "cinder.conf"
        openstack.write_ini(config, cinder_config.settings(
            self.path, self.port, self.transport_url,
            f"{self.compute.url}/v2.1", self.glance_url, self.keystone))
        openstack.finished_database(
            "cinder", self.path / "cinder.sqlite", "1",
            lambda: openstack.run(
                [openstack.BIN / "cinder-manage", "--config-file", config,
                 "db", "sync"], self._environment()))


def _offspring(pid: int) -> list[int]:
    """Return the pids of all descendants of a process."""
    listed = subprocess.run(["ps", "-e", "-o", "pid=,ppid="], check=True,
                            capture_output=True, text=True, timeout=10)
    parents = {int(child): int(parent) for child, parent in
               (line.split() for line in listed.stdout.splitlines())}
    found = [pid]
    # Grows while it is walked through.
    for one in found:
        found += [child for child, parent in parents.items()
                  if parent == one]
    return found[1:]
