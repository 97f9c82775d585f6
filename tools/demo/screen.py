# SPDX-License-Identifier: Apache-2.0
"""What a person sees of any demonstration: steps, and lines below them."""

from __future__ import annotations

import sys
import time


class Screen:
    """Prints steps; lines below them can be drawn over on a terminal.

    :ivar terminal: whether a person watches; else it's a log or a pipe.
    """

    def __init__(self) -> None:
        self.terminal = sys.stdout.isatty()
        self._start = time.monotonic()
        self._drawn = 0

    def step(self, text: str) -> None:
        """Announce what comes; what is drawn so far stays."""
        self.keep()
        elapsed = time.monotonic() - self._start
        bold = f"\x1b[1m{text}\x1b[0m" if self.terminal else text
        self.show(f"\n[{elapsed:5.1f} s] {bold}")

    def say(self, text: str) -> None:
        """Print a line that belongs to the step."""
        self.keep()
        self.show(f"  {text}")

    def draw(self, lines: list[str]) -> None:
        """Draw lines over those that were drawn last; a terminal only."""
        if self._drawn:
            sys.stdout.write(f"\x1b[{self._drawn}A")
        self.show("\n".join(f"\x1b[2K{line}" for line in lines))
        self._drawn = len(lines)

    def keep(self) -> None:
        """Have what is drawn stay."""
        self._drawn = 0

    @staticmethod
    def show(text: str) -> None:
        """Print a line as it is."""
        print(text, flush=True)
