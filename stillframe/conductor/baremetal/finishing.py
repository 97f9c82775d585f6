# SPDX-License-Identifier: Apache-2.0
"""The end of a node's snapshot: its image verified, and where it belongs."""

from collections.abc import Mapping
import time
from typing import Any

from oslo_log import log

from stillframe.clients import images
from stillframe.conductor.baremetal import restoring
from stillframe.conductor.baremetal import tasks
from stillframe.conductor.baremetal import upload
from stillframe.conductor.receiver import errors
from stillframe.conductor.receiver import results
from stillframe.conductor.receiver import verify
from stillframe.db import node_snapshots
from stillframe.states import nodes as states

LOG = log.getLogger(__name__)


def finish(task: tasks.Task) -> None:
    """Verify an image that has arrived, upload it, restore the node.

    All of it can be done again, by the conductor that has the file.

    :param task: of a node in state snapshotting, with the agent's record
        written down.
    :raises LostNode: the node is no longer this conductor's.
    :raises Stopping: this process is to end.
    """
    with restoring.failing(task):
        _finish(task)
        restoring.end(task)


def _finish(task: tasks.Task) -> None:
    row, tools = task.snapshot(), task.tools
    result = row['result']
    # A former life of this conductor may have sent it, or a part of it.
    again = row['phase'] == states.Phase.UPLOADING
    if not again:
        task.note(phase=states.Phase.VERIFYING)
    arrival = tools.receiver.finish(row['uuid'], result)
    virtual_size = result.get('virtual_size')
    disk = result.get('disk')
    disk_size = disk.get('size') if isinstance(disk, dict) else None
    if type(virtual_size) is not int or virtual_size != disk_size:
        raise errors.BadResult(
            reason=f'its disk has {disk_size} bytes and its image '
            f'{virtual_size}')
    verify.verify(
        arrival.path, row['disk_format'], virtual_size,
        lambda: 'the conductor is being stopped'
        if tools.stopping.is_set() else None)
    size = arrival.path.stat().st_size
    task.note(phase=states.Phase.UPLOADING, size=size, bytes_done=0,
              bytes_total=size)
    stored = tools.uploader.send(
        row['image_ref'], arrival.path, row['disk_format'],
        _Sent(task).tell, upload.properties(row['consistency'], disk), again)
    _done(task, stored)


def conclude(task: tasks.Task, was: str) -> None:
    """End a snapshot whose file a conductor had that is not alive.

    That one may have sent all of it, and died before it could say so. The
    agent's record says what the image is: the phase is "uploading" only
    after the file was found to be that.

    :param task: of a node in state snapshotting, with the agent's record
        written down.
    :param was: that conductor.
    :raises LostNode: the node is no longer this conductor's.
    :raises Stopping: this process is to end.
    """
    with restoring.failing(task):
        row = task.snapshot()
        why = _why_not_there(task, row)
        if why is not None:
            restoring.fail(
                task, f'The conductor {was}, which has the received image, '
                f'was not alive when the node was taken over{why}')
            return
        LOG.warning('Node %s: its image had been sent by the conductor %s, '
                    'which was not alive', task.uuid, was)
        _done(task, _expected(results.read(row['result'])))
        restoring.end(task)


def _expected(wanted: results.Wanted) -> images.Stored:
    """Give what an image is that is as it was sent."""
    return images.Stored(wanted.size, 'sha256', wanted.sha256)


def _done(task: tasks.Task, stored: images.Stored) -> None:
    """Decide that a snapshot is done: its image is where it belongs."""
    task.note(bytes_done=stored.size,
              checksum=f'{stored.algorithm}:{stored.digest}')
    node_snapshots.settle(task.node['snapshot_id'], states.Outcome.DONE, None)


def _why_not_there(task: tasks.Task, row: Mapping[Any, Any]) -> str | None:
    """Look whether the whole image of a snapshot is where it belongs.

    :return: None when it is; else the end of a sentence about that.
    """
    if row['phase'] != states.Phase.UPLOADING:
        return '.'
    unknown = '. Whether it had sent all of it is not known'
    wanted = results.read(row['result'])
    if wanted.patch is not None:
        # Its header was put in its place there: no digest of the whole is
        # known here.
        return f'{unknown}.'
    try:
        if not task.tools.uploader.sent(row['image_ref'], _expected(wanted),
                                        lambda _sent: task.check()):
            return ', and all of it was not found where it belongs.'
    except (images.StoreUnavailable, images.ImageRefused,
            images.ImageDamaged) as exc:
        return f'{unknown}: {exc.message}'
    return None


class _Sent:
    """Notes how much of an image has been sent, now and then."""

    def __init__(self, task: tasks.Task):
        self._task = task
        self._interval = task.tools.conf.baremetal.watch_interval
        self._last = (time.monotonic(), 0)

    def tell(self, sent: int) -> None:
        """Take how many bytes have been sent."""
        since, before = self._last
        now = time.monotonic()
        if now - since < self._interval:
            return
        self._last = (now, sent)
        self._task.note(bytes_done=sent,
                        rate=max(0.0, (sent - before) / (now - since)))
