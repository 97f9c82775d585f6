# SPDX-License-Identifier: Apache-2.0
"""Which conductor looks after a node.

A hash ring over the conductors that are alive, serve the node's conductor
group and have its driver. When one dies, its nodes go to others and no
other node moves.
"""

from collections.abc import Callable
from collections.abc import Mapping
import threading
import time
from typing import Any

from oslo_config import cfg
import sqlalchemy as sa
from tooz import hashring

from stillframe import exceptions
from stillframe.db import liveness
from stillframe.db import services

#: Keys of a conductor's capabilities: names of hardware types, and of
#: conductor groups.
DRIVERS = 'drivers'
GROUPS = 'groups'

# Points of one conductor on a ring: enough for an even share.
_PARTITIONS = 6


class NoConductor(exceptions.BadRequest):
    """No conductor that is alive can have the node."""

    template = ('No valid host was found. Reason: No conductor service '
                'registered which supports driver {driver} for conductor '
                'group "{group}".')
    code = 'stillframe.no_conductor'


class Ring:
    """Remembers for some seconds who is alive; one object a process."""

    def __init__(self, conf: cfg.ConfigOpts,
                 clock: Callable[[], float] = time.monotonic):
        self._conf = conf
        self._clock = clock
        self._liveness = liveness.Liveness(conf.api.service_down_time)
        self._lock = threading.Lock()
        self._until = 0.0
        self._generation = 0
        self._alive: dict[str, sa.RowMapping] = {}
        self._rings: dict[tuple[str, str], hashring.HashRing] = {}

    def conductor_for(self, node: Mapping[Any, Any],
                      snapshot: Mapping[Any, Any] | None = None) -> str:
        """Give the host of the conductor that looks after a node.

        :param node: with uuid, driver and conductor_group.
        :param snapshot: of the node, under way: whoever has its file keeps
            it, wherever the ring would put the node, while it is alive.
        :raises NoConductor: there is none.
        :raises ServiceUnavailable: the database cannot be reached.
        """
        if (snapshot is not None and snapshot['finished_at'] is None
                and snapshot['conductor'] in self.alive()):
            return snapshot['conductor']
        group = node['conductor_group']
        ring = self._get(group, node['driver'])
        if not ring.nodes:
            raise NoConductor(driver=node['driver'], group=group)
        if len(ring.nodes) == 1:
            # Every node's, without working out its place on the ring.
            return next(iter(ring.nodes))
        return next(iter(ring.get_nodes(node['uuid'].encode())))

    def generation(self) -> int:
        """Give a number that is another when nodes may have moved.

        :raises ServiceUnavailable: the database cannot be reached.
        """
        self._look()
        return self._generation

    def alive(self) -> set[str]:
        """Give the hosts of the conductors that are alive.

        :raises ServiceUnavailable: the database cannot be reached.
        """
        return set(self._look())

    def drivers(self) -> dict[str, list[str]]:
        """Give the hosts that have each hardware type, among the living.

        :raises ServiceUnavailable: the database cannot be reached.
        """
        found: dict[str, list[str]] = {}
        for host, row in sorted(self._look().items()):
            for driver in row['capabilities'].get(DRIVERS, ()):
                found.setdefault(driver, []).append(host)
        return found

    def refresh(self) -> None:
        """Look anew at the next use.

        For when a conductor did not take what was sent to it.
        """
        with self._lock:
            self._until = 0.0

    def _look(self) -> dict[str, sa.RowMapping]:
        with self._lock:
            if self._clock() >= self._until:
                rows = services.list_all(binary=services.CONDUCTOR)
                alive = {row['host']: row for row in rows
                         if self._liveness.is_up(row)}
                if _of(alive) != _of(self._alive):
                    self._rings = {}
                    self._generation += 1
                self._alive = alive
                self._until = (self._clock()
                               + self._conf.baremetal.ring_interval)
            return self._alive

    def _get(self, group: str, driver: str) -> hashring.HashRing:
        alive = self._look()
        with self._lock:
            ring = self._rings.get((group, driver))
            if ring is None:
                ring = hashring.HashRing(
                    sorted(host for host, row in alive.items()
                           if driver in row['capabilities'].get(DRIVERS, ())
                           and group in row['capabilities'].get(GROUPS, ())
                           ), partitions=2 ** _PARTITIONS)
                self._rings[group, driver] = ring
            return ring


def _of(alive: Mapping[str, sa.RowMapping]) -> dict[str, Any]:
    return {host: row['capabilities'] for host, row in alive.items()}
