# SPDX-License-Identifier: Apache-2.0
"""Saying again and again what goes wrong again and again, but not too often.

For what is tried for as long as the process lives, such as a hypervisor
that is not there and need not be.
"""

from collections.abc import Callable
import logging

from stillframe.compute import clock

# Seconds for which a reason that was said is not said again.
_QUIET = 600.0


class Complaints:
    """What went wrong since it last went well."""

    def __init__(self, now: Callable[[], float] = clock.now):
        """Take a clock.

        :param now: gives seconds.
        """
        self._now = now
        self._since: float | None = None
        self._said: dict[str, float] = {}

    def level(self, reason: str) -> int:
        """Take in that it went wrong.

        :param reason: as it is to be logged.
        :return: the level at which to log it: ERROR when this reason was
            not said for ten minutes, else DEBUG.
        """
        now = self._now()
        if self._since is None:
            self._since = now
        self._said = {one: said for one, said in self._said.items()
                      if now - said < _QUIET}
        if reason in self._said:
            return logging.DEBUG
        self._said[reason] = now
        return logging.ERROR

    def over(self) -> float | None:
        """Take in that it went well.

        :return: seconds since it went wrong first; None if it had not.
        """
        since, self._since = self._since, None
        self._said = {}
        return None if since is None else self._now() - since
