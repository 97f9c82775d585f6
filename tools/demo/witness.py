# SPDX-License-Identifier: Apache-2.0
"""The witness: looks at guests and disks from outside.

Asks neither Stillframe nor the DR software.  Two counts that know nothing
of each other tell of writes: the requests that the hypervisor saw at the
disk, and the numbers that the program in the guest made durable.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.lab import disks

if TYPE_CHECKING:
    from tests.lab.guests import Guest


@dataclass(frozen=True)
class Writes:
    """How far a guest has written.

    :ivar requests: that its disk got.
    :ivar number: the last one its program made durable.
    """

    requests: int
    number: int

    def since(self, before: Writes) -> int:
        """Return the larger of both differences."""
        return max(self.requests - before.requests,
                   self.number - before.number)


@dataclass(frozen=True)
class Copy:
    """What a copy of a disk looks like inside.

    :ivar needs_recovery: whether its file system was cut off mid-work.
    :ivar number: the last one in the file that the program writes;
        None when the file system does not show it without recovery.
    """

    needs_recovery: bool
    number: int | None


def writes(guest: Guest) -> Writes:
    """Look how far a guest has written."""
    # The guest prints a number after it is on the disk.
    number = guest.counter()
    return Writes(guest.block_writes(), number)


def examine(guest: Guest, copy: Path) -> Copy:
    """Copy a guest's disk as it is, and look into the copy."""
    guest.copy(copy)
    text = disks.read_file(copy, "/counter").strip()
    return Copy(disks.needs_recovery(copy),
                int(text) if text.isdigit() else None)
