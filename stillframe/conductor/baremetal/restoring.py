# SPDX-License-Identifier: Apache-2.0
"""Giving a node back what it had before its snapshot, and ending that.

What a node was like is in the row of its snapshot ("original"), with the
stage that was reached: written down before each step that it is about, so
whoever takes over knows what may have been touched.
"""

from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
import contextlib
from typing import Any

from oslo_log import log

from stillframe import exceptions
from stillframe.conductor.baremetal import powering
from stillframe.conductor.baremetal import tasks
from stillframe.db import base
from stillframe.db import node_agents
from stillframe.db import node_moves
from stillframe.db import node_snapshots
from stillframe.drivers import errors
from stillframe.states import nodes as states
from stillframe.states import power

LOG = log.getLogger(__name__)

#: Stages: nothing was touched; the guest may have been told to stop, or
#: stopped; the ramdisk may have been prepared and booted; all of it is as
#: it was.
NOTED = 'noted'
STOPPING = 'stopping'
BOOTING = 'booting'
RESTORED = 'restored'


def settle(task: tasks.Task, outcome: str, reason: str | None) -> None:
    """Decide the outcome of a node's snapshot; one that stands stays."""
    node_snapshots.settle(task.node['snapshot_id'], outcome, reason)


@contextlib.contextmanager
def failing(task: tasks.Task) -> Iterator[None]:
    """Have a snapshot fail when what is done for it does.

    What ends because this process does, or because the database does not
    answer, is left as it is: recovery comes back to it.

    :param task: of a node in state snapshotting.
    :raises LostNode: the node is no longer this conductor's.
    :raises Stopping: this process is to end.
    :raises ServiceUnavailable: the database cannot be reached.
    """
    try:
        yield
    except (tasks.Stopping, node_moves.LostNode):
        raise
    except exceptions.StillframeError as exc:
        task.check()
        if (isinstance(exc, exceptions.ServiceUnavailable)
                and exc.kwargs.get('service') == base.SERVICE):
            raise
        fail(task, exc.message)
    except Exception:  # noqa: BLE001
        # Whatever it was, the machine gets its own power and boot device
        # back, and its user a reason.
        LOG.exception('Node %s: its snapshot failed', task.uuid)
        fail(task, 'Something unexpected happened in the conductor; its log '
             'says what.')


def fail(task: tasks.Task, reason: str) -> None:
    """End a snapshot that failed: put everything back, then say so.

    :param task: of a node in state snapshotting.
    :param reason: a sentence for users.
    :raises LostNode: the node is no longer this conductor's.
    :raises Stopping: this process is to end.
    """
    LOG.error('Node %s: its snapshot failed: %s', task.uuid, reason)
    settle(task, states.Outcome.FAILED, reason)
    end(task)


def end(task: tasks.Task) -> None:
    """End a snapshot whose outcome is decided, and let go of the node.

    :param task: of a node in state snapshotting, or snapshot failed.
    :raises LostNode: the node is no longer this conductor's.
    :raises Stopping: this process is to end.
    """
    left = put_back(task)
    row = task.snapshot()
    reason = sentence(row['reason'], left)
    finish = (row['outcome'], reason)
    if task.state != states.SNAPSHOTTING:
        task.release(end=finish, last_error=reason)
    elif row['outcome'] == states.Outcome.DONE and not left:
        task.move('done', release=True, end=finish, last_error=None)
    else:
        if row['outcome'] == states.Outcome.DONE:
            reason = f'The image is complete. {reason}'
        task.move('fail', release=True, end=finish, last_error=reason)


def sentence(reason: str | None, left: list[str]) -> str | None:
    """Say why a snapshot ended, and what could not be put back."""
    if not left:
        return reason
    also = ('What the snapshot changed could not be put back: '
            + ' '.join(left))
    return f'{reason} {also}' if reason else also


def put_back(task: tasks.Task) -> list[str]:
    """Drop what is left of a transfer, and restore a node.

    The agent's work is stopped, its credential and the partial file are
    dropped, the boot device and the power are as they were.

    :return: a sentence for each thing that could not be put back.
    :raises LostNode: the node is no longer this conductor's.
    :raises Stopping: this process is to end.
    """
    task.hold()
    row = task.snapshot()
    left: list[str] = []

    def step(what: str, call: Callable[[], Any]) -> None:
        try:
            task.again(what, call)
        except errors.DriverError as exc:
            LOG.error('Node %s: %s: %s', task.uuid, what, exc)
            left.append(exc.message)

    _drop_transfer(task, row, left)
    original = row['original']
    if original is not None and original['stage'] not in (NOTED, RESTORED):
        before = len(left)
        # Something else may be booted by mistake as long as it is on.
        if original['stage'] == STOPPING:
            step('to be switched off', lambda: powering.stop_guest(task))
        else:
            step('to be switched off',
                 lambda: powering.switch(task, power.POWER_OFF))
            step('to forget the ramdisk',
                 lambda: task.hardware().boot.clean_up_ramdisk(
                     task.for_driver()))
            step('to boot from its own device',
                 lambda: _restore_boot_device(task, original))
        if original['power_state'] == power.POWER_ON:
            step('to be switched on',
                 lambda: powering.switch(task, power.POWER_ON))
        if len(left) == before:
            # Its outcome is decided, and no bar to this.
            node_snapshots.restored(row['uuid'],
                                    {**original, 'stage': RESTORED})
    task.tools.tokens.pop(task.uuid, None)
    task.write(**node_agents.UNKNOWN)
    return left


def _restore_boot_device(task: tasks.Task,
                         original: Mapping[str, Any]) -> None:
    hardware = task.hardware()
    # What conductors of earlier versions wrote does not have it.
    if original.get('own_order'):
        hardware.management.follow_own_order(task.for_driver())
        return
    if original['boot_device'] is None:
        hardware.boot.prepare_instance(task.for_driver())
        return
    hardware.management.set_boot_device(
        task.for_driver(), original['boot_device'],
        persistent=original['persistent'] is not False)


def _drop_transfer(task: tasks.Task, row: Mapping[Any, Any],
                   left: list[str]) -> None:
    try:
        task.tools.receiver.close(row['uuid'])
    except exceptions.ServiceUnavailable:
        raise
    except exceptions.StillframeError as exc:
        # The receiver's own sweep tries it again.
        LOG.error('Snapshot %s: %s', row['uuid'], exc)
        left.append(exc.message)
    if row['command_id'] is None:
        return
    try:
        task.hardware().snapshot.stop(task.for_driver(), row['command_id'])
    except errors.DriverError as exc:
        # Its machine is switched off next.
        LOG.info('Node %s: its agent was not told to stop: %s', task.uuid,
                 exc)
