# SPDX-License-Identifier: Apache-2.0
"""Guests: small real machines that write all the time."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from pathlib import Path
import re
import uuid

import libvirt
import libvirt_qemu

from tests.lab import disks
from tests.lab.control import Control
from tests.lab.domain_xml import Disk
from tests.lab.domain_xml import Hardware
from tests.lab.domain_xml import domain_xml
from tests.lab.libvirtd import Libvirtd
from tests.lab.processes import free_port
from tests.lab.processes import wait_until

BOOT_TIMEOUT = 60


class Guest:
    """One guest of a hypervisor.

    ``with Guest(host, "web") as guest: ...`` makes disks, boots it, waits
    for its agent, and removes all of it at the end.

    :param host: where it runs.
    :param name: the domain's name.
    :param disk_count: data disks vda, vdb, ..., each an ext4.
    :param disk_format: raw or qcow2.
    :param serials: one for each disk; None for a fresh UUID each, "" for
        a disk without.
    :param volumes: disks that somebody else makes and keeps, on top.
    :param channel: whether the domain has a way to the agent.
    :param agent: whether the agent is started at boot.
    :param agent_delay: seconds that it is started late.
    :param write_ms: pause between two writes to a disk, ms; 0 for none.
    :param persistent: whether libvirt keeps the domain when it is off.
    :param metadata: XML, see domain_xml.nova_metadata.
    """

    def __init__(self, host: Libvirtd, name: str, *, disk_count: int = 1,
                 disk_format: str = "raw",
                 serials: list[str | None] | None = None,
                 volumes: tuple[Disk, ...] = (),
                 channel: bool = True, agent: bool = True,
                 agent_delay: float = 0, write_ms: int = 100,
                 persistent: bool = True, metadata: str = "",
                 title: str = "", domain_uuid: str | None = None):
        self.host = host
        self._home = host
        self._moves = 0
        self.name = name
        self.uuid = domain_uuid or str(uuid.uuid4())
        self.persistent = persistent
        self.has_agent = channel and agent
        self.writes = disk_count + len(volumes) > 0 and write_ms > 0
        short = self.uuid[:8]
        self._own_disks = tuple(
            Disk(f"vd{chr(97 + index)}",
                 host.disks / f"{short}-{index}.{disk_format}", disk_format,
                 _serial(serials, index))
            for index in range(disk_count))
        self.disks = (*self._own_disks, *volumes)
        self.hardware = Hardware(
            image=host.image, disks=self.disks,
            serial_log=host.path / f"{short}.log",
            control=host.path / f"{short}.ctl", channel=channel,
            cmdline=f"sf.agent={'on' if agent else 'off'} "
                    f"sf.agent_delay={agent_delay} sf.write_ms={write_ms}")
        self.xml = domain_xml(name, self.uuid, self.hardware, metadata,
                              title)
        self._control: Control | None = None

    # --- life -------------------------------------------------------------

    def __enter__(self) -> Guest:
        try:
            self.make_disks()
            self.start()
            self.wait_booted()
        except BaseException:
            self.remove()
            raise
        return self

    def __exit__(self, *_exc: object) -> None:
        self.remove()

    def make_disks(self) -> None:
        """Make the data disks, each with an empty ext4."""
        for disk in self._own_disks:
            raw = disk.path.with_suffix(".raw")
            disks.make_ext4(raw)
            if disk.image_format != "raw":
                disks.to_qcow2(raw, disk.path)
                raw.unlink()
            self.host.give_away(disk.path)

    def start(self) -> None:
        """Power on; returns before the guest has booted."""
        connection = self.host.connection
        if not self.persistent:
            connection.createXML(self.xml, 0)
            return
        try:
            domain = self.domain
        except libvirt.libvirtError:
            domain = connection.defineXML(self.xml)
        domain.create()

    def wait_booted(self, timeout: float = BOOT_TIMEOUT) -> None:
        """Wait for the agent, or when it has none, for the first program."""
        if self.has_agent:
            self.wait_agent(timeout=timeout)
        else:
            wait_until(lambda: "ready" in self.printed(), timeout,
                       f"guest {self.name} to boot")

    @property
    def domain(self) -> libvirt.virDomain:
        """The domain, over the laboratory's own connection."""
        return self.host.connection.lookupByUUIDString(self.uuid)

    def pause(self) -> None:
        """Stop its processor."""
        self.domain.suspend()

    def resume(self) -> None:
        """Let its processor go on."""
        self.domain.resume()

    def reset(self) -> None:
        """Press the reset button; returns before it has booted."""
        self._forget_control()
        self.domain.reset(0)

    def reboot_from_inside(self) -> None:
        """Reboot from inside, whatever is frozen; returns at once."""
        self.run("(sleep 0.1; reboot -n -f) &")
        self._forget_control()

    def destroy(self) -> None:
        """Pull the plug.  A transient domain is gone then."""
        self._forget_control()
        self.domain.destroy()

    def undefine(self) -> None:
        """Let libvirt forget it; a running one becomes transient."""
        self.domain.undefine()

    def migrate(self, to: Libvirtd) -> None:
        """Move it, running, to another hypervisor; its files stay.

        File systems that are frozen stay so.
        """
        self._forget_control()
        self._moves += 1
        control = to.path / f"{self.uuid[:8]}-{self._moves}.ctl"
        old, self.hardware = self.hardware, dataclasses.replace(
            self.hardware, control=control)
        there = self.domain.XMLDesc(
            libvirt.VIR_DOMAIN_XML_MIGRATABLE).replace(
                str(old.control), str(control))
        flags = (libvirt.VIR_MIGRATE_LIVE | libvirt.VIR_MIGRATE_UNSAFE
                 | libvirt.VIR_MIGRATE_UNDEFINE_SOURCE)
        parameters = {
            libvirt.VIR_MIGRATE_PARAM_URI: f"tcp://127.0.0.1:{free_port()}",
            libvirt.VIR_MIGRATE_PARAM_DEST_XML: there}
        if self.persistent:
            flags |= libvirt.VIR_MIGRATE_PERSIST_DEST
            parameters[libvirt.VIR_MIGRATE_PARAM_PERSIST_XML] = there
        self.domain.migrate3(to.connection, parameters, flags)
        self.host = to

    def remove(self) -> None:
        """Power off, forget and delete the files, whatever its state."""
        self._forget_control()
        with contextlib.suppress(libvirt.libvirtError):
            domain = self.domain
            with contextlib.suppress(libvirt.libvirtError):
                domain.destroy()
            with contextlib.suppress(libvirt.libvirtError):
                domain.undefineFlags(
                    libvirt.VIR_DOMAIN_UNDEFINE_SNAPSHOTS_METADATA
                    | libvirt.VIR_DOMAIN_UNDEFINE_CHECKPOINTS_METADATA)
        for path in (self.hardware.serial_log, self.hardware.control,
                     *self._home.disks.glob(f"{self.uuid[:8]}-*")):
            path.unlink(missing_ok=True)

    # --- the agent ----------------------------------------------------------

    def wait_agent(self, connected: bool = True,
                   timeout: float = BOOT_TIMEOUT) -> None:
        """Wait until the agent is connected and answers (or is gone)."""
        events = self.host.events

        def as_wished() -> bool:
            heard = events.agent_connected(self.uuid)
            if heard is None:
                heard = "state='connected'" in self.domain.XMLDesc()
            return heard is connected

        events.wait(as_wished, timeout,
                    f"the agent of {self.name} to be "
                    f"{'connected' if connected else 'disconnected'}")
        if connected:
            # A libvirtd that was restarted calls the agent connected a
            # moment before it can talk to it, and tells no event then.
            wait_until(self._agent_answers, timeout,
                       f"the agent of {self.name} to answer")

    def _agent_answers(self) -> bool:
        try:
            self.ask_agent("guest-ping", timeout=2)
        except libvirt.libvirtError as error:
            if error.get_error_code() == libvirt.VIR_ERR_AGENT_UNRESPONSIVE:
                return False
            raise
        return True

    def ask_agent(self, command: str, timeout: int = 5, **arguments: object
                  ) -> object:
        """Send a command to the agent past everybody; return its answer."""
        question: dict[str, object] = {"execute": command}
        if arguments:
            question["arguments"] = arguments
        answer = libvirt_qemu.qemuAgentCommand(
            self.domain, json.dumps(question), timeout, 0)
        return json.loads(answer)["return"]

    def frozen(self, timeout: int = 5) -> bool:
        """Ask the agent whether file systems are frozen.

        :raises libvirt.libvirtError: when it does not answer in time.
        """
        status = self.ask_agent("guest-fsfreeze-status", timeout)
        return status == "frozen"

    def freeze(self) -> int:
        """Freeze past everybody, like a stranger; return how many."""
        return self.domain.fsFreeze()

    def thaw(self) -> int:
        """Thaw past everybody, like a stranger; return how many."""
        return self.domain.fsThaw()

    def kill_agent(self, restart: bool = True) -> None:
        """Crash the agent; return when libvirt noticed.

        :param restart: whether the guest starts it again, half a second
            later; then it is connected again on return.
        """
        events = self.host.events
        before = events.agent_changes(self.uuid)
        self.run("rm -f /run/agent-off" if restart
                 else "touch /run/agent-off")
        self.run("kill -9 $(pidof qemu-ga)")
        events.wait(
            lambda: (events.agent_changes(self.uuid) > before
                     and events.agent_connected(self.uuid) is restart),
            BOOT_TIMEOUT, f"libvirt to notice the crash in {self.name}")

    def start_agent(self) -> None:
        """Start an agent that was off or killed; see wait_agent."""
        self.run("rm -f /run/agent-off")

    def hang_agent(self) -> None:
        """Stop the agent in its tracks (SIGSTOP): it answers nothing."""
        self.run("kill -STOP $(pidof qemu-ga)")

    def wake_agent(self) -> None:
        """Let a hung agent go on; it takes up what was sent meanwhile."""
        self.run("kill -CONT $(pidof qemu-ga)")

    def set_hook(self, *, fail: bool = False, slow: float = 0,
                 hang: float = 0) -> None:
        """Choose what the freeze hook does from now on.

        :param fail: it fails, so the agent freezes nothing.
        :param slow: it takes so many seconds.
        :param hang: the agent hangs for so many seconds in the middle of
            the freeze and then finishes it.
        """
        script = ["rm -f /run/hook-*"]
        if fail:
            script.append("touch /run/hook-fail")
        if slow:
            script.append(f"echo {slow} >/run/hook-sleep")
        if hang:
            script.append(f"echo {hang} >/run/hook-hang")
        self.run("; ".join(script))

    # --- looking and reaching into it ---------------------------------------

    @property
    def control(self) -> Control:
        """The way to its command loop."""
        if self._control is None:
            self._control = Control(self.hardware.control)
        return self._control

    def _forget_control(self) -> None:
        if self._control is not None:
            self._control.close()
            self._control = None

    def run(self, script: str, timeout: float = 10) -> str:
        """Run a line of shell in it; return what that prints.

        Needs no agent, and works while file systems are frozen.

        :raises LabError: when it fails or takes longer than timeout s.
        """
        return self.control.run(script, timeout)

    def printed(self) -> str:
        """Return all that it printed on its console, since ever."""
        try:
            return self.hardware.serial_log.read_text(errors="replace")
        except FileNotFoundError:
            return ""

    def counter(self, target: str = "vda") -> int:
        """Return the last number its writer made durable; 0: none yet."""
        numbers = re.findall(rf"^w {target} (\d+)\r?$", self.printed(),
                             re.MULTILINE)
        return int(numbers[-1]) if numbers else 0

    def wait_counter(self, above: int, target: str = "vda",
                     timeout: float = 10) -> int:
        """Wait until the writer went past a number."""
        return wait_until(
            lambda: self.counter(target) > above and self.counter(target),
            timeout, f"guest {self.name} to write past {above}")

    def block_writes(self, target: str = "vda") -> int:
        """Count the write requests that its disk got, as QEMU saw them."""
        return self.domain.blockStats(target)[2]

    def boots(self) -> int:
        """Count how often it has booted."""
        return self.printed().count("ready")

    def wait_boots(self, count: int, timeout: float = BOOT_TIMEOUT) -> None:
        """Wait until it has booted so many times in all."""
        wait_until(lambda: self.boots() >= count, timeout,
                   f"guest {self.name} to boot")

    def copy(self, into: Path, target: str = "vda") -> Path:
        """Copy a disk as it is on the storage now; return the raw copy."""
        disk = next(one for one in self.disks if one.target == target)
        disks.copy(disk.path, into, disk.image_format)
        return into


def _serial(serials: list[str | None] | None, index: int) -> str | None:
    given = serials[index] if serials else None
    return str(uuid.uuid4()) if given is None else given or None
