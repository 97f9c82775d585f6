# SPDX-License-Identifier: Apache-2.0
"""The three guests that are frozen: web, app and db, writing all the time."""

from collections.abc import Iterator
import contextlib
import dataclasses

from tests.lab import guests
from tests.lab import libvirtd

NAMES = ('web', 'app', 'db')


@dataclasses.dataclass(frozen=True)
class Three:
    """Three guests that run.

    :ivar uri: of their libvirt.
    :ivar ids: in the order of :data:`NAMES`.
    """

    uri: str
    ids: list[str]


@contextlib.contextmanager
def three() -> Iterator[Three]:
    """Start a hypervisor and three guests, and end them."""
    with contextlib.ExitStack() as stack:
        host = stack.enter_context(libvirtd.Libvirtd('b'))
        running = []
        for name in NAMES:
            guest = guests.Guest(host, name)
            stack.callback(guest.remove)
            guest.make_disks()
            guest.start()
            running.append(guest)
        for guest in running:
            guest.wait_booted()
            guest.wait_counter(above=0)
        # A connection that nobody needs any more must not hear events
        # while others are measured.
        host.disconnect()
        yield Three(host.uri, [guest.uuid for guest in running])
