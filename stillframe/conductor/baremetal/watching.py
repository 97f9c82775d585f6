# SPDX-License-Identifier: Apache-2.0
"""Snapshots that wait: progress, and silence.

How long a node has been silent is counted here, by a clock that no step of
the wall clock moves, and only while this conductor looked and the database
answered; see :mod:`stillframe.conductor.reaper`. A heartbeat counts, and so
does a byte of the image.
"""

from collections.abc import Callable
from collections.abc import Mapping
import time
from typing import Any

from oslo_log import log

from stillframe import exceptions
from stillframe.conductor import reaper
from stillframe.conductor.baremetal import following
from stillframe.conductor.baremetal import tasks
from stillframe.conductor.receiver import errors
from stillframe.db import node_moves
from stillframe.db import node_snapshots
from stillframe.states import nodes as states
from stillframe.states import transfers

LOG = log.getLogger(__name__)


class Watcher:
    """Looks at the snapshots of this conductor; one call an interval."""

    def __init__(self, tools: tasks.Tools,
                 clock: Callable[[], float] = time.monotonic):
        self._tools = tools
        self._elapsed = reaper.Elapsed(clock)
        self._silent = reaper.Watch()
        self._stalled = reaper.Watch()

    def look(self) -> None:
        """Note progress, and give up what was silent for too long."""
        # Under load, a look may take longer than the short interval.
        elapsed = self._elapsed.look(
            max(self._tools.conf.baremetal.watch_interval, 1.0))
        try:
            self._look(elapsed)
        except exceptions.ServiceUnavailable as exc:
            self._elapsed.forget()
            LOG.warning('No snapshot was looked at: %s', exc)

    def _look(self, elapsed: float) -> None:
        nodes = {row['snapshot_id']: row for row in
                 node_moves.in_states([states.SNAPSHOT_WAIT])
                 if not row['maintenance']}
        rows = [row for row in node_snapshots.watch_many(nodes).values()
                if row['conductor'] == self._tools.host]
        # What a transfer says is more recent than its row.
        seen = {row['uuid']: self._progress(nodes[row['uuid']], row)
                for row in rows}
        self._silent.look([self._sign(nodes[row['uuid']], row, seen)
                           for row in rows], elapsed)
        self._stalled.look([(row['uuid'], row['phase'], seen[row['uuid']])
                            for row in rows], elapsed)
        for row in rows:
            reason = self._too_long(nodes[row['uuid']], row, seen)
            if reason is not None:
                self._give_up(nodes[row['uuid']], reason)

    @staticmethod
    def _sign(node: Mapping[Any, Any], row: Mapping[Any, Any],
              seen: Mapping[str, int]) -> tuple[Any, ...]:
        return (row['uuid'], row['phase'], node['agent_last_heartbeat'],
                seen[row['uuid']])

    def _too_long(self, node: Mapping[Any, Any], row: Mapping[Any, Any],
                  seen: Mapping[str, int]) -> str | None:
        """Say for how long nothing came, if it is too long."""
        group = self._tools.conf.baremetal
        silent = self._silent.age(self._sign(node, row, seen))
        if row['phase'] == states.Phase.BOOTING:
            if silent >= group.boot_timeout:
                return ('The agent in the ramdisk gave no sign of life '
                        f'within {group.boot_timeout:g} s. Look at the '
                        "node's console: did it boot the ramdisk, and can "
                        'that reach the API?')
            return None
        if silent >= group.silence_timeout:
            return ('The agent in the ramdisk was silent, and no byte of '
                    f'the image came, for {group.silence_timeout:g} s.')
        stalled = self._stalled.age((row['uuid'], row['phase'],
                                     seen[row['uuid']]))
        if stalled >= group.stall_timeout:
            return ('The agent in the ramdisk reports, but no byte of the '
                    f'image came for {group.stall_timeout:g} s.')
        return None

    def _progress(self, node: Mapping[Any, Any],
                  row: Mapping[Any, Any]) -> int:
        """Note how far a transfer is; give its bytes."""
        if row['phase'] != states.Phase.STREAMING:
            return row['bytes_done']
        uuid = row['uuid']
        try:
            received = self._tools.receiver.progress(uuid)
        except errors.UnknownTransfer:
            # The agent will say what became of it.
            return row['bytes_done']
        except errors.ReceiverError as exc:
            # Its silence counts on, and the others are looked at.
            LOG.warning('Snapshot %s: how far it is cannot be told: %s',
                        uuid, exc)
            return row['bytes_done']
        if (received.bytes, received.total) != (row['bytes_done'],
                                                row['bytes_total']):
            node_snapshots.write(uuid, {
                'bytes_done': received.bytes, 'rate': received.rate,
                'bytes_total': received.total})
        # Neither has to wait for a heartbeat: all of it is here; or it is
        # an interface whose machine reports to nobody.
        if (received.state in transfers.HELD and not received.receiving
                or node['agent_url'] is None):
            self._tools.follow(
                node['uuid'], 'look at the snapshot', lambda:
                following.follow(self._tools, node['uuid']))
        return received.bytes

    def _give_up(self, node: Mapping[Any, Any], reason: str) -> None:
        tools = self._tools
        tools.do(node['uuid'], 'give up the snapshot', lambda:
                 following.give_up(tools, node['uuid'], node['snapshot_id'],
                                   reason))
