# SPDX-License-Identifier: Apache-2.0
"""Play the demonstration; the last line tells how it ended."""

from __future__ import annotations

import contextlib
from pathlib import Path
import sys
from typing import TYPE_CHECKING
from typing import Any

from tests.lab import node_disk
from tests.lab.network import TapNetwork
from tests.lab.processes import state_dir
from tests.lab.rack import Rack
from tools.demo import performance
from tools.demo.performance import DemoFailed
from tools.demo_baremetal import stage
from tools.demo_baremetal import witness
from tools.demo_baremetal.client import Operator
from tools.demo_baremetal.table import Screen
from tools.demo_baremetal.table import amount

if TYPE_CHECKING:
    from tests.lab.machine import Machine

NODE, RESTORED = 10, 11


class Play:
    """The acts, in order.

    :param screen: where it is told.
    :param rack: where the machine is.
    :param machine: runs its own system already.
    :param operator: who asks.
    :param folder: for images and what is made to compare them.
    """

    def __init__(self, screen: Screen, rack: Rack, machine: Machine,
                 operator: Operator, folder: Path):
        self.screen = screen
        self.rack = rack
        self.machine = machine
        self.operator = operator
        self.image = folder / "images/metal.qcow2"
        self.folder = folder
        self.witnessed = folder / "as-it-was.raw"
        self.figures: dict[str, Any] = {}

    def perform(self, address: str) -> dict[str, Any]:
        """Play it; return the figures.

        :param address: of Stillframe.
        :raises DemoFailed: it did not show what it promises.
        """
        self.enrol(address)
        self.take()
        self.prove_image()
        self.prove_node()
        self.prove_restored()
        return self.figures

    def enrol(self, address: str) -> None:
        """Tell Stillframe of the machine, as it is: in use."""
        self.screen.step("The operator enrols the machine, over REST")
        cd = self.rack.cd(self.machine, address.replace(
            self.rack.network.listen, self.rack.network.address))
        node = self.operator.enrol(
            "metal", self.machine.mac,
            self.rack.driver_info(self.machine, deploy_iso=cd),
            {"root_device": {"serial": self.machine.serials[0]}})
        self.screen.say(f"POST /v1/nodes, /v1/ports   node {node}")
        self.operator.move("manage")
        self.operator.wait("manageable")
        self.screen.say("manage   the BMC answers: manageable")
        self.operator.move("adopt")
        shown = self.operator.wait("active")
        if unusable := self.operator.unusable():
            raise DemoFailed(f"the node cannot be snapshotted: {unusable}")
        self.screen.say(f"adopt    active, {shown['power_state']}, its disk "
                        "untouched")

    def take(self) -> None:
        """Ask for the snapshot, and watch."""
        self.screen.step("The operator asks for a snapshot")
        wish = {"image_ref": self.image.as_uri(), "skip_free_space": True}
        self.screen.say(f"PUT /v1/nodes/metal/states/provision "
                        f"{{\"target\": \"snapshot\", \"image_ref\": "
                        f"\"{wish['image_ref']}\", "
                        "\"skip_free_space\": true}")
        self.operator.move("snapshot", **wish)
        self.operator.wait("active", self._look)
        self.screen.finish(self.operator.snapshot())
        if not self.witnessed.exists():
            raise DemoFailed("the snapshot was over before the witness saw "
                             "a byte of it")
        self.figures["phases_seconds"] = self.screen.seconds

    def _look(self, node: dict[str, Any]) -> None:
        snapshot = self.operator.snapshot()
        self.screen.follow(snapshot)
        if (snapshot["phase"] == "streaming"
                and not self.witnessed.exists()):
            # Nothing writes to the disk now: this is what has to arrive.
            witness.copy_disk(self.machine.disks[0], self.witnessed)

    def prove_image(self) -> None:
        """Hold the image against what is said of it, and the disk."""
        self.screen.step("The proof: the image")
        said = self.operator.snapshot()
        found = witness.examine(self.image)
        if said["outcome"] != "done":
            raise DemoFailed(f"the snapshot is said to be {said['outcome']}")
        if (said["size"], said["checksum"]) != (
                found.size, f"sha256:{found.sha256}"):
            raise DemoFailed(
                f"said are {said['size']} bytes, {said['checksum']}, but "
                f"there are {found.size}, sha256:{found.sha256}")
        self._ok(f"a whole qcow2, {amount(found.size)}, standing alone; its "
                 "SHA-256 is the one that the API tells")
        if found.virtual_size != self.witnessed.stat().st_size:
            raise DemoFailed(f"the image is of a disk of "
                             f"{found.virtual_size} bytes")
        written = self.witnessed.stat().st_blocks * 512
        self._ok(f"of a disk of {amount(found.virtual_size)}, of which "
                 f"{amount(written)} were ever written: what was deleted "
                 "was left out")
        disk = said["disk"] or {}
        if disk.get("serial") != self.machine.serials[0]:
            raise DemoFailed(f"the image is of another disk: {disk}")
        self._ok(f"of {disk['name']}, the one with the serial number "
                 f"{disk['serial']} and not the other")
        if said["consistency"] != "clean":
            raise DemoFailed("the system of the machine did not shut down")
        self._ok("its system had shut down by itself: the image is clean")
        self.figures |= {
            "image_bytes": found.size, "sha256": found.sha256,
            "disk_bytes": found.virtual_size, "written_bytes": written,
            "consistency": said["consistency"],
            "stream_seconds": (said["result"] or {}).get("duration")}

    def prove_node(self) -> None:
        """See that the machine does again what it did before."""
        self.screen.step("The proof: the machine")
        node = self.operator.show()
        if (node["provision_state"], node["power_state"]) != (
                "active", "power on"):
            raise DemoFailed(f"the node is {node['provision_state']}, "
                             f"{node['power_state']}")
        self.machine.wait_disk_boots(2)
        if self.machine.ramdisk_boots() != 1:
            raise DemoFailed("the machine booted the ramdisk again")
        self._ok("active, power on, and up again from its own disk")
        event = self.operator.history()[0]
        self._ok(f"history: {event['event']}")
        transfers = self.folder / "stillframe/transfers"
        if left := witness.larger_than(transfers, 1 << 20):
            raise DemoFailed(f"intermediate files are left: {left}")
        self._ok("nothing of the image is left where it was received")

    def prove_restored(self) -> None:
        """Compare file by file, and boot another machine from it."""
        self.screen.step("The proof: another machine, with a copy of the "
                         "image for a disk")
        disk = self.rack.host.disks / f"{RESTORED}.raw"
        witness.to_disk(self.image, disk)
        if not witness.same_tables(disk, self.witnessed):
            raise DemoFailed("the partition tables differ")
        before = witness.files(self.witnessed, self.folder / "before")
        after = witness.files(disk, self.folder / "after")
        if before != after:
            different = sorted(
                path for path in before.keys() | after.keys()
                if before.get(path) != after.get(path))
            raise DemoFailed(f"{len(different)} files differ, such as "
                             f"{different[:3]}")
        self._ok(f"e2fsck finds nothing; all {len(before)} files are what "
                 "they were on the machine, byte for byte")
        boots = node_disk.boots_of(disk)
        other = self.rack.with_disks(RESTORED, [disk])
        other.power_on()
        other.wait_disk_boots(1)
        other.wait_printed(rf"boots={boots + 1} ")
        self._ok(f"it comes up, and counts its boot: number {boots + 1}, "
                 f"after the {boots} of the machine")
        self.figures |= {"files": len(before), "restored_boots": True}

    def _ok(self, text: str) -> None:
        self.screen.say(f"ok  {text}")


def demonstrate() -> dict[str, Any]:
    """Build the stage, play, and leave nothing behind."""
    screen = Screen()
    with contextlib.ExitStack() as stack:
        screen.step("Build a machine: disk, ramdisk with our agent, BMC "
                    "(Redfish)")
        rack = stack.enter_context(Rack())
        machine = rack.machine(NODE, more_disks=(64 << 20,))
        where = ("in a network namespace of its own"
                 if isinstance(rack.network, TapNetwork)
                 else "behind QEMU's user network")
        screen.say(f"{machine.mac}, 2 disks, {where}")
        screen.say("power on: it boots its own system from its disk")
        machine.power_on()
        screen.step("Start Stillframe: one process, SQLite")
        folder = stack.enter_context(state_dir("metal"))
        (folder / "images").mkdir()
        address = stack.enter_context(
            stage.stillframe(rack, folder, folder / "images"))
        screen.say(f"REST at {address}/v1")
        machine.wait_disk_boots(1)
        operator = stack.enter_context(Operator(address))
        figures = Play(screen, rack, machine, operator,
                       folder).perform(address)
        screen.step("Clean up")
    return figures


if __name__ == "__main__":
    sys.exit(performance.main(demonstrate))
