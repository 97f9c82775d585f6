# SPDX-License-Identifier: Apache-2.0
"""Giving up what nobody reports on any more.

How long a thing has stood still is counted here, by a clock that no step
of the wall clock moves, and only while this process looked and the
database answered: after an outage or a suspended conductor, workers first
get the time to deliver what they kept. Several conductors may reap at once,
since each change is a compare-and-swap.

What a process finds at its first look is as old as the database says, so
that restarts do not prolong it for ever; but workers get a while then, too,
since nobody may have been there to take their reports. The age is by the
wall clocks of two hosts, of which either may be wrong: what goes on within
its configured time is not cut even then.
"""

from collections.abc import Callable
from collections.abc import Hashable
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
import datetime
import time
from types import MappingProxyType

from oslo_config import cfg
from oslo_context import context as oslo_context
from oslo_log import log

from stillframe import exceptions
from stillframe.conf import compute
from stillframe.db import base
from stillframe.db import reaping

LOG = log.getLogger(__name__)

# Seconds that workers get to deliver what they kept, from the first look of
# a process: longer than they and their broker's client wait between tries.
_DELIVERY = 60.0
# Seconds that a report takes whose work has just ended, while a conductor is
# there: longer than a worker waits between two tries.
_REPORT = 15.0


def before(moment: datetime.datetime | None, limit: float,
           work: float = 0.0) -> float:
    """Give how old something counts as that a first look finds.

    :param moment: since when it is there, as stored; None: not known.
    :param limit: seconds after which it is given up.
    :param work: seconds that it may take though all is well, and without a
        sign of life. They are left to it whatever the age: that is the
        difference of two hosts' clocks, and may say that what was begun
        just now is hours old. Nothing tells a wrong clock from an old
        request, so nothing less is safe.
    :return: seconds; at the most so many that the work can end and the
        delivery is waited for.
    """
    if moment is None:
        return 0.0
    age = (base.utcnow() - moment).total_seconds()
    return max(0.0, min(age, limit - max(_DELIVERY, work + _REPORT)))


class Watch:
    """How long each of a changing set of things has been there."""

    def __init__(self) -> None:
        self._seen: dict[Hashable, float] | None = None

    def look(self, keys: Iterable[Hashable], elapsed: float,
             ages: Mapping[Hashable, float] = MappingProxyType({})) -> None:
        """Take in which things are there now.

        :param elapsed: seconds to count since the look before.
        :param ages: seconds that count already for what is found by the
            first look; see :func:`before`.
        """
        seen = ages if self._seen is None else {
            key: age + elapsed for key, age in self._seen.items()}
        self._seen = {key: seen.get(key, 0.0) for key in keys}

    def age(self, key: Hashable) -> float:
        """Give the age in seconds of a thing of the last look."""
        return (self._seen or {})[key]


class Elapsed:
    """How much time to count between two looks; the first counts none.

    :param clock: seconds, by a clock that no step of the wall clock moves.
    """

    def __init__(self, clock: Callable[[], float]):
        self._clock = clock
        self._last: float | None = None

    def look(self, interval: float) -> float:
        """Give the seconds to count since the look before.

        More than twice the interval means that nobody was looking.

        :param interval: seconds between two looks.
        """
        now = self._clock()
        since = 0.0 if self._last is None else now - self._last
        self._last = now
        return min(since, 2 * interval)

    def forget(self) -> None:
        """Count nothing at the next look: this one saw nothing."""
        self._last = None


class Reaper:
    """Looks for what got stuck; one call of :meth:`look` an interval."""

    def __init__(self, conf: cfg.ConfigOpts,
                 clock: Callable[[], float] = time.monotonic,
                 also: Sequence[Callable[[float], None]] = ()):
        """Take what else is to be looked at.

        :param also: each is called with the seconds to count since the
            look before.
        """
        self._conf = conf
        self._also = also
        self._elapsed = Elapsed(clock)
        self._transitions = Watch()
        self._freezes = Watch()

    def look(self) -> None:
        """Give up what has stood still for too long."""
        elapsed = self._elapsed.look(self._conf.conductor.reap_interval)
        try:
            self._reap_transitions(elapsed)
            self._reap_freezes(elapsed)
            for reap in self._also:
                reap(elapsed)
        except exceptions.ServiceUnavailable as exc:
            self._elapsed.forget()
            LOG.warning('Nothing was reaped: %s', exc)

    def _reap_transitions(self, elapsed: float) -> None:
        rows = reaping.in_transition()
        limit = self._conf.conductor.transition_timeout
        work = compute.longest_work(self._conf)
        ages: dict[Hashable, float] = {
            (row['uuid'], row['task_request_id']):
            before(row['task_started_at'], limit, work) for row in rows}
        self._transitions.look(ages, elapsed, ages)
        for row in rows:
            age = self._transitions.age((row['uuid'],
                                         row['task_request_id']))
            if age < limit:
                continue
            message = (
                'Given up: the compute worker of the server did not report '
                f'within {limit:g} s how this ended. If the guest was '
                'frozen, it is thawed at its deadline. An administrator has '
                'to see that the worker runs, then to reset the state of '
                'the server.')
            if reaping.give_up(row['uuid'], row['task_request_id'],
                               row['host'], message):
                LOG.error('Server %s on host %s: %s of request %s given up '
                          'after %.0f s without a report', row['uuid'],
                          row['host'], row['task_action'],
                          row['task_request_id'], age)

    def _reap_freezes(self, elapsed: float) -> None:
        rows = reaping.standing_freezes()
        self._freezes.look(
            [(row['uuid'], row['freeze_id']) for row in rows], elapsed)
        for row in rows:
            timeout = row['timeout'] or self._conf.quiesce.max_timeout
            age = self._freezes.age((row['uuid'], row['freeze_id']))
            if age < timeout + self._conf.conductor.overdue_grace:
                continue
            message = (
                f'The freeze is over: its deadline of {timeout:g} s has '
                'passed, and the compute worker of the server did not '
                'report. The guard on its host thaws without the worker. A '
                'snapshot that was not complete by the deadline is not '
                'consistent.')
            if reaping.end_unreported(
                    row['uuid'], row['freeze_id'],
                    oslo_context.generate_request_id(), message):
                LOG.warning('Server %s on host %s: freeze %s ended without a '
                            'report, %.0f s after it was seen first',
                            row['uuid'], row['host'], row['freeze_id'], age)
