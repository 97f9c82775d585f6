# SPDX-License-Identifier: Apache-2.0
"""A node that this conductor has reserved, and what all work on nodes needs.

A task sees the node as it is in the database, writes to it under the
condition that it still has it reserved, and gives drivers what they read.
"""

import collections
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
import contextlib
import dataclasses
import threading
from typing import Any
from typing import TypeVar

from oslo_config import cfg
from oslo_log import log
import sqlalchemy as sa

from stillframe import exceptions
from stillframe.conductor import receiver as receivers
from stillframe.conductor.baremetal import upload
from stillframe.conductor.baremetal import workers
from stillframe.db import node_moves
from stillframe.db import node_snapshots
from stillframe.db import nodes
from stillframe.db import ring
from stillframe.drivers import base as drivers
from stillframe.drivers import errors
from stillframe.drivers import factory

LOG = log.getLogger(__name__)

_T = TypeVar('_T')


class Stopping(exceptions.StillframeError):
    """This conductor is being stopped; the work is taken up later."""

    template = 'The conductor {host} is being stopped.'
    code = 'stillframe.stopping'


@dataclasses.dataclass
class Tools:
    """What all work on nodes shares; one object a conductor.

    :ivar work: threads for long work.
    :ivar followers: threads for what a heartbeat leads to.
    :ivar tokens: of agents, by node; in memory alone.
    :ivar stopping: set when this process is to end.
    """

    conf: cfg.ConfigOpts
    host: str
    factory: factory.Factory
    receiver: receivers.Receiver
    uploader: upload.Uploader
    ring: ring.Ring
    work: workers.Workers
    followers: workers.Workers
    tokens: dict[str, str] = dataclasses.field(
        default_factory=dict, repr=False)
    stopping: threading.Event = dataclasses.field(
        default_factory=threading.Event)
    _lock: threading.Lock = dataclasses.field(
        default_factory=threading.Lock, init=False, repr=False)
    # Calls that run, by node: no thread of ours is theirs.
    _in_hand: collections.Counter[str] = dataclasses.field(
        default_factory=collections.Counter, init=False, repr=False)

    def do(self, uuid: str, what: str, job: Callable[[], None]) -> None:
        """Have long work done on a node.

        :param what: the kind of work; see :class:`workers.Workers`.
        """
        self.work.submit(uuid, what, lambda: _run(uuid, what, job))

    def follow(self, uuid: str, what: str, job: Callable[[], None]) -> None:
        """Have short work done that a sign of life leads to."""
        self.followers.submit(uuid, what, lambda: _run(uuid, what, job))

    @contextlib.contextmanager
    def in_hand(self, uuid: str) -> Iterator[None]:
        """Say that work on a node runs in the caller's own thread."""
        with self._lock:
            self._in_hand[uuid] += 1
        try:
            yield
        finally:
            with self._lock:
                self._in_hand[uuid] -= 1
                self._in_hand = +self._in_hand

    def is_ours(self, row: sa.RowMapping) -> bool:
        """Tell whether the ring gives a node to this conductor.

        :param row: with ``driver`` and ``conductor_group``.
        """
        try:
            return self.ring.conductor_for(row) == self.host
        except ring.NoConductor:
            return False

    def has(self, uuid: str) -> bool:
        """Tell whether work on a node waits or runs here."""
        with self._lock:
            if uuid in self._in_hand:
                return True
        return self.work.has(uuid) or self.followers.has(uuid)


def _run(uuid: str, what: str, job: Callable[[], None]) -> None:
    """Do work; when it is cut off, recovery comes back to the node."""
    try:
        job()
    except (Stopping, node_moves.LostNode, exceptions.NodeNotFound,
            exceptions.ServiceUnavailable) as exc:
        LOG.warning('Node %s, %s, is let go: %s', uuid, what, exc)


class Task:
    """A node in the hands of this conductor.

    :ivar node: its row as this conductor saw it last.
    """

    def __init__(self, tools: Tools, node: nodes.Node):
        self.tools = tools
        self.node = node

    @property
    def uuid(self) -> str:
        """The node's."""
        return self.node['uuid']

    @property
    def state(self) -> str:
        """The node's provision state."""
        return self.node['provision_state']

    def for_driver(self) -> drivers.Node:
        """Give the node as drivers read it."""
        return {**self.node,
                'agent_token': self.tools.tokens.get(self.uuid)}

    def hardware(self) -> drivers.Hardware:
        """Give the node's interfaces.

        :raises DriverError: they cannot be had here.
        """
        return self.tools.factory.build(self.node)

    def check(self) -> None:
        """See whether to go on.

        :raises Stopping: this process is to end.
        """
        if self.tools.stopping.is_set():
            raise Stopping(host=self.tools.host)

    def hold(self) -> None:
        """See whether to go on, before something is done to the machine.

        A conductor that did not run for a while may have been taken for
        dead. Whoever has the node now has put its machine in order, and no
        BMC can tell the two apart.

        :raises LostNode: the node is no longer this conductor's.
        :raises Stopping: this process is to end.
        """
        self.check()
        if not node_moves.holds(self.node, self.tools.host):
            raise node_moves.LostNode(node=self.uuid, host=self.tools.host,
                                      state=self.state)

    def pause(self, seconds: float) -> None:
        """Wait.

        :raises Stopping: this process is to end.
        """
        self.tools.stopping.wait(seconds)
        self.check()

    def again(self, what: str, call: Callable[[], _T]) -> _T:
        """Call a driver until it succeeds, a few times at most.

        :param what: for the log.
        :raises DriverError: as of the last time.
        :raises LostNode: the node is no longer this conductor's.
        :raises Stopping: this process is to end.
        """
        group = self.tools.conf.baremetal
        for attempt in range(1, group.restore_attempts + 1):
            self.hold()
            try:
                return call()
            except errors.DriverError as exc:
                if attempt == group.restore_attempts:
                    raise
                LOG.warning('Node %s: %s, try %d: %s', self.uuid, what,
                            attempt, exc)
            self.pause(group.retry_wait * 2 ** (attempt - 1))
        raise AssertionError('there is at least one attempt')

    # --- writing ------------------------------------------------------------

    def write(self, **values: Any) -> None:
        """Write to the node's row.

        :raises LostNode: it is no longer this conductor's.
        """
        self.node = node_moves.write(self.node, self.tools.host, values)

    def move(self, event: str, release: bool = False,
             end: node_snapshots.End | None = None, **also: Any) -> None:
        """Move the node; see :func:`stillframe.db.node_moves.move`.

        :raises LostNode: it is no longer this conductor's.
        """
        before = self.state
        self.node = node_moves.move(self.node, self.tools.host, event,
                                    release, also, end)
        LOG.info('Node %s: %s --%s--> %s', self.uuid, before, event,
                 self.state)

    def release(self, end: node_snapshots.End | None = None,
                **values: Any) -> None:
        """Let go of the node.

        :raises LostNode: it is no longer this conductor's.
        """
        self.node = node_moves.release(self.node, self.tools.host, values,
                                       end)

    # --- the snapshot -------------------------------------------------------

    def snapshot(self) -> sa.RowMapping:
        """Give the row of the node's snapshot."""
        return node_snapshots.get(self.node['snapshot_id'])

    def note(self, **values: Any) -> None:
        """Write how far the node's snapshot is; see node_snapshots.write.

        :raises LostNode: somebody else has decided how it ends.
        """
        if not node_snapshots.write(self.node['snapshot_id'], values):
            raise node_moves.LostNode(node=self.uuid, host=self.tools.host,
                                      state=self.state)


def take(tools: Tools, row: sa.RowMapping | None,
         wanted: Mapping[str, Any]) -> Task | None:
    """Take up a node that the API has reserved for this conductor.

    :param row: of the node, read just now.
    :param wanted: what it has to have, by column.
    :return: None when somebody else has dealt with it since.
    :raises LostNode: the API has just taken it back.
    """
    if row is None:
        return None
    wanted = {'reservation': tools.host, **wanted}
    for column, value in wanted.items():
        if row[column] != value:
            LOG.warning('Work on node %s came too late: its %s is %s, not '
                        '%s', row['uuid'], column, row[column], value)
            return None
    task = Task(tools, row)
    # Before anything is done: a request whose hand-over seemed to fail is
    # taken back only as long as nobody has written here.
    task.write()
    return task
