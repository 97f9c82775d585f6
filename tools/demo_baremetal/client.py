# SPDX-License-Identifier: Apache-2.0
"""The part of the operator: REST and nothing else."""

from __future__ import annotations

from collections.abc import Callable
import time
from typing import Any

import httpx

from tools.demo.performance import DemoFailed

VERSION = {"OpenStack-API-Version": "baremetal 1.116"}
#: Seconds between two looks at a node, and until giving up: an idle machine
#: needs half a minute for the longest.
POLL = 0.25
PATIENCE = 600


class Operator:
    """Enrols a node and has it snapshotted as anybody would with curl.

    :param address: of Stillframe, without a path.
    """

    def __init__(self, address: str):
        self._http = httpx.Client(base_url=f"{address}/v1", timeout=30,
                                  headers=VERSION)
        self.node = ""

    def __enter__(self) -> Operator:
        return self

    def __exit__(self, *_exc: object) -> None:
        self._http.close()

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        answer = self._http.request(method, path, json=body)
        if answer.status_code >= 300:
            raise DemoFailed(f"{method} /v1{path}: {answer.status_code} "
                             f"{answer.text}")
        return answer.json() if answer.content else None

    def enrol(self, name: str, mac: str, driver_info: dict[str, Any],
              properties: dict[str, Any]) -> str:
        """Make a node that is the machine with this MAC; return its UUID."""
        made = self._ask("POST", "/nodes", {
            "name": name, "driver": "redfish", "driver_info": driver_info,
            "properties": properties})
        self.node = made["uuid"]
        self._ask("POST", "/ports", {"node_uuid": self.node, "address": mac})
        return self.node

    def show(self) -> dict[str, Any]:
        """Return the node."""
        return self._ask("GET", f"/nodes/{self.node}")

    def snapshot(self) -> dict[str, Any]:
        """Return how far its last snapshot is, or what it came to."""
        return self._ask("GET", f"/nodes/{self.node}/snapshot")

    def history(self) -> list[dict[str, Any]]:
        """Return what was noted of its snapshots."""
        return self._ask("GET", f"/nodes/{self.node}/history")["history"]

    def unusable(self) -> dict[str, str]:
        """Return the reasons of its interfaces that cannot be used."""
        found = self._ask("GET", f"/nodes/{self.node}/validate")
        return {kind: one.get("reason", "") for kind, one in found.items()
                if not one["result"]}

    def move(self, target: str, **options: Any) -> None:
        """Ask for a provision state."""
        self._ask("PUT", f"/nodes/{self.node}/states/provision",
                  {"target": target, **options})

    def wait(self, state: str, look: Callable[[dict[str, Any]], None]
             = lambda _node: None) -> dict[str, Any]:
        """Poll until the node is in a state; return it.

        :param look: called with the node at each poll.
        :raises DemoFailed: it ended elsewhere; says why.
        """
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            node = self.show()
            look(node)
            if node["provision_state"] == state and not node["reservation"]:
                return node
            if node["last_error"] and not node["reservation"]:
                raise DemoFailed(f"the node is {node['provision_state']}: "
                                 f"{node['last_error']}")
            time.sleep(POLL)
        raise DemoFailed(f"the node is {node['provision_state']} and not "
                         f"{state} after {PATIENCE} s")
