# SPDX-License-Identifier: Apache-2.0
"""Times as the bare-metal dialect writes them."""

import datetime


def offset(when: datetime.datetime | None) -> str | None:
    """Write a time to the second, with +00:00 behind it."""
    return None if when is None else (
        when.isoformat(timespec='seconds') + '+00:00')
