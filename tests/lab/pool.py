# SPDX-License-Identifier: Apache-2.0
"""Guests that were booted for one test and are as good for the next."""

from __future__ import annotations

import contextlib
from typing import Any
from xml.etree import ElementTree

import libvirt

from tests.lab.guests import Guest
from tests.lab.libvirtd import Libvirtd
from tests.lab.processes import LabError


class GuestPool:
    """Lends guests of one hypervisor, and takes them back.

    A guest that comes back as it was lent is kept for the next who wants
    one made alike; any other is removed.

    :param idle: at most so many are kept running.
    """

    def __init__(self, host: Libvirtd, idle: int = 3):
        self._host = host
        self._idle = idle
        self._free: list[tuple[str, Guest]] = []
        self._made = 0

    def take(self, **options: Any) -> Guest:
        """Return a running guest, of Guest's options."""
        wanted = repr(sorted(options.items()))
        for kept in self._free:
            if kept[0] == wanted and as_new(kept[1]):
                self._free.remove(kept)
                return kept[1]
        self._made += 1
        guest = Guest(self._host, f"guest-{self._made}", **options)
        with contextlib.ExitStack() as stack:
            stack.enter_context(guest)
            # It stays until it is given back.
            stack.pop_all()
        return guest

    def give_back(self, guest: Guest, **options: Any) -> None:
        """Take a guest back; the options are those it was taken with."""
        if not as_new(guest):
            guest.remove()
            return
        self._free.append((repr(sorted(options.items())), guest))
        while len(self._free) > self._idle:
            self._free.pop(0)[1].remove()

    def close(self) -> None:
        """Remove all that are not lent."""
        while self._free:
            self._free.pop()[1].remove()


def as_new(guest: Guest) -> bool:
    """Thaw and tidy a guest; tell whether it is as good as a new one."""
    try:
        domain = guest.domain
        if domain.info()[0] != libvirt.VIR_DOMAIN_RUNNING:
            return False
        if not _has_own_disks(guest, domain):
            return False
        if guest.has_agent:
            if guest.frozen():
                guest.thaw()
            guest.set_hook()
        before = guest.counter()
        return not guest.writes or guest.wait_counter(before) > before
    except (LabError, libvirt.libvirtError, OSError):
        return False


def _has_own_disks(guest: Guest, domain: libvirt.virDomain) -> bool:
    tree = ElementTree.fromstring(domain.XMLDesc())  # noqa: S314  libvirt's
    sources = [source.get("file")
               for source in tree.findall("./devices/disk/source")]
    return sources == [str(disk.path) for disk in guest.disks]
