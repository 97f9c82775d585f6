# SPDX-License-Identifier: Apache-2.0
"""Hear what libvirt announces, and wait for it."""

from __future__ import annotations

from collections.abc import Callable
import contextlib
import threading
import time

import libvirt

from tests.lab.processes import LabError


class EventLoop:
    """The one thread of this process that runs libvirt's events.

    Runs while anybody uses it: ``with EventLoop.used():``.
    """

    _lock = threading.Lock()
    _users = 0
    _registered = False
    _thread: threading.Thread | None = None

    @classmethod
    def acquire(cls) -> None:
        """Start the loop unless it runs; to be paired with release."""
        with cls._lock:
            if not cls._registered:
                libvirt.virEventRegisterDefaultImpl()
                cls._registered = True
            cls._users += 1
            if cls._users == 1:
                cls._thread = threading.Thread(
                    target=cls._run, name="lab-libvirt-events", daemon=True)
                cls._thread.start()

    @classmethod
    def release(cls) -> None:
        """Stop the loop when this was its last user."""
        with cls._lock:
            cls._users -= 1
            if cls._users or cls._thread is None:
                return
            thread, cls._thread = cls._thread, None
            # A timer that is due at once wakes the loop up.
            timer = libvirt.virEventAddTimeout(0, lambda *_: None, None)
            thread.join(5)
            libvirt.virEventRemoveTimeout(timer)

    @classmethod
    def _run(cls) -> None:
        me = threading.current_thread()
        while cls._thread is me:
            libvirt.virEventRunDefaultImpl()


class DomainEvents:
    """What was heard about the domains of one connection.

    Keeps, for each domain's UUID, whether the agent is connected and the
    last lifecycle event, and counts reboots.
    """

    def __init__(self, connection: libvirt.virConnect):
        self._connection = connection
        self._heard = threading.Condition()
        self._agents: dict[str, bool] = {}
        self._agent_changes: dict[str, int] = {}
        self._lifecycle: dict[str, int] = {}
        self._reboots: dict[str, int] = {}
        self._callbacks = [
            connection.domainEventRegisterAny(None, event, callback, None)
            for event, callback in (
                (libvirt.VIR_DOMAIN_EVENT_ID_AGENT_LIFECYCLE,
                 self._on_agent),
                (libvirt.VIR_DOMAIN_EVENT_ID_LIFECYCLE, self._on_lifecycle),
                (libvirt.VIR_DOMAIN_EVENT_ID_REBOOT, self._on_reboot))]

    def close(self) -> None:
        """Hear no more; the connection may be dead already."""
        for callback in self._callbacks:
            with contextlib.suppress(libvirt.libvirtError):
                self._connection.domainEventDeregisterAny(callback)

    def _on_agent(self, _conn, domain, state, _reason, _opaque) -> None:
        with self._heard:
            uuid = domain.UUIDString()
            self._agent_changes[uuid] = self.agent_changes(uuid) + 1
            self._agents[uuid] = (
                state == libvirt.
                VIR_CONNECT_DOMAIN_EVENT_AGENT_LIFECYCLE_STATE_CONNECTED)
            self._heard.notify_all()

    def _on_lifecycle(self, _conn, domain, event, _detail, _opaque) -> None:
        with self._heard:
            self._lifecycle[domain.UUIDString()] = event
            self._heard.notify_all()

    def _on_reboot(self, _conn, domain, _opaque) -> None:
        with self._heard:
            uuid = domain.UUIDString()
            self._reboots[uuid] = self._reboots.get(uuid, 0) + 1
            self._heard.notify_all()

    def wait(self, question: Callable[[], bool], timeout: float,
             what: str) -> None:
        """Ask at each event until true.

        :raises LabError: when timeout seconds have passed.
        """
        deadline = time.monotonic() + timeout
        with self._heard:
            # Once a second without an event too: the question may also
            # look at what no event tells.
            while not question():
                left = deadline - time.monotonic()
                if left <= 0:
                    raise LabError(f"waited {timeout} s in vain for {what}")
                self._heard.wait(min(left, 1))

    def agent_connected(self, uuid: str) -> bool | None:
        """Whether the agent is connected; None when nothing was heard."""
        return self._agents.get(uuid)

    def agent_changes(self, uuid: str) -> int:
        """Count what was heard about an agent.

        QEMU tells at most one change a second of a port: when an agent
        goes and comes back quickly, only the coming is heard.
        """
        return self._agent_changes.get(uuid, 0)

    def last_lifecycle(self, uuid: str) -> int | None:
        """Return the last VIR_DOMAIN_EVENT_* of a domain."""
        return self._lifecycle.get(uuid)

    def reboots(self, uuid: str) -> int:
        """Count the reboots of a domain that were heard of."""
        return self._reboots.get(uuid, 0)
