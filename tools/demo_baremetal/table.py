# SPDX-License-Identifier: Apache-2.0
"""What a person sees of a snapshot: its phases, and its bytes."""

from __future__ import annotations

import time
from typing import Any

from tools.demo import screen

PHASES = ("preparing", "booting", "streaming", "verifying", "uploading",
          "restoring")
#: What happens in each, for those who watch.
MEANING = {
    "preparing": "shut the system down, put the ramdisk in",
    "booting": "power on, wait for the agent's heartbeat",
    "streaming": "the agent measures the disk, then sends it",
    "verifying": "digest, length, format, size of the disk",
    "uploading": "to where the image was asked for",
    "restoring": "power, boot device as they were"}
HEAD = f"  {'phase':<11}{'time':>8}   what"
MIB = 1 << 20
BAR = 24
#: Seconds between two lines of progress where nothing can be drawn over.
PACE = 2.0


def amount(count: int | None) -> str:
    """Write a number of bytes for people."""
    return "-" if count is None else f"{count / MIB:.1f} MiB"


def progress(snapshot: dict[str, Any]) -> str:
    """Write how many bytes have arrived, of how many, how fast."""
    done, total = snapshot["bytes_done"] or 0, snapshot["bytes_total"]
    text = f"{amount(done)} of {amount(total)}"
    if snapshot["rate"]:
        text += f", {snapshot['rate'] / MIB:.1f} MiB/s"
    if total:
        full = min(BAR, done * BAR // total)
        text = f"[{'#' * full}{'.' * (BAR - full)}] {text}"
    return text


class Screen(screen.Screen):
    """Keeps the phases of one snapshot up to date below the steps.

    Elsewhere than on a terminal a line is printed when a phase begins, and
    every other second while bytes arrive; the table comes at the end.
    """

    def __init__(self) -> None:
        super().__init__()
        self.phase = ""
        self._since: dict[str, float] = {}
        self._took: dict[str, float] = {}
        self._bytes = ""
        self._last = 0.0

    @property
    def seconds(self) -> dict[str, float]:
        """How long each phase took, as it was seen from outside."""
        return {phase: round(took, 1) for phase, took in self._took.items()}

    def follow(self, snapshot: dict[str, Any]) -> None:
        """Show how far a snapshot is."""
        now = time.monotonic()
        phase = snapshot["phase"] or self.phase
        began = phase != self.phase
        if began:
            self._end(now)
            self.phase = phase
            self._since[phase] = now
        if phase == "streaming":
            self._bytes = progress(snapshot)
        if self.terminal:
            self.draw(self._table(now))
        elif began or (phase == "streaming" and now > self._last + PACE):
            self._last = now
            self.show(self._line(phase, now))

    def finish(self, snapshot: dict[str, Any]) -> None:
        """The last phase is over; what was drawn stays.

        :param snapshot: what it came to.
        """
        self._end(time.monotonic())
        self.phase = ""
        self._bytes = progress({
            "bytes_done": snapshot["size"], "bytes_total": snapshot["size"],
            "rate": (snapshot["size"] or 0)
            / max(self._took.get("streaming", 0), 0.1)})
        if self.terminal:
            self.draw(self._table(0))
        else:
            self.show("\n".join(self._table(0)))
        self.keep()

    def _table(self, now: float) -> list[str]:
        return [HEAD, *(self._line(one, now) for one in PHASES)]

    def _end(self, now: float) -> None:
        if self.phase:
            self._took[self.phase] = now - self._since[self.phase]

    def _line(self, phase: str, now: float) -> str:
        took = self._took.get(phase)
        if took is None and now > self._since.get(phase, now):
            took = now - self._since[phase]
        seconds = "" if took is None else f"{took:.1f} s"
        if took is None and self._took and not self.phase:
            # It came and went between two looks.
            seconds = "at once"
        what = MEANING[phase]
        if phase == "streaming" and self._bytes.startswith("["):
            what = self._bytes
        return f"  {phase:<11}{seconds:>8}   {what}"
