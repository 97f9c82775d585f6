# SPDX-License-Identifier: Apache-2.0
"""What a test does to volumes, as a user and as a compute service would.

All over python-cinderclient; what it makes, it can remove again.
"""

from __future__ import annotations

from collections.abc import Callable
import contextlib
from dataclasses import dataclass
import json
from pathlib import Path
import time
from types import TracebackType
from typing import Any
import uuid

from cinderclient import exceptions as cinder_errors
import cinderclient.client
from cinderclient.contrib import noauth
from keystoneauth1 import session as ks_session

from tests.lab import cinder_config
from tests.lab import disks
from tests.lab import openstack
from tests.lab.cinder import Cinder
from tests.lab.domain_xml import Disk
from tests.lab.keystone import ADMIN
from tests.lab.keystone import SERVICE
from tests.lab.keystone import Account
from tests.lab.processes import LabError
from tests.lab.processes import wait_until

#: The first with attachment completion (3.44) and more than we need.
MICROVERSION = "3.66"
#: Seconds; a bound for a busy machine, usually it takes a few.
TIMEOUT = 180.0


def client(cinder: Cinder, account: Account = ADMIN,
           service: bool = False) -> Any:
    """Return a python-cinderclient.

    :param account: in whose name; without a Keystone, everybody is an
        administrator of cinder_config.PROJECT.
    :param service: be a service of the cloud too, as Nova is: it may
        detach without Nova being asked.
    """
    if cinder.keystone is not None:
        return cinderclient.client.Client(
            MICROVERSION, service_type="volumev3",
            session=openstack.session(cinder.keystone, account,
                                      SERVICE if service else None))
    auth = noauth.CinderNoAuthPlugin("admin", cinder_config.PROJECT,
                                     endpoint=cinder.endpoint)
    headers = {"X-Service-Roles": "service"} if service else {}
    return cinderclient.client.Client(
        MICROVERSION, session=ks_session.Session(
            auth=auth, additional_headers=headers))


@dataclass(frozen=True)
class Attachment:
    """A volume as a hypervisor gets to see it.

    :param path: the file that the server must open now.
    :param image_format: as Cinder says.
    :param serial: what the disk's serial must be: the volume's id.
    """

    id: str
    server: str
    path: Path
    image_format: str
    serial: str

    def disk(self, target: str) -> Disk:
        """Return it as a disk for a guest's description."""
        return Disk(target, self.path, self.image_format, self.serial)


class Volumes:
    """The volumes of one test: ``with Volumes(cinder) as volumes: ...``.

    Removes all that it made, whatever state that is in.

    :param account: in whose name it makes volumes and snapshots.
    """

    def __init__(self, cinder: Cinder, account: Account = ADMIN):
        self.cinder = cinder
        self.client = client(cinder, account)
        self._service = client(cinder, account, service=True)
        self._admin = client(cinder)
        self._made: list[str] = []

    def __enter__(self) -> Volumes:
        return self

    def __exit__(self, exc_type: type[BaseException] | None,
                 exc: BaseException | None,
                 trace: TracebackType | None) -> None:
        if self._made:
            self.cinder.ensure_running()
        for volume_id in reversed(self._made):
            self.purge(volume_id)

    # --- volumes ----------------------------------------------------------

    def create(self, size_gib: int = 1, **options: object) -> str:
        """Make an empty volume; return its id when it is available."""
        volume = self.client.volumes.create(size_gib, **options)
        self._made.append(volume.id)
        self.wait(lambda: self.status(volume.id), "available",
                  f"volume {volume.id}")
        return volume.id

    def status(self, volume_id: str) -> str:
        """Return a volume's status, or "gone"."""
        with contextlib.suppress(cinder_errors.NotFound):
            return self.client.volumes.get(volume_id).status
        return "gone"

    def path(self, volume_id: str) -> Path:
        """Return the volume's own file, the lowest of its chain."""
        return self.cinder.share / f"volume-{volume_id}"

    def snapshot_path(self, volume_id: str, snapshot_id: str) -> Path:
        """Return the file that Cinder makes for a snapshot."""
        return self.cinder.share / f"volume-{volume_id}.{snapshot_id}"

    def info(self, volume_id: str) -> dict[str, str]:
        """Return what Cinder's .info file says.

        `active` names the active file, each snapshot's id the file that
        was begun with it.  Empty when there is no such file.
        """
        try:
            text = (self.cinder.share /
                    f"volume-{volume_id}.info").read_text()
        except FileNotFoundError:
            return {}
        return json.loads(text)

    def active_path(self, volume_id: str) -> Path:
        """Return the active file, as Cinder knows it."""
        name = self.info(volume_id).get("active", f"volume-{volume_id}")
        return self.cinder.share / name

    def files(self, volume_id: str) -> list[str]:
        """Names of all files of a volume, without .info."""
        return sorted(path.name for path in
                      self.cinder.share.glob(f"volume-{volume_id}*")
                      if path.suffix != ".info")

    def make_ext4(self, volume_id: str) -> None:
        """Put an empty ext4 onto a raw volume that nobody uses."""
        path = self.path(volume_id)
        disks.make_ext4(path, path.stat().st_size >> 20)

    # --- attachments ------------------------------------------------------

    def attach(self, volume_id: str, server: str | None = None,
               device: str = "/dev/vda") -> Attachment:
        """Attach as Nova does; the volume is in-use then.

        :param server: the domain's UUID; None for a fresh one.
        """
        server = server or str(uuid.uuid4())
        made = self._service.attachments.create(
            volume_id, None, instance_id=server)
        updated = self._service.attachments.update(
            made["id"], {"host": "lab", "ip": "127.0.0.1",
                         "initiator": "iqn.lab", "multipath": False,
                         "os_type": "linux", "platform": "x86_64",
                         "mountpoint": device})
        self._service.attachments.complete(made["id"])
        self.wait(lambda: self.status(volume_id), "in-use",
                  f"volume {volume_id}")
        told = updated.connection_info
        return Attachment(made["id"], server,
                          self.cinder.share / told["name"], told["format"],
                          volume_id)

    def connection_info(self, attachment: Attachment) -> dict[str, Any]:
        """Return what Cinder would now tell a Nova that starts the guest."""
        shown = self._service.attachments.show(attachment.id)
        return shown.connection_info

    def detach(self, attachment: Attachment) -> None:
        """Take an attachment away; the volume is available then."""
        self._service.attachments.delete(attachment.id)
        self.wait(lambda: self.status(attachment.serial), "available",
                  f"volume {attachment.serial}")

    # --- snapshots --------------------------------------------------------

    def begin_snapshot(self, volume_id: str, **options: object) -> str:
        """Ask for a snapshot, attached or not; return its id at once."""
        snapshot = self.client.volume_snapshots.create(
            volume_id, force=True, **options)
        return snapshot.id

    def snapshot(self, volume_id: str, timeout: float = TIMEOUT,
                 **options: object) -> str:
        """Make a snapshot; return its id when it is available."""
        snapshot_id = self.begin_snapshot(volume_id, **options)
        self.wait_snapshot(snapshot_id, "available", timeout)
        return snapshot_id

    def snapshot_status(self, snapshot_id: str) -> str:
        """Return a snapshot's status, or "gone"."""
        with contextlib.suppress(cinder_errors.NotFound):
            return self.client.volume_snapshots.get(snapshot_id).status
        return "gone"

    def snapshot_progress(self, snapshot_id: str) -> str:
        """Return what os-extended-snapshot-attributes:progress says."""
        shown = self.client.volume_snapshots.get(snapshot_id).to_dict()
        return shown["os-extended-snapshot-attributes:progress"]

    def wait_snapshot(self, snapshot_id: str, status: str,
                      timeout: float = TIMEOUT) -> None:
        """Wait for a snapshot's status ("gone" too).

        :raises LabError: when time is up, or at once when it is in an
            error that was not asked for.
        """
        self.wait(lambda: self.snapshot_status(snapshot_id), status,
                  f"snapshot {snapshot_id}", timeout)

    def begin_delete(self, snapshot_id: str, force: bool = False) -> None:
        """Ask for a snapshot's end; return at once."""
        self.client.volume_snapshots.delete(snapshot_id, force=force)

    def delete_snapshot(self, snapshot_id: str,
                        timeout: float = TIMEOUT) -> None:
        """Delete a snapshot; return when it is gone."""
        self.begin_delete(snapshot_id)
        self.wait_snapshot(snapshot_id, "gone", timeout)

    def reset_snapshot(self, snapshot_id: str, status: str) -> None:
        """Set a snapshot's status as an administrator may."""
        self._admin.volume_snapshots.reset_state(snapshot_id, status)

    # --- waiting and cleaning ---------------------------------------------

    def wait(self, status: Callable[[], str], wanted: str, what: str,
             timeout: float = TIMEOUT) -> None:
        """Wait for a status.

        :raises LabError: when time is up, or at once at an error that is
            not wanted, with the end of the log of cinder-volume.
        """
        seen = ""

        def settled() -> bool:
            nonlocal seen
            seen = status()
            return seen == wanted or seen.startswith("error")

        with contextlib.suppress(LabError):
            wait_until(settled, timeout, what, interval=0.1)
        if seen != wanted:
            raise LabError(f"{what} is {seen}, not {wanted}:\n"
                           f"{self.cinder.log_tail('volume')}")

    def purge(self, volume_id: str) -> None:
        """Remove a volume and all that hangs on it, come what may.

        Takes the attachments away first, so no compute endpoint is asked.
        Cinder's files are removed even where Cinder cannot do it.
        """
        wait_until(lambda: self._let_go(volume_id), TIMEOUT,
                   f"volume {volume_id} to be let go", interval=0.2)
        self._delete(volume_id)
        deadline = time.monotonic() + TIMEOUT
        while (status := self.status(volume_id)) != "gone":
            if time.monotonic() > deadline or status.startswith("error"):
                self._force_away(volume_id)
                break
            if status != "deleting":
                # Refused, since a snapshot was between two states.
                self._delete(volume_id)
            time.sleep(0.2)
        for path in self.cinder.share.glob(f"volume-{volume_id}*"):
            path.unlink(missing_ok=True)

    def _let_go(self, volume_id: str) -> bool:
        """Take away what holds a volume; tell whether that is done.

        Cinder may be too busy for it: on SQLite, with a lock.
        """
        search = {"volume_id": volume_id}
        try:
            for attachment in self._service.attachments.list(
                    search_opts=search):
                self._service.attachments.delete(attachment.id)
            # An operation that waits for a compute endpoint ends when its
            # snapshot is in error.
            for snapshot in self.client.volume_snapshots.list(
                    search_opts=search):
                if snapshot.status in ("creating", "deleting"):
                    self.reset_snapshot(snapshot.id, "error")
        except cinder_errors.ClientException:
            return False
        return True

    def _delete(self, volume_id: str) -> None:
        """Ask for a volume's end, if Cinder is ready to hear that."""
        with contextlib.suppress(cinder_errors.ClientException):
            self._admin.volumes.reset_state(volume_id, "available",
                                            attach_status="detached")
            self.client.volumes.delete(volume_id, cascade=True)

    def _force_away(self, volume_id: str) -> None:
        """Make Cinder forget a volume whose files are not as it thinks.

        What it is still at work on stays with it; its files go.
        """
        for snapshot in self.client.volume_snapshots.list(
                search_opts={"volume_id": volume_id}):
            with contextlib.suppress(cinder_errors.ClientException):
                # One in any other state cannot be let go.
                self.reset_snapshot(snapshot.id, "error")
                self._admin.volume_snapshots.unmanage(snapshot.id)
        with contextlib.suppress(cinder_errors.ClientException):
            self._admin.volumes.unmanage(volume_id)
