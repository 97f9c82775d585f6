# SPDX-License-Identifier: Apache-2.0
"""The beginning of a node's snapshot: up to a ramdisk that boots."""

from typing import Any

from oslo_log import log

from stillframe.conductor.baremetal import ordering
from stillframe.conductor.baremetal import powering
from stillframe.conductor.baremetal import restoring
from stillframe.conductor.baremetal import tasks
from stillframe.db import base
from stillframe.db import node_agents
from stillframe.db import node_snapshots
from stillframe.drivers import base as drivers
from stillframe.drivers import errors
from stillframe.drivers import ramdisk
from stillframe.states import nodes as states
from stillframe.states import power

LOG = log.getLogger(__name__)


def begin(task: tasks.Task) -> None:
    """Bring a node to the point where its agent can be waited for.

    :param task: of a node in state snapshotting.
    :raises LostNode: the node is no longer this conductor's.
    :raises Stopping: this process is to end.
    """
    with restoring.failing(task):
        _begin(task)


def _begin(task: tasks.Task) -> None:
    hardware = task.hardware()
    node = task.for_driver()
    for kind in drivers.KINDS:
        hardware.interface(kind).validate(node)
    ordering.check(task)
    task.tools.uploader.check(task.snapshot()['image_ref'])
    original = _note_original(task, hardware)
    if not hardware.snapshot.needs_ramdisk:
        ordering.order(task)
        return
    params = ramdisk.parameters(task.tools.conf, node)
    _stage(task, original, restoring.STOPPING)
    task.note(consistency=powering.stop_guest(task))
    task.check()
    # What ran before may have asked for a token; its agent is not ours.
    task.tools.tokens.pop(task.uuid, None)
    task.write(**node_agents.UNKNOWN)
    _stage(task, original, restoring.BOOTING)
    task.hold()
    hardware.boot.prepare_ramdisk(task.for_driver(), params)
    task.check()
    task.note(phase=states.Phase.BOOTING)
    powering.switch(task, power.POWER_ON)
    task.move('wait', release=True)


def _note_original(task: tasks.Task,
                   hardware: drivers.Hardware) -> dict[str, Any]:
    """Write down what the node is like, before anything is touched.

    :raises DriverError: that cannot be told.
    """
    node = task.for_driver()
    state = task.again('to tell its power state', lambda:
                       hardware.power.get_power_state(node))
    if state not in (power.POWER_ON, power.POWER_OFF):
        raise errors.DriverError(
            node=task.uuid, reason='it cannot be told whether it is on or '
            'off. Try again when it has settled.')
    device = task.again('to tell its boot device', lambda:
                        hardware.management.get_boot_device(node))
    original = {
        'stage': restoring.NOTED, 'power_state': state,
        'boot_device': device.device, 'persistent': device.persistent,
        'own_order': device.own_order,
        'boot_mode': hardware.management.get_boot_mode(node)}
    if device.device != drivers.DISK:
        # It may be what an earlier snapshot could not put back.
        original.update(_owed(task))
    task.write(power_state=state)
    task.note(original=original, started_at=base.utcnow())
    return original


def _owed(task: tasks.Task) -> dict[str, Any]:
    """Give the boot device that the snapshot before this one left set.

    A machine whose BMC was away then still boots the ramdisk; that would
    be taken for its own boot device.
    """
    before = node_snapshots.history(task.uuid, 1, task.node['snapshot_id'])
    was = before[0]['original'] if before else None
    if was is None or was['stage'] != restoring.BOOTING:
        return {}
    return {key: was.get(key)
            for key in ('boot_device', 'persistent', 'own_order')}


def _stage(task: tasks.Task, original: dict[str, Any], stage: str) -> None:
    original['stage'] = stage
    task.note(original=original)


