# SPDX-License-Identifier: Apache-2.0
"""Freeze and thaw, as procedures on a guest's agent.

The rule that shapes them: a freeze that failed on the host may still happen
in the guest. An agent that was too slow has the command in its queue and
freezes when it gets to it, with nobody waiting. The channel to the agent
keeps the order, so an *answer* to a question asked after the freeze proves
that the freeze is over and done with, one way or the other. Nothing else
proves it: not an error, not the passing of time.

Nothing here knows libvirt; standard library only: the guard uses this too.
"""

from collections.abc import Callable
import dataclasses
import enum
import threading
from typing import Protocol

from stillframe.compute import clock
from stillframe.compute.libvirt.troubles import AgentTrouble
from stillframe.compute.libvirt.troubles import Trouble


class Status(enum.StrEnum):
    """What an agent says of its guest."""

    FROZEN = 'frozen'
    THAWED = 'thawed'


class Agent(Protocol):
    """What is needed of an agent.

    Every call is bounded and may raise
    :class:`~stillframe.compute.libvirt.troubles.AgentTrouble`; its kind is
    ``gone`` once the domain no longer runs.
    """

    def status(self) -> Status:
        """Ask whether the guest is frozen."""

    def freeze(self, mountpoints: list[str] | None, timeout: float) -> int:
        """Freeze; give the number of file systems frozen."""

    def thaw(self, timeout: float) -> int:
        """Thaw; give the number of file systems thawed."""


class Patience:
    """How long to go on trying, and when to try next.

    Waits grow from ``first`` to ``most`` seconds; an event cuts one short
    and makes the next one short again, since something has changed.
    """

    def __init__(self, seconds: float, wake: threading.Event,
                 first: float = 0.1, most: float = 2.0,
                 given_up: Callable[[], bool] = lambda: False):
        self._given_up = given_up
        self._until = clock.now() + seconds
        self._wake = wake
        self._first = first
        self._most = most
        self._wait = first

    def pause(self) -> bool:
        """Wait for the next try.

        :return: False when the time is over, or it was given up.
        """
        left = self._until - clock.now()
        if left <= 0 or self._given_up():
            return False
        if self._wake.wait(min(self._wait, left)):
            self._wake.clear()
            self._wait = self._first
        else:
            self._wait = min(self._wait * 2, self._most)
        return not self._given_up()


@dataclasses.dataclass(frozen=True)
class Thaw:
    """How a thaw went.

    :ivar before: what the agent said first; None: it never answered.
    :ivar clean: the first thaw call did it, verified at once.
    :ivar verified: the agent said, after everything, that all is thawed.
    :ivar count: file systems thawed; None: unknown.
    :ivar seconds: from the (last) thaw call to its acknowledgement.
    :ivar acknowledged: moment of that acknowledgement.
    :ivar trouble: the last error met, for administrators.
    """

    before: Status | None
    clean: bool
    verified: bool
    count: int | None = None
    seconds: float | None = None
    acknowledged: float | None = None
    trouble: Exception | None = None


class _Attempt:
    """Thawing in progress: what is known so far."""

    def __init__(self, agent: Agent, timeout: float):
        self._agent = agent
        self._timeout = timeout
        self.before: Status | None = None
        self.calls = 0
        self.count: int | None = None
        self.seconds: float | None = None
        self.acknowledged: float | None = None

    def run(self) -> bool:
        """Look, thaw if need be, look again.

        :return: whether the agent said that the guest is thawed.
        :raises AgentTrouble: something did not work; try again.
        """
        status = self._agent.status()
        self.before = self.before or status
        if status is Status.THAWED:
            return True
        self.calls += 1
        called = clock.now()
        count = self._agent.thaw(self._timeout)
        self.acknowledged = clock.now()
        self.seconds = self.acknowledged - called
        self.count = count + (self.count or 0)
        return self._agent.status() is Status.THAWED


def thaw(agent: Agent, timeout: float, patience: Patience) -> Thaw:
    """Thaw until the agent says that the guest is thawed.

    :param timeout: seconds for one thaw call.
    :param patience: when to try again, and when to give up.
    :raises AgentTrouble: of kind ``gone`` only; all else is tried again.
    """
    attempt = _Attempt(agent, timeout)
    trouble: Exception | None = None
    failed_calls = 0
    while True:
        calls = attempt.calls
        try:
            verified = attempt.run()
        except AgentTrouble as exc:
            if exc.kind is Trouble.GONE:
                raise
            verified = False
            trouble = exc
            failed_calls += attempt.calls - calls
        if verified or not patience.pause():
            return Thaw(
                before=attempt.before, verified=verified,
                clean=verified and not failed_calls and attempt.calls <= 1,
                count=attempt.count, seconds=attempt.seconds,
                acknowledged=attempt.acknowledged, trouble=trouble)
