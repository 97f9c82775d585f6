# SPDX-License-Identifier: Apache-2.0
"""Machines: virtual ones that stand for bare metal.

Such a machine has a disk that it boots from, a network card, a place for a
CD, and is switched on and off by whoever holds its BMC (tests.lab.redfish).
"""

from __future__ import annotations

import contextlib
from pathlib import Path
import re
import uuid
from xml.etree import ElementTree
from xml.sax.saxutils import quoteattr

import libvirt
import libvirt_qemu

from tests.lab import firmware
from tests.lab import network as networks
from tests.lab.control import Control
from tests.lab.libvirtd import Libvirtd
from tests.lab.processes import wait_until

#: Seconds; ten times what an idle machine of two cores takes.
BOOT_TIMEOUT = 120
#: With what any server has to encrypt and to digest with; without, TLS takes
#: most of the time of a transfer.
CPU = """<cpu mode='custom'>
    <model>qemu64</model>
    <feature policy='require' name='aes'/>
    <feature policy='require' name='pclmuldq'/>
    <feature policy='require' name='ssse3'/>
    <feature policy='require' name='sse4.1'/>
  </cpu>"""


class Machine:
    """One machine of a hypervisor; off when it is made.

    ``with Machine(host, network, 2, [disk]) as machine: ...``

    :param host: where it runs.
    :param network: that it is in; this thread must have entered it.
    :param number: 2 to 250, of its own in the network.
    :param disks: raw, given away to the hypervisor; it boots from the first.
    :param serials: of the disks; None for "disk-0", "disk-1", ...
    :param uefi: whether it has UEFI instead of a BIOS.
    """

    def __init__(self, host: Libvirtd, network: networks.Network,
                 number: int, disks: list[Path], *,
                 serials: list[str] | None = None, memory_mib: int = 256,
                 uefi: bool = False):
        self.host = host
        self.network = network
        self.number = number
        self.name = f"machine-{number}"
        self.uuid = str(uuid.uuid4())
        self.mac = networks.mac(number)
        self.disks = disks
        self.serials = serials or [f"disk-{index}"
                                   for index in range(len(disks))]
        self.memory_mib = memory_mib
        self.uefi = uefi
        self.console = host.path / f"{self.name}.log"
        self._socket = host.path / f"{self.name}.ctl"
        self._control: Control | None = None
        self._callback: int | None = None

    # --- life --------------------------------------------------------------

    def __enter__(self) -> Machine:
        try:
            xml = self._xml(self.network.add(self.number))
            self.host.connection.defineXML(xml)
            if self.network.forwarding(self.number) is not None:
                self._callback = self.host.connection.domainEventRegisterAny(
                    self.domain, libvirt.VIR_DOMAIN_EVENT_ID_LIFECYCLE,
                    self._on_lifecycle, None)
        except BaseException:
            self.remove()
            raise
        return self

    def __exit__(self, *_exc: object) -> None:
        self.remove()

    def remove(self) -> None:
        """Power off and forget it, whatever its state; disks stay."""
        self._forget_control()
        with contextlib.suppress(libvirt.libvirtError):
            if self._callback is not None:
                self.host.connection.domainEventDeregisterAny(self._callback)
        with contextlib.suppress(libvirt.libvirtError):
            domain = self.domain
            with contextlib.suppress(libvirt.libvirtError):
                domain.destroy()
            with contextlib.suppress(libvirt.libvirtError):
                domain.undefineFlags(libvirt.VIR_DOMAIN_UNDEFINE_NVRAM)
        for path in (self.console, self._socket):
            path.unlink(missing_ok=True)

    def _on_lifecycle(self, _connection, domain, event, _detail, _opaque):
        if event == libvirt.VIR_DOMAIN_EVENT_STARTED:
            libvirt_qemu.qemuMonitorCommand(
                domain, self.network.forwarding(self.number),
                libvirt_qemu.VIR_DOMAIN_QEMU_MONITOR_COMMAND_HMP)

    # --- switches ----------------------------------------------------------

    @property
    def domain(self) -> libvirt.virDomain:
        """The domain, over the laboratory's own connection."""
        return self.host.connection.lookupByUUIDString(self.uuid)

    @property
    def on(self) -> bool:
        """Whether it is powered on."""
        return bool(self.domain.isActive())

    def power_on(self) -> None:
        """Switch it on past its BMC; returns before it has booted."""
        self.domain.create()

    def pull_plug(self) -> None:
        """Switch it off past its BMC, at once."""
        self._forget_control()
        self.domain.destroy()

    def press_button(self) -> None:
        """Press the power button; its system may switch off, or not."""
        self.domain.shutdown()

    def wait_off(self, timeout: float = BOOT_TIMEOUT) -> None:
        """Wait until it is off."""
        wait_until(lambda: not self.on, timeout, f"{self.name} to be off")
        self._forget_control()

    def discs(self) -> list[str]:
        """Name what is in its drives for CDs."""
        tree = ElementTree.fromstring(  # noqa: S314  libvirt's own
            self.domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE))
        return [source.attrib["file"] for source in
                tree.findall("devices/disk[@device='cdrom']/source")]

    # --- looking and reaching into it --------------------------------------

    def printed(self) -> str:
        """Return all that it printed on its console, since ever."""
        try:
            return self.console.read_text(errors="replace")
        except FileNotFoundError:
            return ""

    def count(self, pattern: str) -> int:
        """Count how often its console shows a pattern."""
        return len(re.findall(pattern, self.printed()))

    def wait_printed(self, pattern: str, count: int = 1,
                     timeout: float = BOOT_TIMEOUT) -> None:
        """Wait until its console has shown a pattern so many times."""
        wait_until(lambda: self.count(pattern) >= count, timeout,
                   f"{self.name} to print {pattern!r} {count} times; "
                   "see its console", interval=0.1)

    def disk_boots(self) -> int:
        """Count how often it has come up from its disk."""
        return self.count(r"NODE BOOTED FROM DISK")

    def ramdisk_boots(self) -> int:
        """Count how often it has come up with the ramdisk."""
        return self.count(r"RAMDISK UP")

    def wait_disk_boots(self, count: int,
                        timeout: float = BOOT_TIMEOUT) -> None:
        """Wait until it has come up from its disk so often."""
        self.wait_printed(r"NODE BOOTED FROM DISK", count, timeout)

    def run(self, script: str, timeout: float = 30) -> str:
        """Run a line of shell in the ramdisk; return what that prints.

        :raises LabError: when it fails or takes longer than timeout s.
        """
        if self._control is None:
            self._control = Control(self._socket)
        return self._control.run(script, timeout)

    def _forget_control(self) -> None:
        if self._control is not None:
            self._control.close()
            self._control = None

    # --- what it is made of ------------------------------------------------

    def _xml(self, interface: str) -> str:
        loader = ""
        if self.uefi:
            code, variables = firmware.uefi(self.host.path)
            loader = (f"<loader readonly='yes' type='pflash'>{code}"
                      f"</loader><nvram template='{variables}'/>")
        disks = "".join(f"""
    <disk type='file' device='disk'>
      <driver name='qemu' type='raw' cache='writeback'/>
      <source file={quoteattr(str(path))}/>
      <target dev='vd{chr(97 + index)}' bus='virtio'/>
      <serial>{serial}</serial>
      <boot order='{index + 1}'/>
    </disk>""" for index, (path, serial) in enumerate(
            zip(self.disks, self.serials, strict=True)))
        return f"""
<domain type='qemu'>
  <name>{self.name}</name>
  <uuid>{self.uuid}</uuid>
  <memory unit='MiB'>{self.memory_mib}</memory>
  <vcpu>1</vcpu>
  <os><type arch='x86_64' machine='q35'>hvm</type>{loader}</os>
  <features><acpi/></features>
  {CPU}
  <on_poweroff>destroy</on_poweroff>
  <on_reboot>restart</on_reboot>
  <on_crash>destroy</on_crash>
  <devices>
    <emulator>/usr/bin/qemu-system-x86_64</emulator>
    {disks}
    <controller type='usb' model='none'/>
    {interface}
    <serial type='file'>
      <source path='{self.console}' append='on'/>
      <target port='0'/>
    </serial>
    <serial type='unix'>
      <source mode='bind' path='{self._socket}'/>
      <target port='1'/>
    </serial>
    <memballoon model='none'/>
  </devices>
</domain>"""
