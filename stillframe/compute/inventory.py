# SPDX-License-Identifier: Apache-2.0
"""What was found on this host, and what of it changed.

Knows no libvirt: servers come in as payloads, differences go out, with a
digest by which the conductor sees whether its picture is the same.
"""

from collections.abc import Iterable
import dataclasses
import hashlib
import json
import threading

from stillframe.rpc import payloads


@dataclasses.dataclass(frozen=True)
class Changes:
    """What is to be reported.

    :ivar full: ``servers`` is everything there is.
    :ivar digest: over everything there is, after these changes.
    """

    servers: list[payloads.Server]
    gone: list[str]
    full: bool
    digest: str

    def __bool__(self) -> bool:
        return self.full or bool(self.servers) or bool(self.gone)


class Inventory:
    """The servers of a host, and which of them have been reported."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._servers: dict[str, payloads.Server] = {}
        self._hashes: dict[str, str] = {}
        self._reported: dict[str, str] = {}
        self._updated: set[str] = set()
        self._all = True
        # Until a full pass has succeeded, an empty picture means that
        # nobody has looked, not that the host has no servers.
        self._filled = False

    def begin_pass(self) -> None:
        """Note that a full pass begins."""
        with self._lock:
            self._updated.clear()

    def replace(self, servers: Iterable[payloads.Server]) -> None:
        """Take the result of a full pass.

        What an event told since the pass began is newer and stays.
        """
        found = {server['uuid']: server for server in servers}
        hashes = {one: _hash(server) for one, server in found.items()}
        with self._lock:
            for one in self._updated:
                found.pop(one, None)
                hashes.pop(one, None)
                if one in self._servers:
                    found[one] = self._servers[one]
                    hashes[one] = self._hashes[one]
            self._servers = found
            self._hashes = hashes
            self._filled = True

    def update(self, server_id: str,
               server: payloads.Server | None) -> None:
        """Take the present state of one server; None: it is gone."""
        with self._lock:
            self._updated.add(server_id)
            if server is None:
                self._servers.pop(server_id, None)
                self._hashes.pop(server_id, None)
            else:
                self._servers[server_id] = server
                self._hashes[server_id] = _hash(server)

    def resync(self) -> None:
        """Have everything reported next time."""
        with self._lock:
            self._all = True

    def changes(self) -> Changes:
        """Give what has not been reported yet; nothing before a full pass."""
        with self._lock:
            if not self._filled:
                return Changes([], [], False, _digest(self._hashes))
            changed = [
                self._servers[one] for one, value in self._hashes.items()
                if self._all or self._reported.get(one) != value]
            gone = [] if self._all else sorted(
                self._reported.keys() - self._hashes.keys())
            return Changes(changed, gone, self._all,
                           _digest(self._hashes))

    def reported(self, changes: Changes) -> None:
        """Note that the conductor has taken these changes."""
        with self._lock:
            if changes.full:
                self._reported = {}
                self._all = False
            for server in changes.servers:
                self._reported[server['uuid']] = _hash(server)
            for server_id in changes.gone:
                self._reported.pop(server_id, None)

    def digest(self) -> str:
        """Give the digest over what was reported."""
        with self._lock:
            return _digest(self._reported)


def _hash(server: payloads.Server) -> str:
    text = json.dumps(server, sort_keys=True, separators=(',', ':'))
    return hashlib.sha256(text.encode()).hexdigest()


def _digest(hashes: dict[str, str]) -> str:
    whole = hashlib.sha256()
    for server_id in sorted(hashes):
        whole.update(f'{server_id}={hashes[server_id]};'.encode())
    return whole.hexdigest()
