# SPDX-License-Identifier: Apache-2.0
"""Describe a guest to libvirt, also as Nova would describe it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape
from xml.sax.saxutils import quoteattr

from tests.lab.guest_image import GuestImage

NOVA_NAMESPACE = "http://openstack.org/xmlns/libvirt/nova/1.1"


@dataclass(frozen=True)
class Disk:
    """One disk of a guest.

    :param target: vda, vdb, ...
    :param serial: usually the volume's UUID; None for no serial.
    """

    target: str
    path: Path
    image_format: str = "raw"
    serial: str | None = None

    def xml(self) -> str:
        """Return the <disk> element."""
        serial = ("" if self.serial is None
                  else f"<serial>{escape(self.serial)}</serial>")
        return f"""
    <disk type='file' device='disk'>
      <driver name='qemu' type='{self.image_format}' cache='writeback'/>
      <source file={quoteattr(str(self.path))}/>
      <target dev='{self.target}' bus='virtio'/>
      {serial}
    </disk>"""


def nova_metadata(name: str, project: str, user: str,
                  flavor: str = "m1.tiny", extra: str = "") -> str:
    """Return the metadata element that Nova writes into a domain.

    :param project: the project's UUID.
    :param user: the user's UUID.
    :param extra: XML to put at the end of it.
    """
    return f"""
    <nova:instance xmlns:nova="{NOVA_NAMESPACE}">
      <nova:package version="33.0.0"/>
      <nova:name>{escape(name)}</nova:name>
      <nova:creationTime>2026-11-29 20:00:00</nova:creationTime>
      <nova:flavor name={quoteattr(flavor)}>
        <nova:memory>128</nova:memory>
        <nova:disk>1</nova:disk>
        <nova:swap>0</nova:swap>
        <nova:ephemeral>0</nova:ephemeral>
        <nova:vcpus>1</nova:vcpus>
      </nova:flavor>
      <nova:owner>
        <nova:user uuid="{user}">someone</nova:user>
        <nova:project uuid="{project}">somewhere</nova:project>
      </nova:owner>
      <nova:ports/>
      {extra}
    </nova:instance>"""


@dataclass(frozen=True)
class Hardware:
    """What a guest is made of.

    :param channel: whether there is a way to the agent.
    :param cmdline: options for the guest, see guest/init.
    :param serial_log: gets what the guest prints.
    :param control: UNIX socket that leads to the guest's command loop.
    """

    image: GuestImage
    disks: tuple[Disk, ...]
    serial_log: Path
    control: Path
    channel: bool = True
    memory_mib: int = 128
    cmdline: str = ""


#: Take the shortest way to the first program, and restart when that dies.
KERNEL_OPTIONS = ("console=ttyS0 quiet panic=-1 nokaslr mitigations=off "
                  "tsc=reliable no_timer_check")


def domain_xml(name: str, domain_uuid: str, hardware: Hardware,
               metadata: str = "", title: str = "") -> str:
    """Return the whole description of a guest.

    :param metadata: XML to put into <metadata>.
    """
    channel = """
    <channel type='unix'>
      <target type='virtio' name='org.qemu.guest_agent.0'/>
    </channel>""" if hardware.channel else ""
    shown = f"<title>{escape(title)}</title>" if title else ""
    return f"""
<domain type='qemu'>
  <name>{escape(name)}</name>
  <uuid>{domain_uuid}</uuid>
  {shown}
  <metadata>{metadata}</metadata>
  <memory unit='MiB'>{hardware.memory_mib}</memory>
  <vcpu>1</vcpu>
  <os>
    <type arch='x86_64' machine='pc'>hvm</type>
    <kernel>{hardware.image.kernel}</kernel>
    <initrd>{hardware.image.initramfs}</initrd>
    <cmdline>{KERNEL_OPTIONS} {escape(hardware.cmdline)}</cmdline>
  </os>
  <features><acpi/></features>
  <on_poweroff>destroy</on_poweroff>
  <on_reboot>restart</on_reboot>
  <on_crash>destroy</on_crash>
  <devices>
    <emulator>/usr/bin/qemu-system-x86_64</emulator>
    {"".join(disk.xml() for disk in hardware.disks)}
    <controller type='usb' model='none'/>
    <serial type='file'>
      <source path='{hardware.serial_log}' append='on'/>
      <target port='0'/>
    </serial>
    <serial type='unix'>
      <source mode='bind' path='{hardware.control}'/>
      <target port='1'/>
    </serial>
    {channel}
    <memballoon model='none'/>
  </devices>
</domain>"""
