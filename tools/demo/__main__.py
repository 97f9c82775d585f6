# SPDX-License-Identifier: Apache-2.0
"""Play the demonstration; the last line tells how it ended."""

from __future__ import annotations

import contextlib
from pathlib import Path
import sys
import time
from typing import TYPE_CHECKING
from typing import Any

from tests.lab.libvirtd import Libvirtd
from tests.lab.processes import state_dir
from tools.demo import performance
from tools.demo import stage
from tools.demo import witness
from tools.demo.client import Recovery
from tools.demo.performance import DemoFailed
from tools.demo.table import Row
from tools.demo.table import Screen

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.lab.guests import Guest

#: Seconds until Stillframe thaws by itself, should the client vanish.
TIMEOUT = 60
#: Seconds that all stay frozen after the copies, to watch for writes.
WATCH = 1.5


class Play:
    """The acts, in order.

    :param screen: where it is told.
    :param guests: what the witness looks at, by name.
    :param recovery: the DR software.
    :param copies: directory for the copies of disks.
    """

    def __init__(self, screen: Screen, guests: dict[str, Guest],
                 recovery: Recovery, copies: Path):
        self.screen = screen
        self.guests = guests
        self.recovery = recovery
        self.copies = copies
        self.rows = {name: Row(name) for name in stage.SERVERS}
        self.frozen_at: dict[str, witness.Writes] = {}
        self.figures: dict[str, Any] = {}

    def perform(self) -> dict[str, Any]:
        """Play it; return the figures.

        :raises DemoFailed: it did not show what it promises.
        """
        ids = self.list_servers()
        self.copy_without_freeze()
        start = time.monotonic()
        self.freeze_all(ids)
        all_frozen = time.monotonic()
        frozen_copies = self.copy_frozen()
        copied = time.monotonic()
        self.watch()
        self.thaw_all(ids)
        self.figures["window_seconds"] = {
            "freezing": round(all_frozen - start, 3),
            "copying": round(copied - all_frozen, 3),
            "all": round(time.monotonic() - start, 3)}
        self.prove(frozen_copies)
        return self.figures

    def list_servers(self) -> dict[str, str]:
        """Show what the DR software sees."""
        self.screen.step("The DR software asks for servers and volumes")
        ids = self.recovery.servers(stage.SERVERS)
        for name, server in ids.items():
            volumes = self.recovery.volumes(server)
            if len(volumes) != 1:
                raise DemoFailed(f"{name} has {len(volumes)} volumes, not 1")
            self.screen.say(f"{name:<5} server {server}  volume "
                            f"{volumes[0]['volumeId']} at "
                            f"{volumes[0]['device']}")
        return ids

    def copy_without_freeze(self) -> None:
        """Show what a copy is like that nobody prepared."""
        self.screen.step("For comparison, a copy of db while it writes")
        copy = witness.examine(self.guests["db"], self.copies / "loose")
        if not copy.needs_recovery:
            raise DemoFailed("the copy taken without a freeze looks clean: "
                             "so a clean copy would prove nothing")
        self.screen.say("its ext4 says needs_recovery: cut off mid-work")
        self.figures["needs_recovery_without_freeze"] = True

    def freeze_all(self, ids: dict[str, str]) -> None:
        """Quiesce in order."""
        self.screen.step(f"Quiesce {', '.join(stage.SERVERS)}, in order")
        for name in stage.SERVERS:
            self.recovery.act(ids[name], "quiesce", {"timeout": TIMEOUT},
                              "QUIESCED", self._shows(name))

    def copy_frozen(self) -> dict[str, witness.Copy]:
        """Copy all disks while nobody writes."""
        self.screen.step("Copy the three disks, as a storage array would")
        copies = {}
        for name in stage.SERVERS:
            copies[name] = witness.examine(self.guests[name],
                                           self.copies / name)
            self.draw()
        return copies

    def watch(self) -> None:
        """Give a write the time to show, if there were any."""
        end = time.monotonic() + WATCH
        while time.monotonic() < end:
            self.draw()
            time.sleep(0.1)
        self.screen.whole_table(list(self.rows.values()))

    def thaw_all(self, ids: dict[str, str]) -> None:
        """Unquiesce the other way round."""
        names = tuple(reversed(stage.SERVERS))
        self.screen.step(f"Unquiesce {', '.join(names)}")
        self.figures["frozen_seconds"] = {}
        self.figures["writes_while_frozen"] = {}
        for name in names:
            self.draw()
            row = self.rows[name]
            if row.frozen_since is None:
                raise DemoFailed(f"{name} was never frozen")
            # From here on it may write: the last look counts.
            row.frozen_for = time.monotonic() - row.frozen_since
            row.frozen_since = None
            self.figures["frozen_seconds"][name] = round(row.frozen_for, 3)
            self.figures["writes_while_frozen"][name] = row.while_frozen
            self.recovery.act(ids[name], "unquiesce", None, "ACTIVE",
                              self._shows(name))

    def prove(self, copies: dict[str, witness.Copy]) -> None:
        """Hold the result against the promises."""
        self.screen.step("The proof")
        after = {name: witness.writes(guest)
                 for name, guest in self.guests.items()}
        for name, guest in self.guests.items():
            guest.wait_counter(above=after[name].number)
            self.rows[name].writes = witness.writes(guest).requests
            if (seen := self.rows[name].while_frozen) != 0:
                raise DemoFailed(f"{seen} writes while {name} was frozen")
            if copies[name].needs_recovery:
                raise DemoFailed(f"the copy of {name} needs recovery")
            number = self.frozen_at[name].number
            if copies[name].number != number:
                raise DemoFailed(
                    f"{name} had written number {number} when it froze, but "
                    f"its copy has {copies[name].number}")
        self.screen.whole_table(list(self.rows.values()))
        for line in ("no write reached a disk while its server was frozen",
                     "the three copies are clean: needs_recovery is not set",
                     "each copy ends with the very last number that its "
                     "server wrote",
                     "the copy taken without a freeze needs recovery",
                     "all three servers write again"):
            self.screen.say(f"ok  {line}")
        self.figures["needs_recovery_when_frozen"] = False
        self.figures["writing_again"] = True

    def _shows(self, name: str) -> Callable[[str], None]:
        """Return what takes a server's state into the table."""
        def show(state: str) -> None:
            row = self.rows[name]
            if state == "QUIESCED" != row.state:
                row.frozen_since = time.monotonic()
                self.frozen_at[name] = witness.writes(self.guests[name])
            row.state = state
            self.draw()
        return show

    def draw(self) -> None:
        """Take in the writes, and draw the table."""
        for name, row in self.rows.items():
            seen = witness.writes(self.guests[name])
            row.writes = seen.requests
            if row.frozen_since is not None and name in self.frozen_at:
                row.while_frozen = seen.since(self.frozen_at[name])
        self.screen.table(list(self.rows.values()))


def demonstrate(screen: Screen) -> dict[str, Any]:
    """Build the stage, play, and leave nothing behind."""
    with contextlib.ExitStack() as stack:
        screen.step("Start an unprivileged libvirtd and three servers that "
                    "never stop writing")
        host = stack.enter_context(Libvirtd("demo"))
        guests = stack.enter_context(stage.guests(host))
        screen.step("Start Stillframe: one process, SQLite")
        address = stack.enter_context(stage.stillframe(host))
        screen.say(f"REST at {address}/v2.1")
        recovery = stack.enter_context(Recovery(address))
        copies = stack.enter_context(state_dir("copies"))
        figures = Play(screen, guests, recovery, copies).perform()
        screen.step("Clean up")
    return figures


if __name__ == "__main__":
    sys.exit(performance.main(lambda: demonstrate(Screen())))
