# SPDX-License-Identifier: Apache-2.0
"""The network between bare-metal machines and the services beside them.

A namespace of its own, with one tap device a machine, where the kernel and
our rights allow it: what enters sees the machines at their own addresses
and nobody else.  Else QEMU's user networking: the machines reach the
services, and one port of each machine is forwarded to it.
"""

from __future__ import annotations

from collections.abc import Iterator
import contextlib
import ctypes
import os
from pathlib import Path
from typing import Protocol
from xml.sax.saxutils import quoteattr

from tests.lab import ingredients
from tests.lab.processes import LabError
from tests.lab.processes import free_port
from tests.lab.processes import unprivileged_user

CLONE_NEWNET = 0x40000000
AGENT_PORT = 9999
TUN = Path("/dev/net/tun")
#: For an unprivileged libvirtd, as root: see a tap device of its own.
OPEN_TUN = ("unshare", "--mount", "--propagation", "private", "sh", "-c",
            "mount -t tmpfs -o mode=755 none /dev/net && "
            "mknod -m 666 /dev/net/tun c 10 200 && "
            'exec setpriv --reuid "$0" --regid nogroup --clear-groups "$@"')


class Network(Protocol):
    """How machines are reached.

    :ivar address: of the services, as machines see it.
    :ivar listen: the address on which services listen for machines.
    :ivar wrapper: for Libvirtd.
    """

    address: str
    listen: str
    wrapper: tuple[str, ...]

    def entered(self) -> contextlib.AbstractContextManager[None]:
        """Have what this thread does happen in this network."""

    def left(self) -> contextlib.AbstractContextManager[None]:
        """Have what this thread does happen outside again."""

    def add(self, number: int) -> str:
        """Make room for a machine.

        :param number: 2 to 250; the last byte of its MAC.
        :return: an <interface> element for it.
        """

    def options(self, number: int) -> str:
        """Tell what the ramdisk of that machine needs on its kernel line."""

    def forwarding(self, number: int) -> str | None:
        """Return the command of QEMU's monitor that opens a way to an agent.

        It is needed after each power-on; None: there is a way always.
        """


def mac(number: int) -> str:
    """Return the address of a machine's network card."""
    return f"52:54:00:b4:0e:{number:02x}"


def _interface(kind: str, number: int, inside: str) -> str:
    return f"""
    <interface type={quoteattr(kind)}>
      <mac address='{mac(number)}'/>
      <model type='virtio'/>
      {inside}
      <rom enabled='no'/>
    </interface>"""


class TapNetwork:
    """A network namespace with a tap device for each machine.

    It is gone when nothing is in it and its maker has closed it or died.
    """

    address = listen = "192.0.2.1"

    def __init__(self) -> None:
        self._namespace = self._outside = -1
        self.wrapper = (*OPEN_TUN, str(unprivileged_user()))

    @staticmethod
    def possible() -> bool:
        """Whether the kernel and our rights allow it."""
        try:
            ingredients.run(["unshare", "--mount", "--net", "sh", "-c",
                             "mount -t tmpfs none /dev/net && "
                             "mknod -m 666 /dev/net/tun c 10 200 && "
                             "ip tuntap add probe mode tap"])
        except LabError:
            return False
        return os.geteuid() == 0

    def __enter__(self) -> TapNetwork:
        libc = ctypes.CDLL(None, use_errno=True)
        self._outside = _namespace_of_thread()
        try:
            if libc.unshare(CLONE_NEWNET):
                raise LabError("cannot make a network namespace: "
                               f"{os.strerror(ctypes.get_errno())}")
            self._namespace = _namespace_of_thread()
            ingredients.run(["ip", "link", "set", "lo", "up"])
            # There before the first machine is.
            ingredients.run(["ip", "address", "add", f"{self.address}/32",
                             "dev", "lo"])
        finally:
            _go(self._outside)
        return self

    def __exit__(self, *_exc: object) -> None:
        for one in (self._namespace, self._outside):
            os.close(one)
        self._namespace = self._outside = -1

    def entered(self) -> contextlib.AbstractContextManager[None]:
        """Have this thread, and what it starts, be inside."""
        return _in(self._namespace)

    def left(self) -> contextlib.AbstractContextManager[None]:
        """Have this thread, and what it starts, be outside."""
        return _in(self._outside)

    def add(self, number: int) -> str:
        """Make the tap device of a machine; see Network."""
        device = f"tap{number}"
        with self.entered():
            for command in (
                    ["ip", "tuntap", "add", device, "mode", "tap", "user",
                     str(unprivileged_user())],
                    ["ip", "address", "add", self.address, "peer",
                     self.of_machine(number), "dev", device],
                    ["ip", "link", "set", device, "up"]):
                ingredients.run(list(command))
        return _interface("ethernet", number,
                          f"<target dev='{device}' managed='no'/>")

    def options(self, number: int) -> str:
        """See Network."""
        return f"sf.network={self.address.rpartition('.')[0]}.0"

    def forwarding(self, number: int) -> str | None:
        """See Network."""
        return None

    @staticmethod
    def of_machine(number: int) -> str:
        """Return the address of a machine."""
        return f"192.0.2.{number}"


class UserNetwork:
    """QEMU's own network, for those who are not root."""

    address = "10.0.2.2"
    listen = "127.0.0.1"
    wrapper = ()

    def __init__(self) -> None:
        self._ports: dict[int, int] = {}

    def __enter__(self) -> UserNetwork:
        return self

    def __exit__(self, *_exc: object) -> None:
        """Nothing outlives the machines."""

    def entered(self) -> contextlib.AbstractContextManager[None]:
        """Everybody is inside already."""
        return contextlib.nullcontext()

    def left(self) -> contextlib.AbstractContextManager[None]:
        """Nobody can tell the difference."""
        return contextlib.nullcontext()

    def add(self, number: int) -> str:
        """See Network."""
        self._ports[number] = free_port()
        return _interface("user", number, "")

    def options(self, number: int) -> str:
        """See Network."""
        return (f"ipa-advertise-host=127.0.0.1 "
                f"ipa-advertise-port={self._ports[number]}")

    def forwarding(self, number: int) -> str | None:
        """See Network."""
        return ("hostfwd_add hostnet0 "
                f"tcp:127.0.0.1:{self._ports[number]}-:{AGENT_PORT}")


def _namespace_of_thread() -> int:
    return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)


def _go(namespace: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(namespace, CLONE_NEWNET):
        raise LabError("cannot enter a network namespace: "
                       f"{os.strerror(ctypes.get_errno())}")


@contextlib.contextmanager
def _in(namespace: int) -> Iterator[None]:
    before = _namespace_of_thread()
    try:
        _go(namespace)
        yield
    finally:
        _go(before)
        os.close(before)


def best_network() -> TapNetwork | UserNetwork:
    """Return a namespace where possible, else user networking."""
    return TapNetwork() if TapNetwork.possible() else UserNetwork()
