# SPDX-License-Identifier: Apache-2.0
"""A Cinder endpoint that speaks the spec's dialect, strictly.

Only what concerns the status of snapshots.  It keeps each request as it
came, says no to whatever is not exactly right, and fails on demand.
"""

from __future__ import annotations

from collections.abc import Callable
import contextlib
from dataclasses import dataclass
from dataclasses import field
from http.server import BaseHTTPRequestHandler
from http.server import ThreadingHTTPServer
import json
import re
import socket
import threading
import time
from typing import Any

from tests.lab import cinder_dialects
from tests.lab.processes import LabError

_SNAPSHOT = re.compile(r"/v3/(?:[0-9a-f-]+/)?snapshots/([^/]+)(/action)?")


@dataclass(frozen=True)
class Request:
    """A request as it came, and what was answered.

    :param body: parsed; None when there was none.
    :param code: the answer's; 0 when the connection was cut instead.
    :param when: of time.monotonic().
    """

    method: str
    path: str
    headers: dict[str, str]
    body: Any
    code: int
    when: float = field(default_factory=time.monotonic)


@dataclass
class Fault:
    """Something that goes wrong with updates.

    :param code: to answer; 0 to cut the connection without an answer.
    :param times: with so many updates; None for all until it's taken back.
    :param applied: whether the update takes effect all the same, so that
        only the sender does not know.
    """

    code: int
    times: int | None = 1
    applied: bool = False


class CinderDouble:
    """One endpoint: ``with CinderDouble() as cinder: ...``.

    :param dialect: cinder_dialects.SPEC or STOCK.
    """

    def __init__(self, dialect: str = cinder_dialects.SPEC):
        self.dialect = dialect
        #: snapshot id -> status; "gone" once it is deleted.
        self.snapshots: dict[str, str] = {}
        self.volumes: dict[str, str] = {}
        #: snapshot id -> progress, as it was told last.
        self.progress: dict[str, str] = {}
        self.requests: list[Request] = []
        #: Why requests were refused that a right sender had not sent.
        self.violations: list[str] = []
        #: When set, all other tokens get 401.
        self.tokens: set[str] | None = None
        self.delay = 0.0
        self.changed = threading.Condition()
        self._faults: list[Fault] = []
        self._closing = threading.Event()
        self._open: set[socket.socket] = set()
        self._port = 0
        self._server: ThreadingHTTPServer | None = None
        self._thread: threading.Thread | None = None

    def __enter__(self) -> CinderDouble:
        self.up()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._closing.set()
        self.down()

    @property
    def endpoint(self) -> str:
        """Where it answers; a project's id may follow."""
        return f"http://127.0.0.1:{self._port}/v3"

    # --- what a test does to it -------------------------------------------

    def add_snapshot(self, snapshot_id: str, volume_id: str,
                     status: str) -> None:
        """Let there be a snapshot; `status` creating or deleting."""
        with self.changed:
            self.snapshots[snapshot_id] = status
            self.volumes[snapshot_id] = volume_id

    def fail(self, code: int, times: int | None = 1,
             applied: bool = False) -> None:
        """Have the next updates fail; see Fault."""
        with self.changed:
            self._faults.append(Fault(code, times, applied))

    def recover(self) -> None:
        """Take all faults and delays back."""
        with self.changed:
            self._faults.clear()
            self.delay = 0.0

    def slow(self, seconds: float) -> None:
        """Have each answer take so long."""
        self.delay = seconds

    def down(self) -> None:
        """Listen no more; cut the present connections."""
        server, self._server = self._server, None
        if server is None:
            return
        server.shutdown()
        server.server_close()
        with self.changed:
            cut, self._open = self._open, set()
        for one in cut:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        if self._thread is not None:
            self._thread.join(5)

    def up(self) -> None:
        """Listen, again at the same port."""
        if self._server is not None:
            return
        double = self

        class Handler(_Handler):
            owner = double

        self._server = _Server(("127.0.0.1", self._port), Handler)
        self._port = self._server.server_address[1]
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.05,),
            name=f"lab-cinder-double-{self._port}", daemon=True)
        self._thread.start()

    # --- what it saw ------------------------------------------------------

    def updates(self, snapshot_id: str | None = None) -> list[Request]:
        """Return the updates that came, of one snapshot or of all."""
        with self.changed:
            return [one for one in self.requests if one.method == "POST"
                    and one.path.endswith("/action")
                    and (snapshot_id is None or snapshot_id in one.path)]

    def accepted(self, snapshot_id: str) -> list[dict[str, Any]]:
        """Return what the accepted updates of a snapshot held."""
        return [one.body[cinder_dialects.ACTION]
                for one in self.updates(snapshot_id) if one.code == 202]

    def wait_status(self, snapshot_id: str, status: str,
                    timeout: float = 30) -> None:
        """Wait until a snapshot has a status ("gone" too)."""
        self.wait(lambda: self.snapshots.get(snapshot_id) == status,
                  f"snapshot {snapshot_id} to be {status}", timeout)

    def wait(self, question: Callable[[], bool], what: str,
             timeout: float = 30) -> None:
        """Ask after each request until true.

        :raises LabError: when timeout seconds have passed.
        """
        with self.changed:
            if not self.changed.wait_for(question, timeout):
                raise LabError(f"waited {timeout} s in vain for {what}; "
                               f"seen: {self.requests}")

    # --- answering --------------------------------------------------------

    def opened(self, connection: socket.socket) -> None:
        """Note a connection, to cut it later."""
        with self.changed:
            self._open.add(connection)

    def closed(self, connection: socket.socket) -> None:
        """Forget a connection."""
        with self.changed:
            self._open.discard(connection)

    def answer(self, method: str, path: str, headers: dict[str, str],
               body: Any) -> tuple[int, Any]:
        """Return code and body of the answer; note the request."""
        if self.delay:
            self._closing.wait(self.delay)
        with self.changed:
            code, told = self._decide(method, path, headers, body)
            self.requests.append(Request(method, path, headers, body, code))
            self.changed.notify_all()
        return code, told

    def _decide(self, method: str, path: str, headers: dict[str, str],
                body: Any) -> tuple[int, Any]:
        if method == "GET" and path in ("/", "/v3", "/v3/"):
            return (200 if path != "/" else 300), self._versions()
        token = headers.get("X-Auth-Token")
        if not token or (self.tokens is not None
                         and token not in self.tokens):
            return _error(401, "The request you have made requires "
                               "authentication.")
        match = _SNAPSHOT.fullmatch(path)
        if match is None or (method, match.group(2)) not in (
                ("GET", None), ("POST", "/action")):
            self.violations.append(f"{method} {path} is not known here")
            return _error(404, "The resource could not be found.")
        snapshot_id = match.group(1)
        if method == "GET":
            return self._show(snapshot_id)
        fault = self._next_fault()
        if fault is None:
            return self._update(snapshot_id, body)
        if fault.applied:
            self._update(snapshot_id, body)
        return _error(fault.code, "as the test wished")

    def _next_fault(self) -> Fault | None:
        if not self._faults:
            return None
        fault = self._faults[0]
        if fault.times is not None:
            fault.times -= 1
            if fault.times <= 0:
                self._faults.pop(0)
        return fault

    def _show(self, snapshot_id: str) -> tuple[int, Any]:
        status = self.snapshots.get(snapshot_id, "gone")
        if status == "gone":
            return _error(404, f"Snapshot {snapshot_id} could not be found.")
        return 200, {"snapshot": {
            "id": snapshot_id, "status": status,
            "volume_id": self.volumes[snapshot_id],
            "os-extended-snapshot-attributes:progress":
                self.progress.get(snapshot_id, "0%")}}

    def _update(self, snapshot_id: str, body: Any) -> tuple[int, Any]:
        try:
            update = cinder_dialects.update_of(body, self.dialect)
        except cinder_dialects.Refused as error:
            self.violations.append(f"{error}: {body}")
            return _error(400, str(error))
        status = self.snapshots.get(snapshot_id, "gone")
        if status == "gone":
            return _error(404, f"Snapshot {snapshot_id} could not be found.")
        try:
            self.snapshots[snapshot_id] = cinder_dialects.next_status(
                status, update, self.dialect)
        except cinder_dialects.Refused as error:
            return _error(400, str(error))
        if update.get("progress"):
            self.progress[snapshot_id] = update["progress"]
        return 202, None

    def _versions(self) -> Any:
        return {"versions": [{
            "id": "v3.0", "status": "CURRENT", "version": "3.71",
            "min_version": "3.0", "updated": "2026-11-01T00:00:00Z",
            "links": [{"rel": "self", "href": f"{self.endpoint}/"}]}]}


def _error(code: int, message: str) -> tuple[int, Any]:
    name = {400: "badRequest", 401: "unauthorized", 403: "forbidden",
            404: "itemNotFound"}.get(code, "computeFault")
    return code, {name: {"code": code, "message": message}}


class _Server(ThreadingHTTPServer):
    allow_reuse_address = True
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no news."""


class _Handler(BaseHTTPRequestHandler):
    owner: CinderDouble
    protocol_version = "HTTP/1.1"

    def setup(self) -> None:
        """Begin a connection."""
        super().setup()
        self.owner.opened(self.connection)

    def finish(self) -> None:
        """End a connection."""
        self.owner.closed(self.connection)
        with contextlib.suppress(OSError):
            super().finish()

    def log_message(self, *_args: object) -> None:
        """Print nothing; the requests are kept."""

    def _serve(self) -> None:
        size = int(self.headers.get("Content-Length") or 0)
        text = self.rfile.read(size)
        try:
            body = json.loads(text) if text else None
        except ValueError:
            body = text
        code, told = self.owner.answer(self.command, self.path,
                                       dict(self.headers), body)
        if code == 0:
            self.close_connection = True
            return
        data = b"" if told is None else json.dumps(told).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.send_header("OpenStack-API-Version", "volume 3.0")
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST = do_PUT = do_DELETE = _serve
