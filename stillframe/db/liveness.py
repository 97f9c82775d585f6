# SPDX-License-Identifier: Apache-2.0
"""Telling whether a process that reports to the database is alive.

The time of its last report is written by a conductor's wall clock and
compared with ours; a step of either would make every worker look down, or
a dead one look up. So each process also remembers what it saw, and when by
its own monotonic clock, and believes that before it believes a wall clock.
"""

from collections.abc import Callable
from collections.abc import Mapping
import dataclasses
import threading
import time
from typing import Any

from stillframe.db import base


@dataclasses.dataclass(frozen=True)
class _Sight:
    """What was seen of one process.

    :ivar report: which report was the newest.
    :ivar since: when it was seen first.
    :ivar until: when it was looked at last.
    :ivar fresh: whether it is known to have come between two looks that
        were close to each other.
    """

    report: tuple[str, int]
    since: float
    until: float
    fresh: bool


class Liveness:
    """Remembers the reports of services; one object a process.

    :param down_time: seconds without a report after which a service is
        down.
    """

    def __init__(self, down_time: float,
                 clock: Callable[[], float] = time.monotonic):
        self._down_time = down_time
        self._clock = clock
        self._lock = threading.Lock()
        self._sights: dict[int, _Sight] = {}

    def is_up(self, service: Mapping[Any, Any]) -> bool:
        """Tell whether a service is alive.

        :param service: its row, read just now.
        """
        now = self._clock()
        with self._lock:
            sight = self._look(service, now)
            self._sights[service['id']] = sight
        if now - sight.since > self._down_time:
            return False
        if sight.fresh:
            return True
        silent = (base.utcnow() - service['last_seen']).total_seconds()
        return abs(silent) <= self._down_time

    def _look(self, service: Mapping[Any, Any], now: float) -> _Sight:
        report = (service['started_at'], service['report_count'])
        last = self._sights.get(service['id'])
        if last is not None and last.report == report:
            return dataclasses.replace(last, until=now)
        # A change says when the report came only if the last look was not
        # long ago.
        fresh = last is not None and now - last.until <= self._down_time
        return _Sight(report, now, now, fresh)
