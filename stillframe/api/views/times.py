# SPDX-License-Identifier: Apache-2.0
"""Times as the compute dialect writes them."""

import datetime


def zulu(when: datetime.datetime | None) -> str | None:
    """Write a time to the second, with a Z."""
    return None if when is None else (
        when.isoformat(timespec='seconds') + 'Z')


def bare(when: datetime.datetime | None) -> str | None:
    """Write a time with microseconds and no zone."""
    return None if when is None else when.isoformat(timespec='microseconds')
