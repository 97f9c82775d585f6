# SPDX-License-Identifier: Apache-2.0
"""A stand-in for the compute endpoint that Cinder's NFS driver calls.

Keeps the requests as they came.  It has no guest: it changes the files
with qemu-img, as if libvirt had done it, and tells Cinder so.  Cinder
deletes what it believes merged, so only pretending would break volumes.
"""

from __future__ import annotations

from collections.abc import Callable
import contextlib
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from http.server import ThreadingHTTPServer
import json
from pathlib import Path
import subprocess
import threading
from typing import Any
from urllib.parse import parse_qs
from urllib.parse import urlsplit

from tests.lab.processes import LabError
from tests.lab.volumes import Volumes


@dataclass(frozen=True)
class Request:
    """A request as it came.

    :param path: without the query.
    :param asked: create_info, or delete_info, parsed.
    """

    method: str
    path: str
    headers: dict[str, str]
    volume: str
    asked: dict[str, Any]


class ComputeStandIn:
    """One endpoint: ``with ComputeStandIn(volumes) as compute: ...``.

    :param volumes: whose files to change and whom to tell.
    """

    def __init__(self, volumes: Volumes):
        self.volumes = volumes
        self.requests: list[Request] = []
        self.errors: list[BaseException] = []
        #: When true, requests are taken but nothing is done about them.
        self.silent = False
        self._heard = threading.Condition()
        self._threads: list[threading.Thread] = []
        handler = type("Handler", (_Handler,), {"owner": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]

    def __enter__(self) -> ComputeStandIn:
        self._start(self._server.serve_forever, 0.05)
        return self

    def __exit__(self, *_exc: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        for thread in self._threads:
            thread.join(60)

    def wait_requests(self, count: int, timeout: float = 120) -> None:
        """Wait until so many requests have come in all.

        :raises LabError: when time is up.
        """
        with self._heard:
            if not self._heard.wait_for(
                    lambda: len(self.requests) >= count, timeout):
                raise LabError(f"{len(self.requests)} requests, not {count}")

    def take(self, request: Request,
             work: Callable[[Volumes, Request], None]) -> None:
        """Note a request and begin its work."""
        with self._heard:
            self.requests.append(request)
            self._heard.notify_all()
        if not self.silent:
            self._start(self._do, request, work)

    def _start(self, target: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=target, args=arguments, daemon=True,
                                  name=f"lab-compute-{self.port}")
        self._threads.append(thread)
        thread.start()

    def _do(self, request: Request,
            work: Callable[[Volumes, Request], None]) -> None:
        try:
            work(self.volumes, request)
        except BaseException as error:
            self.errors.append(error)
            raise


# --- the work ---------------------------------------------------------------

def _tell(volumes: Volumes, snapshot: str, status: str) -> None:
    volumes.client.volume_snapshots.update_snapshot_status(
        snapshot, {"status": status, "progress": "90%"})


def _create(volumes: Volumes, request: Request) -> None:
    # Cinder made the overlay; a guest would write into it from now on.
    _tell(volumes, request.asked["snapshot_id"], "creating")


def _delete(volumes: Volumes, request: Request) -> None:
    share = volumes.cinder.share
    merged, target = (request.asked["file_to_merge"],
                      request.asked["merge_target_file"])
    if target is not None:
        _qemu_img("commit", "-q", "-f", "qcow2", share / merged)
        for name in volumes.files(request.volume):
            if backing_file(share / name) == merged:
                _rebase(share / name, target, request.volume, unsafe=True)
    else:
        _rebase(volumes.active_path(request.volume), merged, request.volume)
    _tell(volumes, request.path.rpartition("/")[2], "deleting")


def _rebase(path: Path, base: str | None, volume: str,
            unsafe: bool = False) -> None:
    words: list[str | Path] = ["rebase", "-q", "-f", "qcow2"]
    if unsafe:
        words.append("-u")
    if base is None:
        words += ["-b", ""]
    else:
        # The volumes of the self-test are raw at the bottom.
        bottom = base == f"volume-{volume}"
        words += ["-b", base, "-F", "raw" if bottom else "qcow2"]
    _qemu_img(*words, path)


def _qemu_img(*words: str | Path) -> str:
    done = subprocess.run(["qemu-img", *words], capture_output=True,
                          text=True, timeout=60, cwd=Path(words[-1]).parent)
    if done.returncode:
        raise LabError(f"qemu-img {words}: {done.stderr}")
    return done.stdout


def backing_file(path: Path) -> str | None:
    """Return the name of a file's backing file as its header has it."""
    with path.open("rb") as file:
        if file.read(4) != b"QFI\xfb":
            return None
    told = json.loads(_qemu_img("info", "-U", "--output=json", "-f", "qcow2",
                                path))
    return told.get("backing-filename")


class _Handler(BaseHTTPRequestHandler):
    owner: ComputeStandIn
    protocol_version = "HTTP/1.1"

    def log_message(self, *_args: object) -> None:
        """Print nothing; the requests are kept."""

    def _answer(self, code: int, told: object = None) -> None:
        data = b"" if told is None else json.dumps(told).encode()
        with contextlib.suppress(OSError):
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            if code != 204:
                self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    def do_GET(self) -> None:
        """Know of no server: Cinder may detach whatever it likes."""
        self._answer(404, {"itemNotFound": {"code": 404,
                                            "message": "no such server"}})

    def do_POST(self) -> None:
        """Take the wish for a snapshot."""
        size = int(self.headers.get("Content-Length") or 0)
        snapshot = json.loads(self.rfile.read(size))["snapshot"]
        self.owner.take(
            Request("POST", self.path, dict(self.headers),
                    snapshot["volume_id"], snapshot["create_info"]), _create)
        self._answer(200, {"snapshot": {"id": None,
                                        "volumeId": snapshot["volume_id"]}})

    def do_DELETE(self) -> None:
        """Take the wish for a snapshot's end."""
        parts = urlsplit(self.path)
        asked = json.loads(parse_qs(parts.query)["delete_info"][0])
        self.owner.take(
            Request("DELETE", parts.path, dict(self.headers),
                    asked["volume_id"], asked), _delete)
        self._answer(204)
