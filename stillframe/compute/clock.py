# SPDX-License-Identifier: Apache-2.0
"""The two clocks: one that deadlines run on, one for people to read.

Deadlines use CLOCK_BOOTTIME: a step of the wall clock does not move it, it
counts on while the host sleeps, and all processes of one boot share it. It
starts anew with the host, so each stored value goes with a boot id.

Standard library only: the guard uses this too.
"""

import datetime
import functools
import pathlib
import time

_BOOT_ID = pathlib.Path('/proc/sys/kernel/random/boot_id')


def now() -> float:
    """Give the seconds since the host was started."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


@functools.cache
def boot_id() -> str:
    """Give the id of this boot of the host."""
    return _BOOT_ID.read_text(encoding='ascii').strip()


def wall() -> str:
    """Give the wall clock: UTC, ISO 8601, microseconds, no zone."""
    return wall_text(time.time())


def wall_text(seconds: float) -> str:
    """Write seconds since the epoch the way :func:`wall` does."""
    moment = datetime.datetime.fromtimestamp(seconds, datetime.UTC)
    return moment.replace(tzinfo=None).isoformat(timespec='microseconds')


def wall_seconds(text: str) -> float:
    """Read what :func:`wall` wrote.

    :return: seconds since the epoch.
    :raises ValueError: not such a text.
    """
    moment = datetime.datetime.fromisoformat(text)
    return moment.replace(tzinfo=datetime.UTC).timestamp()


def wall_at(moment: float) -> str:
    """Give the wall clock that belongs to a moment of :func:`now`."""
    return wall_text(time.time() - (now() - moment))
