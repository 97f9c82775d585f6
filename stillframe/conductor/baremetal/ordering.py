# SPDX-License-Identifier: Apache-2.0
"""Ordering the image of a node's disk from whoever can send it."""

from collections.abc import Iterator
from collections.abc import Mapping
import contextlib
import dataclasses
from typing import Any

from oslo_log import log

from stillframe import exceptions
from stillframe.agent import hints
from stillframe.agent import orders
from stillframe.conductor import receiver as receivers
from stillframe.conductor.baremetal import restoring
from stillframe.conductor.baremetal import tasks
from stillframe.drivers import errors
from stillframe.states import nodes as states

LOG = log.getLogger(__name__)

_MIB = 1 << 20
# How often an order is tried that could not be handed over, a heartbeat
# each.
_ATTEMPTS = 4
# In the place of what only an open transfer has.
_NO_TICKET = receivers.Ticket(url='https://receiver.invalid/', username='',
                              password='', ca=None)


def check(task: tasks.Task) -> None:
    """See that an image could be ordered, before a machine is stopped.

    :param task: of a node in state snapshotting.
    :raises BadRequest: the node's hints, or the options, are none.
    :raises ReceiverError: the image could not be received here.
    """
    row = task.snapshot()
    task.tools.receiver.check(_transport(row), _at_least(task.node, row))
    ticket = _NO_TICKET
    if _transport(row) == 'nfs':
        ticket = dataclasses.replace(ticket, url='nfs://receiver.invalid/')
    document = _document(task, row, ticket)
    with _understood():
        wanted = document['device']
        if wanted == orders.ROOT:
            wanted = document['root_device']
        for one in document['skip_block_devices']:
            hints.compile_(one)
        # None at all are no mistake.
        if wanted:
            hints.compile_(wanted)


def _at_least(node: Mapping[Any, Any], row: Mapping[Any, Any]) -> int:
    """Give the bytes that an image will have at least, as far as is known.

    A raw image is as large as the disk. What others come to, only the disk
    tells; and which one hints choose, only the ramdisk.
    """
    size = node['properties'].get('local_gb')
    if (row['disk_format'] != 'raw' or not str(size).isdecimal()
            or (row['options'].get('device') or orders.ROOT) != orders.ROOT
            or _hints(node)):
        return 1
    return max(1, int(str(size)[:9]) << 30)


def _hints(node: Mapping[Any, Any]) -> Any:
    """Give what says which disk is the root disk; nothing for its own."""
    return (node['instance_info'].get('root_device')
            or node['properties'].get('root_device'))


def order(task: tasks.Task) -> None:
    """Open a transfer, order the image, and let the node wait for it.

    :param task: of a node in state snapshotting.
    :raises LostNode: the node is no longer this conductor's.
    :raises Stopping: this process is to end.
    """
    with restoring.failing(task):
        task.hold()
        _order(task, task.snapshot())


def _order(task: tasks.Task, row: Mapping[Any, Any]) -> None:
    ticket = task.tools.receiver.open(row['uuid'], _transport(row))
    try:
        document = _document(task, row, ticket)
        command_id = task.hardware().snapshot.start(task.for_driver(),
                                                    document)
    except errors.DriverError as exc:
        tried = (row['original'] or {}).get('orders', 0) + 1
        if not exc.transient or tried >= _ATTEMPTS:
            raise
        LOG.warning('Node %s: the image is ordered at the next heartbeat: '
                    '%s', task.uuid, exc)
        task.note(original={**row['original'], 'orders': tried})
    else:
        task.note(command_id=command_id, phase=states.Phase.STREAMING)
    task.move('wait', release=True)


@contextlib.contextmanager
def _understood() -> Iterator[None]:
    """Say to users what an agent would not understand."""
    try:
        yield
    except orders.failures.BadOrder as exc:
        raise exceptions.BadRequest(
            f'The image cannot be ordered: {exc}') from exc


def _transport(row: Mapping[Any, Any]) -> str:
    return row['options'].get('transport') or 'webdav'


def _document(task: tasks.Task, row: Mapping[Any, Any],
              ticket: Any) -> dict[str, Any]:
    """Write the order.

    :raises BadRequest: the node's hints, or the options, are none.
    """
    node, options, conf = task.node, row['options'], task.tools.conf
    bandwidth = conf.baremetal.bandwidth
    skipped = node['properties'].get('skip_block_devices') or []
    with _understood():
        if not isinstance(skipped, list):
            raise orders.failures.BadOrder(
                "The node's skip_block_devices are no list.")
        return orders.Order(
            url=ticket.url, transport=_transport(row),
            username=ticket.username, password=ticket.password,
            ca=ticket.ca, disk_format=row['disk_format'],
            compress=options.get('compress'),
            skip_free_space=bool(options.get('skip_free_space')),
            device=options.get('device') or orders.ROOT,
            root_device=_hints(node),
            skip_block_devices=tuple(skipped),
            root_uuid_or_disk_id=_deployed_with(node),
            on_read_error=options.get('on_read_error') or 'stop',
            bandwidth=int(bandwidth * _MIB) or None,
            timeout=conf.receiver.silence_timeout).document()


def _deployed_with(node: Mapping[Any, Any]) -> str | None:
    """Give what the root disk held when the node was deployed.

    For a node that something else deployed, who adopts it may say so in
    instance_info.
    """
    for known in (node['driver_internal_info'], node['instance_info']):
        found = known.get('root_uuid_or_disk_id')
        if found:
            return found
    return None
