# SPDX-License-Identifier: Apache-2.0
"""Finding out which node this machine is."""

from collections.abc import Callable
import dataclasses
import logging
import random
import time
from typing import Any

from stillframe.agent import addresses
from stillframe.agent import api as bare_metal

LOG = logging.getLogger(__name__)

#: What the API shows for a token that was given out before.
TAKEN = '******'

_LONGEST_WAIT = 60.0
_SHORTEST_TOKEN = 32
# A locked node: others wait for the same lock, so more each time.
_LOCKED = (5.0, 10.0, 30.0)


class NotFound(Exception):
    """No node was found in time; the text has the last reason."""


class Ended(Exception):
    """The agent was told to end meanwhile."""


@dataclasses.dataclass(frozen=True)
class Identity:
    """Who this machine is.

    :ivar version: newest microversion of the API.
    :ivar node: as the lookup shows it.
    :ivar heartbeat_timeout: seconds of silence after which the API gives
        this agent up.
    :ivar token: as the API gave it; None when it gave none.
    :ivar token_taken: the API gave the token to somebody before.
    """

    version: tuple[int, int]
    node: dict[str, Any]
    heartbeat_timeout: float
    token: str | None = dataclasses.field(repr=False)
    token_taken: bool = False

    @property
    def uuid(self) -> str:
        """UUID of the node."""
        return self.node['uuid']


def _identity(version: tuple[int, int], found: dict[str, Any]) -> Identity:
    config = found['config']
    token = config.get('agent_token')
    taken = token == TAKEN
    if not isinstance(token, str) or len(token) < _SHORTEST_TOKEN:
        token = None
    return Identity(version, found['node'],
                    float(config['heartbeat_timeout']), token, taken)


class Lookup:
    """Asks until it is told, within bounds."""

    def __init__(self, api: bare_metal.Api,
                 wait: Callable[[float], bool], timeout: float,
                 interval: float,
                 macs: Callable[[], list[str]] = addresses.macs,
                 clock: Callable[[], float] = time.monotonic):
        """Prepare to ask.

        :param wait: waits so many seconds; false when the agent is to end.
        :param timeout: seconds until giving up.
        :param interval: seconds of the shortest wait.
        :param macs: finds the addresses of this machine's cards, anew each
            time: drivers may still be loading.
        """
        self._api = api
        self._wait = wait
        self._timeout = timeout
        self._interval = interval
        self._macs = macs
        self._clock = clock
        self._locked = 0
        self._tries = 0

    def run(self) -> Identity:
        """Ask until the API knows this machine.

        :raises NotFound: time is up.
        :raises Ended: the agent is to end.
        """
        give_up = self._clock() + self._timeout
        while True:
            try:
                return self._ask()
            except (bare_metal.Unreachable, bare_metal.Refused) as exc:
                pause = self._pause(exc)
                left = give_up - self._clock()
                if left <= 0:
                    raise NotFound(
                        f'Looking this machine up failed for '
                        f'{self._timeout:g} s, lastly with: {exc}') from exc
                LOG.warning('lookup: %s; asking again in %.1f s', exc,
                            min(pause, left))
                if not self._wait(min(pause, left)):
                    raise Ended from exc

    def _ask(self) -> Identity:
        macs = self._macs()
        if not macs:
            raise bare_metal.Unreachable('no network card is there yet')
        version = self._api.version()
        return _identity(version, self._api.lookup(version, macs))

    def _pause(self, exc: Exception) -> float:
        if isinstance(exc, bare_metal.Refused) and exc.status == 409:
            self._locked += 1
            return _LOCKED[min(self._locked, len(_LOCKED)) - 1]
        self._locked = 0
        self._tries += 1
        # Many machines may have been powered on in one moment.
        longest = min(_LONGEST_WAIT,
                      self._interval * 2 ** min(self._tries, 16))
        return random.uniform(self._interval, max(longest, self._interval))
