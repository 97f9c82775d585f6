# SPDX-License-Identifier: Apache-2.0
"""Switching a node, for a user and for a snapshot."""

from oslo_log import log

from stillframe.conductor.baremetal import tasks
from stillframe.drivers import errors
from stillframe.states import power

LOG = log.getLogger(__name__)

#: How a guest was stopped for a snapshot, and so how consistent its disk
#: is: by itself; by cutting its power; it was off before.
CLEAN = 'clean'
CRASH = 'crash'
OFF = 'off'


def change(task: tasks.Task, target: str, timeout: float | None) -> None:
    """Change the power of a node as a user asked for, and let go of it.

    :param target: of :data:`stillframe.states.power.TARGETS`.
    :param timeout: seconds; None: as configured.
    :raises LostNode: the node is no longer this conductor's.
    :raises Stopping: this process is to end.
    """
    error = None
    state: str | None = power.RESULT[target]
    task.hold()
    try:
        task.hardware().power.set_power_state(task.for_driver(), target,
                                              timeout)
    except errors.DriverError as exc:
        LOG.warning('Node %s: %s: %s', task.uuid, target, exc)
        error = f'Failed to change the power state to "{target}": {exc}'
        state = _seen(task)
    task.release(power_state=state, target_power_state=None,
                 last_error=error)


def give_up(task: tasks.Task, error: str) -> None:
    """Let go of a node whose change of power was cut off."""
    task.release(power_state=_seen(task), target_power_state=None,
                 last_error=error)


def _seen(task: tasks.Task) -> str | None:
    """Give the power state that a node has now, or had when last seen."""
    try:
        seen = task.hardware().power.get_power_state(task.for_driver())
    except errors.DriverError:
        seen = None
    return seen or task.node['power_state']


def stop_guest(task: tasks.Task) -> str:
    """Switch a node off: by its operating system if that listens in time.

    :return: how consistent its disk is.
    :raises DriverError: it does not go off.
    :raises LostNode: the node is no longer this conductor's.
    :raises Stopping: this process is to end.
    """
    driver = task.hardware().power
    node = task.for_driver()
    if driver.get_power_state(node) == power.POWER_OFF:
        task.write(power_state=power.POWER_OFF)
        return OFF
    consistency = CLEAN
    if power.SOFT_POWER_OFF not in driver.supported_targets(node):
        consistency = CRASH
    else:
        timeout = task.tools.conf.baremetal.soft_power_off_timeout
        task.hold()
        try:
            driver.set_power_state(node, power.SOFT_POWER_OFF, timeout)
        except errors.DriverError as exc:
            LOG.warning('Node %s: its power is cut, since its operating '
                        'system did not shut down: %s', task.uuid, exc)
            consistency = CRASH
    if consistency == CRASH:
        task.hold()
        driver.set_power_state(node, power.POWER_OFF)
    task.write(power_state=power.POWER_OFF)
    return consistency


def switch(task: tasks.Task, target: str) -> None:
    """Switch a node, and write down that it is so.

    :param target: POWER_ON or POWER_OFF.
    :raises DriverError: it is not so.
    :raises LostNode: the node is no longer this conductor's.
    :raises Stopping: this process is to end.
    """
    task.hold()
    task.hardware().power.set_power_state(task.for_driver(), target)
    task.write(power_state=target)
