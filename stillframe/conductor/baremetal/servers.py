# SPDX-License-Identifier: Apache-2.0
"""Nodes with an instance, as servers of the compute dialect.

For them the conductor is what a compute worker is for others: it reports
them, under a host name of its own, and answers for them. An image of such a
server is a snapshot of its node; what became of that is read from the
node's history, by any conductor, so no outcome can be lost.
"""

import datetime
import hashlib
import itertools
import json
import time
from typing import Any

from oslo_log import log
import sqlalchemy as sa

from stillframe import exceptions
from stillframe.conductor.baremetal import powering
from stillframe.conductor.baremetal import tasks
from stillframe.db import base
from stillframe.db import images
from stillframe.db import inventory
from stillframe.db import node_snapshots
from stillframe.db import nodes
from stillframe.db import services
from stillframe.rpc import payloads
from stillframe.states import images as image_states
from stillframe.states import nodes as states
from stillframe.states import power
from stillframe.states import servers as server_states

LOG = log.getLogger(__name__)

# Seconds after which nodes are read anew although nothing tells of a change.
_LOOK_ANYWAY = 60


def host_name(conductor: str) -> str:
    """Give the host under which a conductor's nodes are servers.

    Not the conductor's own: a worker of a hypervisor may run on the same
    machine, and be called like it.
    """
    return f'{conductor}-baremetal'


class Servers:
    """Reports nodes as servers, and how their images are; one a process.

    Nothing is reported before there is a node with an instance.
    """

    def __init__(self, tools: tasks.Tools):
        self._tools = tools
        self._host = host_name(tools.host)
        self._started_at = datetime.datetime.now(
            datetime.UTC).replace(tzinfo=None).isoformat()
        self._count = itertools.count()
        self._known = False
        self._sight: tuple[Any, ...] = ()
        self._told: list[payloads.Server] = []
        self._digest = ''

    def look(self) -> None:
        """Report once."""
        try:
            self._report()
            self._images()
        except exceptions.ServiceUnavailable as exc:
            LOG.warning('Nodes were not reported as servers: %s', exc)

    def _report(self) -> None:
        self._refresh()
        if not self._known:
            return
        applied = services.report(
            self._host, services.COMPUTE, self._started_at,
            next(self._count), {'baremetal': True})
        if applied != self._digest:
            # One that is another conductor's now is not gone: that one
            # tells of it.
            inventory.apply(
                self._host, self._told,
                list(nodes.gone_instances(self._host)), False, self._digest)

    def _refresh(self) -> None:
        """Read all again when something may have changed."""
        # Also now and then without a sign: who wrote last may have a clock
        # that is behind.
        sight = (int(time.monotonic() // _LOOK_ANYWAY),
                 self._tools.ring.generation(),
                 *nodes.sight_of_instances())
        if sight == self._sight:
            return
        rows = [row for row in nodes.with_instances()
                if self._tools.is_ours(row)]
        snapshots = node_snapshots.get_many(
            row['snapshot_id'] for row in rows
            if row['provision_state'] in states.SNAPSHOT_FAMILY)
        self._told = [_server(row, snapshots.get(row['snapshot_id']))
                      for row in rows]
        self._digest = hashlib.sha256(json.dumps(
            self._told, sort_keys=True).encode()).hexdigest()
        self._known = self._known or bool(rows)
        self._sight = sight

    def _images(self) -> None:
        """Report how the images of nodes are, or how they ended."""
        requests = {row['request_id']: row for row in images.open_requests()}
        for row in node_snapshots.of_requests(requests):
            host = requests[row['request_id']]['host']
            server_id = requests[row['request_id']]['server_uuid']
            if row['finished_at'] is None:
                images.progressed(row['request_id'], _stage(row),
                                  _percent(row))
            else:
                images.apply(host, _ended(server_id, row))


def _server(row: sa.RowMapping, snapshot: sa.RowMapping | None
            ) -> payloads.Server:
    """Describe a node as a server."""
    info, properties = row['instance_info'], row['properties']
    state = row['power_state']
    original = snapshot['original'] if snapshot is not None else None
    if original is not None:
        # The ramdisk's power is not the server's.
        state = original['power_state']
    image_id = info.get('image_source')
    name = row['name'] or row['uuid']
    return {
        'uuid': row['instance_uuid'],
        'name': str(info.get('display_name') or name),
        'domain_name': name,
        'project_id': row['lessee'] or row['owner'] or '',
        'user_id': str(info.get('user_id') or ''),
        'power_state': server_states.POWER_RUNNING
        if state == power.POWER_ON else server_states.POWER_SHUTDOWN,
        'agent_state': 'absent',
        'flavor': {
            'name': row['resource_class'] or 'baremetal',
            'vcpus': _number(properties.get('cpus')),
            'ram': _number(properties.get('memory_mb')),
            'disk': _number(properties.get('local_gb')),
            'ephemeral': 0, 'swap': 0},
        'image_id': image_id if isinstance(image_id, str)
        and nodes.is_uuid(image_id) else None,
        'launched_at': None, 'volumes': []}


def _number(value: Any) -> int:
    try:
        return max(0, int(value))
    except (TypeError, ValueError):
        return 0


def _stage(row: sa.RowMapping) -> str:
    """Give the task state of an image whose node's snapshot goes on."""
    if row['phase'] in (states.Phase.PREPARING, states.Phase.BOOTING):
        return image_states.SNAPSHOT
    return image_states.UPLOADING


def _percent(row: sa.RowMapping) -> int:
    """Say how far it is: the way here is one half, the way on the other."""
    part = (100 * row['bytes_done'] // row['bytes_total']
            if row['bytes_total'] else 0)
    half = min(part // 2, 50)
    if row['phase'] in (states.Phase.UPLOADING, states.Phase.RESTORING):
        return min(50 + half, 99)
    return 50 if row['phase'] == states.Phase.VERIFYING else half


def outcome(kind: str, server_id: str, request_id: str,
            result: server_states.Result, reason: str | None,
            message: str, began: datetime.datetime | None = None
            ) -> payloads.Outcome:
    """Write how a request for a node's server ended."""
    now = base.utcnow()
    return {
        'id': f'{request_id}-{kind}', 'kind': kind, 'server_id': server_id,
        'request_id': request_id, 'freeze_id': None,
        'result': result.value, 'reason': reason, 'message': message,
        'detail': None, 'filesystems': None, 'thawed': None,
        'verified_thawed': None,
        'started_at': (began or now).isoformat(),
        'finished_at': now.isoformat(), 'frozen_at': None, 'ended_at': None,
        'timeout': None, 'freeze_call': None, 'thaw_call': None,
        'frozen_for': None}


def _ended(server_id: str, row: sa.RowMapping) -> payloads.Outcome:
    """Write how a node's snapshot ended, as the outcome of an image."""
    if row['outcome'] != states.Outcome.DONE:
        return outcome(
            'image', server_id, row['request_id'],
            server_states.Result.FAILED, row['outcome'],
            row['reason'] or 'No reason is known.', row['created_at'])
    clean = row['consistency'] == powering.CLEAN
    ended = outcome(
        'image', server_id, row['request_id'], server_states.Result.SUCCESS,
        None, f'Image {row["image_ref"]} is complete: {row["size"]} bytes.',
        row['created_at'])
    ended['image'] = {
        'image_id': row['image_ref'],
        'images': {'root': row['image_ref']}, 'snapshots': {},
        'size': row['size'], 'method': 'ramdisk',
        'consistency': 'filesystem' if clean else 'crash',
        'freeze': 'none', 'window': None,
        'why_not': None if clean else 'The operating system of the node '
        'was not seen to shut down before its disk was read.'}
    return ended
