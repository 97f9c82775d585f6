# SPDX-License-Identifier: Apache-2.0
"""A small BMC with Redfish sessions, which sushy-tools has not.

It counts them, has few to give, and can lose them, refuse requests, or
leave out what other BMCs have.
"""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
import http.server
import json
import threading
from typing import Any
import uuid

USER, PASSWORD = "operator", "bmc-secret-0815"
SYSTEM = "/redfish/v1/Systems/1"
_SESSIONS = "/redfish/v1/SessionService/Sessions"
_MANAGER = "/redfish/v1/Managers/bmc"
_DRIVE = f"{_MANAGER}/VirtualMedia/2"


class SessionBMC:
    """``with SessionBMC() as bmc``; it has one machine.

    :ivar open: keys of the sessions that are open.
    :ivar opened: number of sessions that ever were.
    :ivar limit: sessions that it has to give.
    :ivar requests: methods and paths, in order.
    :ivar power: On or Off; as the machine is.
    :ivar boot: the machine's boot override.
    :ivar drive: the virtual drive, which belongs to the manager here.
    :ivar refuse: given method, path and body; answers a status, or None to
        go on.
    """

    def __init__(self, limit: int = 4) -> None:
        self.open: set[str] = set()
        self.opened = 0
        self.limit = limit
        self.requests: list[tuple[str, str]] = []
        self.power = "Off"
        self.boot: dict[str, Any] = {
            "BootSourceOverrideEnabled": "Disabled",
            "BootSourceOverrideTarget": "None",
            "BootSourceOverrideMode": "Legacy",
            "BootSourceOverrideTarget@Redfish.AllowableValues":
                ["None", "Pxe", "UsbCd", "Hdd"]}
        self.drive: dict[str, Any] = {
            "@odata.id": _DRIVE, "Id": "2", "Name": "CD", "Image": None,
            "Inserted": False, "MediaTypes": ["DVD"], "Actions": {
                f"#VirtualMedia.{verb}Media": {
                    "target": f"{_DRIVE}/Actions/{verb}"}
                for verb in ("Insert", "Eject")}}
        self.refuse: Callable[[str, str, Any], int | None] = (
            lambda _method, _path, _body: None)
        self._server = http.server.ThreadingHTTPServer(
            ("127.0.0.1", 0), _handler(self))
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.01,), daemon=True)

    def __enter__(self) -> SessionBMC:
        self._thread.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._server.shutdown()
        self._thread.join(10)
        self._server.server_close()

    def driver_info(self, **changes: Any) -> dict[str, Any]:
        """Give what a node needs in driver_info."""
        return {"redfish_address":
                f"http://127.0.0.1:{self._server.server_port}",
                "redfish_system_id": SYSTEM, "redfish_username": USER,
                "redfish_password": PASSWORD, **changes}

    def count(self, method: str, path: str) -> int:
        """Tell how often something was asked."""
        return self.requests.count((method, path))

    def forget_sessions(self) -> None:
        """End all sessions, as a BMC does that is started anew."""
        self.open.clear()

    # --- what it answers ----------------------------------------------------

    def answer(self, method: str, path: str, key: str,
               body: Any) -> tuple[int, dict[str, str], Any]:
        """Give status, headers and body for a request."""
        self.requests.append((method, path))
        status = self.refuse(method, path, body)
        if status is not None:
            return status, {}, {"error": {
                "code": "Base.1.0.GeneralError",
                "message": f"no: {json.dumps(body)} {PASSWORD}"}}
        if (method, path) == ("GET", "/redfish/v1/"):
            return 200, {}, {
                "@odata.id": path, "Id": "Root", "Name": "root",
                "RedfishVersion": "1.6.0",
                "Links": {"Sessions": {"@odata.id": _SESSIONS}},
                "Systems": {"@odata.id": "/redfish/v1/Systems"},
                "Managers": {"@odata.id": "/redfish/v1/Managers"}}
        if (method, path) == ("POST", _SESSIONS):
            return self._log_in(body)
        if key not in self.open:
            return 401, {}, None
        return self._known(method, path, body)

    def _log_in(self, body: Any) -> tuple[int, dict[str, str], Any]:
        if body != {"UserName": USER, "Password": PASSWORD}:
            return 401, {}, None
        if len(self.open) >= self.limit:
            return 503, {}, None
        key = uuid.uuid4().hex
        self.open.add(key)
        self.opened += 1
        return 201, {"X-Auth-Token": key, "Location": f"{_SESSIONS}/{key}"}, {}

    def _known(self, method: str, path: str,
               body: Any) -> tuple[int, dict[str, str], Any]:
        if method == "DELETE" and path.startswith(_SESSIONS):
            self.open.discard(path.rpartition("/")[2])
        elif method == "PATCH" and path == SYSTEM:
            self.boot.update(body["Boot"])
        elif path == f"{SYSTEM}/Actions/Reset":
            self.power = "On" if "On" in body["ResetType"] else "Off"
        elif path == f"{_DRIVE}/Actions/Insert":
            self.drive.update(Image=body["Image"], Inserted=True)
        elif path == f"{_DRIVE}/Actions/Eject":
            self.drive.update(Image=None, Inserted=False)
        else:
            found = self._resource(path)
            return (200, {}, found) if found else (404, {}, None)
        return 204, {}, None

    def _resource(self, path: str) -> dict[str, Any] | None:
        if path == SYSTEM:
            return {
                "@odata.id": SYSTEM, "Id": "1", "Name": "machine",
                "PowerState": self.power, "Boot": self.boot,
                "Links": {"ManagedBy": [{"@odata.id": _MANAGER}]},
                "Actions": {"#ComputerSystem.Reset": {
                    "target": f"{SYSTEM}/Actions/Reset",
                    "ResetType@Redfish.AllowableValues":
                        ["ForceOn", "ForceOff", "GracefulShutdown"]}}}
        if path == "/redfish/v1/Systems":
            return _collection(path, SYSTEM)
        if path == _MANAGER:
            return {"@odata.id": _MANAGER, "Id": "bmc", "Name": "bmc",
                    "VirtualMedia": {"@odata.id": f"{_MANAGER}/VirtualMedia"}}
        if path == f"{_MANAGER}/VirtualMedia":
            return _collection(path, f"{_MANAGER}/VirtualMedia/1", _DRIVE)
        if path == f"{_MANAGER}/VirtualMedia/1":
            return {**self.drive, "@odata.id": path, "Id": "1",
                    "MediaTypes": ["USBStick"]}
        return self.drive if path == _DRIVE else None


def _collection(path: str, *members: str) -> dict[str, Any]:
    return {"@odata.id": path, "Name": path,
            "Members@odata.count": len(members),
            "Members": [{"@odata.id": one} for one in members]}


def _handler(bmc: SessionBMC) -> type[http.server.BaseHTTPRequestHandler]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def _answer(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            content = self.rfile.read(length)
            status, headers, body = bmc.answer(
                self.command, self.path,
                self.headers.get("X-Auth-Token", ""),
                json.loads(content) if content else None)
            self.send_response(status, HTTPStatus(status).phrase)
            for name, value in headers.items():
                self.send_header(name, value)
            data = json.dumps(body).encode() if body is not None else b""
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_PATCH = do_DELETE = _answer

        def log_message(self, *_args: object) -> None:
            """Nobody reads it."""

    return Handler
