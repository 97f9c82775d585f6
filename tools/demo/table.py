# SPDX-License-Identifier: Apache-2.0
"""What a person sees: steps, and a table that follows the servers."""

from __future__ import annotations

from dataclasses import dataclass
import time

from tools.demo import screen

HEAD = f"  {'server':<8}{'state':<14}{'frozen for':>11}" \
       f"{'writes so far':>16}{'while frozen':>15}"


@dataclass
class Row:
    """One server as the table shows it.

    :ivar frozen_since: monotonic time when it was seen frozen; None: not.
    :ivar frozen_for: seconds that it was frozen, once it is thawed.
    :ivar writes: write requests of its disk, since it was made.
    :ivar while_frozen: those of them that came while it was frozen.
    """

    name: str
    state: str = "ACTIVE"
    frozen_since: float | None = None
    frozen_for: float | None = None
    writes: int = 0
    while_frozen: int | None = None

    def line(self, now: float) -> str:
        """Return the row as text."""
        seconds = self.frozen_for
        if self.frozen_since is not None:
            seconds = now - self.frozen_since
        frozen = "-" if seconds is None else f"{seconds:.2f} s"
        seen = "-" if self.while_frozen is None else str(self.while_frozen)
        return (f"  {self.name:<8}{self.state:<14}{frozen:>11}"
                f"{self.writes:>16}{seen:>15}")


class Screen(screen.Screen):
    """Keeps a table of servers up to date below the steps.

    Elsewhere than on a terminal a line is printed whenever the state of a
    server changes.
    """

    def __init__(self) -> None:
        super().__init__()
        self._shown: dict[str, str] = {}

    def table(self, rows: list[Row]) -> None:
        """Draw the table, or what changed in it."""
        now = time.monotonic()
        if self.terminal:
            self.draw([HEAD, *(row.line(now) for row in rows)])
            return
        if not self._shown:
            self.show(HEAD)
        for row in rows:
            if self._shown.get(row.name) != row.state:
                self._shown[row.name] = row.state
                self.show(row.line(now))

    def whole_table(self, rows: list[Row]) -> None:
        """Draw every row, for good."""
        self.keep()
        self._shown = {}
        self.table(rows)
        self.keep()
