# SPDX-License-Identifier: Apache-2.0
"""The part of DR software: REST and nothing else."""

from __future__ import annotations

from collections.abc import Callable
import time
from typing import Any

import httpx

from tools.demo.performance import DemoFailed

#: Seconds between two looks at a server, and until giving up.
POLL = 0.05
PATIENCE = 30


class Recovery:
    """Freezes and thaws servers as a customer's software would.

    :param address: of Stillframe, without a path.
    """

    def __init__(self, address: str):
        self._http = httpx.Client(base_url=f"{address}/v2.1", timeout=10,
                                  headers={"OpenStack-API-Version":
                                           "compute latest"})

    def __enter__(self) -> Recovery:
        return self

    def __exit__(self, *_exc: object) -> None:
        self._http.close()

    def _get(self, path: str) -> Any:
        answer = self._http.get(path)
        if answer.status_code != 200:
            raise DemoFailed(f"GET {path}: {answer.status_code} "
                             f"{answer.text}")
        return answer.json()

    def servers(self, names: tuple[str, ...]) -> dict[str, str]:
        """Wait until all names are listed; return the id of each."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            listed = self._get("/servers/detail?all_tenants=1")["servers"]
            found = {server["name"]: server["id"] for server in listed
                     if server["status"] == "ACTIVE"}
            if set(names) <= found.keys():
                return {name: found[name] for name in names}
            time.sleep(POLL)
        raise DemoFailed(f"of {names}, only {sorted(found)} are listed")

    def volumes(self, server: str) -> list[dict[str, Any]]:
        """List what is attached to a server."""
        answer = self._get(f"/servers/{server}/os-volume_attachments")
        return answer["volumeAttachments"]

    def act(self, server: str, action: str, arguments: Any,
            expected: str, look: Callable[[str], None]) -> None:
        """Ask for an action and poll until it is done.

        :param expected: status of the server afterwards.
        :param look: called with what to show as state, at each poll.
        :raises DemoFailed: it ended otherwise; says why.
        """
        answer = self._http.post(f"/servers/{server}/action",
                                 json={action: arguments})
        if answer.status_code != 202:
            raise DemoFailed(f"{action}: {answer.status_code} {answer.text}")
        request = answer.headers["x-openstack-request-id"]
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            shown = self._get(f"/servers/{server}")["server"]
            task = shown["OS-EXT-STS:task_state"]
            look(task or shown["status"])
            if task is None:
                if shown["status"] == expected:
                    return
                raise DemoFailed(f"{action} ended in {shown['status']}: "
                                 f"{self._reason(server, request)}")
            time.sleep(POLL)
        raise DemoFailed(f"{action} took more than {PATIENCE} s")

    def _reason(self, server: str, request: str) -> str:
        path = f"/servers/{server}/os-instance-actions/{request}"
        return self._get(path)["instanceAction"]["message"]
