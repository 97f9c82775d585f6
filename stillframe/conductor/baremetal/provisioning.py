# SPDX-License-Identifier: Apache-2.0
"""What brings a node to active and away, without touching its disk.

Nothing is written to a disk here, and nothing erased: "active" (deploy)
takes for deployed what is there, and "deleted" and "provide" clean nothing.
Whoever needs more has another tool for it and uses "adopt".

Each action can be done again from its beginning, so one that was cut off is
simply done again.
"""

from collections.abc import Callable
from collections.abc import Mapping
import types

from oslo_log import log

from stillframe import exceptions
from stillframe.conductor.baremetal import restoring
from stillframe.conductor.baremetal import tasks
from stillframe.db import models
from stillframe.db import node_moves
from stillframe.db import node_snapshots
from stillframe.drivers import errors
from stillframe.states import nodes as states
from stillframe.states import power

LOG = log.getLogger(__name__)


def act(task: tasks.Task) -> None:
    """Do what the node's state says is being done, and let go of it.

    :raises LostNode: the node is no longer this conductor's.
    :raises Stopping: this process is to end.
    """
    try:
        _ACTIONS[task.state](task)
    except (tasks.Stopping, node_moves.LostNode,
            exceptions.ServiceUnavailable):
        # Recovery comes back to it.
        raise
    except errors.DriverError as exc:
        LOG.error('Node %s: %s failed: %s', task.uuid, task.state, exc)
        task.move('fail', release=True, last_error=exc.message)
    except Exception:  # noqa: BLE001
        # Whatever it was, the node must not stay as it is, locked.
        LOG.exception('Node %s: %s failed', task.uuid, task.state)
        task.move('fail', release=True, last_error='Something unexpected '
                  "happened in the conductor; its log says what.")


def _verify(task: tasks.Task) -> None:
    """Bring a new node under control: its BMC answers as it should."""
    task.hardware().management.validate(task.for_driver())
    _end(task)


def _adopt(task: tasks.Task) -> None:
    """Take a node that was deployed by something else."""
    task.hardware().boot.validate(task.for_driver())
    _end(task)


def _deploy(task: tasks.Task) -> None:
    """Take what is on the node's disk for deployed, and switch it on."""
    hardware = task.hardware()
    node = task.for_driver()
    hardware.power.validate(node)
    task.hold()
    hardware.boot.prepare_instance(node)
    hardware.power.set_power_state(node, power.POWER_ON)
    task.move('done', release=True, power_state=power.POWER_ON)


def _delete(task: tasks.Task) -> None:
    """Take the instance from a node, after a snapshot under way."""
    if task.node['snapshot_id'] is not None:
        row = task.snapshot()
        if row['finished_at'] is None:
            left = restoring.put_back(task)
            finish = (row['outcome'] or states.Outcome.DELETED,
                      restoring.sentence(row['reason'], left))
            task.write(last_error=finish[1] if left else None)
            node_snapshots.finish(row['uuid'], finish)
    internal = dict(task.node['driver_internal_info'])
    internal.pop('root_uuid_or_disk_id', None)
    task.move('clean', instance_uuid=None, instance_info={},
              driver_internal_info=internal,
              version=models.nodes.c.version + 1)
    _end(task)


def _end(task: tasks.Task) -> None:
    """See that a node can be switched, and let go of it."""
    hardware = task.hardware()
    node = task.for_driver()
    hardware.power.validate(node)
    state = hardware.power.get_power_state(node)
    task.move('done', release=True, power_state=state)


_ACTIONS: Mapping[str, Callable[[tasks.Task], None]] = (
    types.MappingProxyType({
        states.VERIFYING: _verify,
        states.ADOPTING: _adopt,
        states.DEPLOYING: _deploy,
        states.DELETING: _delete,
        states.CLEANING: _end,
    }))
