# SPDX-License-Identifier: Apache-2.0
"""Taking up what a conductor left behind, this one or another.

Whoever is killed leaves a node reserved in its name, or a snapshot that
waits for it. A restarted conductor finds its own at once. Those of one that
is seen not to be alive for a while are taken by the one that the hash ring
names; the database lets one through.
"""

from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
import functools
import time

from oslo_log import log
import sqlalchemy as sa

from stillframe import exceptions
from stillframe.conductor import reaper
from stillframe.conductor.baremetal import finishing
from stillframe.conductor.baremetal import following
from stillframe.conductor.baremetal import powering
from stillframe.conductor.baremetal import provisioning
from stillframe.conductor.baremetal import restoring
from stillframe.conductor.baremetal import tasks
from stillframe.db import node_moves
from stillframe.db import node_snapshots
from stillframe.states import nodes as states

LOG = log.getLogger(__name__)

# How often the same work is taken up before its node is let go as it is.
_ATTEMPTS = 5


class Recovery:
    """Looks for what was left behind; one call an interval."""

    def __init__(self, tools: tasks.Tools,
                 clock: Callable[[], float] = time.monotonic):
        self._tools = tools
        self._elapsed = reaper.Elapsed(clock)
        self._idle = reaper.Watch()
        self._dead = reaper.Watch()
        self._tries: dict[tuple[str, str, str | None], int] = {}

    def look(self, at_start: bool = False) -> None:
        """Take up what nobody works on.

        :param at_start: nothing that is reserved for this conductor can be
            in its hands yet.
        """
        elapsed = self._elapsed.look(
            self._tools.conf.conductor.reap_interval)
        try:
            rows = node_moves.reserved()
            waiting = node_moves.in_states(sorted(states.WAITING))
            snapshots = node_snapshots.watch_many(
                row['snapshot_id'] for row in waiting)
            gone = self._gone(
                {row['reservation'] for row in rows}
                | {row['conductor'] for row in snapshots.values()}, elapsed)
            self._reserved(rows, gone, elapsed, at_start)
            self._unreserved(waiting, snapshots, gone)
        except exceptions.ServiceUnavailable as exc:
            self._elapsed.forget()
            LOG.warning('Nothing was taken up: %s', exc)

    def _gone(self, hosts: set[str], elapsed: float) -> set[str]:
        """Give those of some hosts whose conductors are not alive.

        Who looks for the first time, or for the first time after a pause,
        has only wall clocks to judge others by. If his own is wrong they
        all look dead, and their nodes his. So each gets the time to report
        once more.
        """
        tools = self._tools
        dead = hosts - tools.ring.alive() - {tools.host}
        self._dead.look(dead, elapsed)
        limit = tools.conf.api.service_down_time
        return {one for one in dead if self._dead.age(one) >= limit}

    def _reserved(self, rows: Sequence[sa.RowMapping], gone: set[str],
                  elapsed: float, at_start: bool) -> None:
        tools = self._tools
        # What came to an end since is forgotten.
        keys = {_key(row) for row in rows}
        self._tries = {key: count for key, count in self._tries.items()
                       if key in keys}
        mine = [row for row in rows if row['reservation'] == tools.host]
        idle = [row for row in mine if not tools.has(row['uuid'])]
        self._idle.look([_key(row) for row in idle], elapsed)
        limit = tools.conf.baremetal.handover_timeout
        for row in idle:
            if at_start or self._idle.age(_key(row)) >= limit:
                taken = node_moves.reserve(
                    row['uuid'], tools.host, row['provision_state'],
                    instead_of=tools.host)
                if taken is not None:
                    self._take_up(taken, tools.host)
        for row in rows:
            if row['reservation'] in gone and self._tools.is_ours(row):
                taken = node_moves.reserve(
                    row['uuid'], tools.host, row['provision_state'],
                    instead_of=row['reservation'])
                if taken is not None:
                    self._take_up(taken, row['reservation'])

    def _unreserved(self, waiting: Sequence[sa.RowMapping],
                    snapshots: Mapping[str, sa.RowMapping],
                    gone: set[str]) -> None:
        tools = self._tools
        for row in waiting:
            snapshot = snapshots[row['snapshot_id']]
            was = snapshot['conductor']
            if was not in gone or not self._tools.is_ours(row):
                continue
            if snapshot['phase'] == states.Phase.BOOTING:
                if node_snapshots.take_over(snapshot['uuid'], tools.host,
                                            was):
                    LOG.warning('Node %s: its snapshot is taken over from '
                                'conductor %s, which is not alive',
                                row['uuid'], was)
            else:
                self._submit(row, functools.partial(
                    following.give_up, tools, row['uuid'],
                    row['snapshot_id'],
                    f'The conductor {was}, which was receiving the image, '
                    'is not alive.'))
        for row in node_moves.in_states(sorted(states.WORKING)):
            if self._tools.is_ours(row):
                taken = node_moves.reserve(row['uuid'], tools.host,
                                           row['provision_state'])
                if taken is not None:
                    self._take_up(taken, None)

    def _submit(self, row: sa.RowMapping, job: Callable[[], None]) -> None:
        self._tools.do(row['uuid'], 'take up what was left', job)

    def _take_up(self, row: sa.RowMapping, was: str | None) -> None:
        """Go on with a node that is reserved for this conductor now."""
        LOG.warning('Node %s, %s, is taken up: conductor %s left it '
                    'behind', row['uuid'], row['provision_state'], was)
        key = _key(row)
        self._tries[key] = self._tries.get(key, 0) + 1
        task = tasks.Task(self._tools, row)
        if self._tries[key] > _ATTEMPTS:
            self._submit(row, lambda: _let_go(task))
        else:
            self._submit(row, lambda: recover(task, was))


def _key(row: sa.RowMapping) -> tuple[str, str, str | None]:
    return (row['uuid'], row['provision_state'], row['snapshot_id'])


def recover(task: tasks.Task, was: str | None) -> None:
    """Bring a node on whose work was left behind, and let go of it.

    :param was: the conductor that left it.
    :raises LostNode: the node is no longer this conductor's.
    :raises Stopping: this process is to end.
    """
    if task.state == states.SNAPSHOTTING:
        _recover_snapshot(task, was)
    elif task.state in states.WORKING:
        provisioning.act(task)
    elif task.state == states.SNAPSHOT_FAILED and _is_open(task):
        restoring.end(task)
    elif task.node['target_power_state'] is not None:
        powering.give_up(task, f'The conductor {was} was interrupted while '
                         'it changed the power state.')
    else:
        task.release()


def _is_open(task: tasks.Task) -> bool:
    return (task.node['snapshot_id'] is not None
            and task.snapshot()['finished_at'] is None)


def _recover_snapshot(task: tasks.Task, was: str | None) -> None:
    row = task.snapshot()
    if row['outcome'] is not None:
        restoring.end(task)
    elif row['result'] is None:
        restoring.fail(task, f'The conductor {was} was interrupted while '
                       f'it worked on the snapshot ({row["phase"]}).')
    elif row['conductor'] == task.tools.host:
        finishing.finish(task)
    else:
        finishing.conclude(task, row['conductor'])


def _let_go(task: tasks.Task) -> None:
    """Let go of a node with which nothing works, as it is.

    :raises LostNode: the node is no longer this conductor's.
    """
    reason = ('It was tried several times to end what was being done with '
              "the node, and each time something unexpected happened; the "
              "conductor's log says what. Look at its power state and boot "
              'device.')
    LOG.error('Node %s is let go as it is, from %s', task.uuid, task.state)
    end = (states.Outcome.FAILED, reason) if (
        task.node['snapshot_id'] is not None) else None
    if task.state in states.WORKING:
        task.move('fail', release=True, end=end, last_error=reason)
    else:
        task.release(end=end, last_error=reason)
