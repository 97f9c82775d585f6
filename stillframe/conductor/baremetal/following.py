# SPDX-License-Identifier: Apache-2.0
"""A snapshot under way: what a sign of life of its agent leads to."""

from oslo_log import log
import sqlalchemy as sa

from stillframe.conductor.baremetal import finishing
from stillframe.conductor.baremetal import ordering
from stillframe.conductor.baremetal import restoring
from stillframe.conductor.baremetal import tasks
from stillframe.conductor.receiver import errors as receiver_errors
from stillframe.db import node_moves
from stillframe.db import node_snapshots
from stillframe.db import nodes
from stillframe.drivers import base as drivers
from stillframe.drivers import errors
from stillframe.states import nodes as states

LOG = log.getLogger(__name__)


def follow(tools: tasks.Tools, uuid: str) -> None:
    """Do what is next for a node that waits; nothing if it does not.

    :raises ServiceUnavailable: the database cannot be reached.
    """
    snapshot = node_snapshots.current(uuid)
    if (snapshot is None or snapshot['provision_state'] not in states.WAITING
            or snapshot['reservation'] is not None
            or snapshot['maintenance']):
        return
    if snapshot['conductor'] != tools.host:
        # It was routed here by an older sight of who is alive; recovery
        # decides what becomes of it.
        LOG.info('Node %s: its snapshot is with conductor %s', uuid,
                 snapshot['conductor'])
        return
    if snapshot['phase'] == states.Phase.BOOTING:
        task = resume(tools, uuid)
        if task is not None:
            tools.do(uuid, 'order the image', lambda: ordering.order(task))
    elif (snapshot['phase'] == states.Phase.STREAMING
            and not _arrives(tools, snapshot)):
        _poll(tools, nodes.get(uuid), snapshot)


def resume(tools: tasks.Tools, uuid: str) -> tasks.Task | None:
    """Take a node out of waiting.

    :return: None when somebody else was faster.
    """
    taken = node_moves.reserve(uuid, tools.host, states.SNAPSHOT_WAIT)
    if taken is None:
        return None
    task = tasks.Task(tools, taken)
    task.move('resume')
    return task


def _arrives(tools: tasks.Tools, snapshot: sa.RowMapping) -> bool:
    """Tell whether the image is arriving at this moment.

    Then its agent has nothing to tell, and may be too busy to answer. The
    watcher comes back when all is here, a heartbeat when it breaks off.
    """
    try:
        return tools.receiver.progress(snapshot['uuid']).receiving
    except receiver_errors.UnknownTransfer:
        return False
    except receiver_errors.ReceiverError as exc:
        LOG.warning('Node %s: how far its image is cannot be told: %s',
                    snapshot['node_uuid'], exc)
        return False


def _poll(tools: tasks.Tools, node: sa.RowMapping,
          snapshot: sa.RowMapping) -> None:
    # Nothing is written here unless the work has ended.
    view = tasks.Task(tools, node)
    try:
        found = view.hardware().snapshot.poll(view.for_driver(),
                                              snapshot['command_id'])
    except errors.DriverError as exc:
        if exc.transient:
            # Silence is measured elsewhere.
            LOG.info('Node %s: %s', node['uuid'], exc)
            return
        found = drivers.Failed(exc.message)
    if isinstance(found, drivers.Progress):
        return
    if isinstance(found, drivers.Done):
        # First this: whoever is killed behind it has all that is needed to
        # go on from. When it was aborted just now nothing is written, and
        # there is nothing to resume.
        view.note(result=dict(found.result), disk=found.result.get('disk'))
    task = resume(tools, node['uuid'])
    if task is None:
        return
    if isinstance(found, drivers.Failed):
        reason = found.reason
        tools.do(task.uuid, 'end the snapshot',
                 lambda: restoring.fail(task, reason))
        return
    tools.do(task.uuid, 'finish', lambda: finishing.finish(task))


def give_up(tools: tasks.Tools, uuid: str, snapshot_id: str,
            reason: str) -> None:
    """End the snapshot of a node that waits in vain.

    :param snapshot_id: of the snapshot; the node may have come to another
        one since that was found out.
    :param reason: a sentence for users.
    """
    if nodes.get(uuid)['snapshot_id'] != snapshot_id:
        return
    task = resume(tools, uuid)
    if task is not None:
        restoring.fail(task, reason)
