# SPDX-License-Identifier: Apache-2.0
"""A machine gets back the boot device that it had, or none."""

import pytest

from stillframe.conductor.baremetal import preparing
from stillframe.conductor.baremetal import restoring
from stillframe.conductor.baremetal import tasks
from stillframe.conf import CONF
from stillframe.db import node_moves
from stillframe.db import nodes
from stillframe.drivers import base
from stillframe.drivers import errors
from stillframe.drivers import fake
from stillframe.states import nodes as states
from tests.unit.db import node_scenes as scenes

OWN_ORDER = base.BootDevice(None, None, own_order=True)


@pytest.fixture(autouse=True)
def api_url():
    """Where ramdisks report."""
    CONF.set_override('agent_api_url', 'https://api.test', 'baremetal')
    yield
    CONF.clear_override('agent_api_url', 'baremetal')


def management(task):
    """Give the boot device of a node's made-up machine."""
    return task.hardware().management


def begun(tools, device):
    """Begin the snapshot of a machine with a boot device; give its task."""
    node = scenes.snapshotting(power_state='power on',
                               snapshot_interface='agent')
    task = tasks.Task(tools, node)
    if device == OWN_ORDER:
        management(task).follow_own_order(task.for_driver())
    else:
        management(task).set_boot_device(
            task.for_driver(), device.device, device.persistent)
    preparing.begin(task)
    assert management(task).get_boot_device(
        task.for_driver()) == base.BootDevice(base.PXE, False)
    return task


def fail(tools, task):
    """End a snapshot that waits for its ramdisk; give the task."""
    node = node_moves.begin(nodes.get(task.uuid), 'abort', scenes.HOST)
    ending = tasks.Task(tools, node)
    restoring.settle(ending, states.Outcome.ABORTED, 'as the test wished')
    restoring.end(ending)
    return ending


@pytest.mark.parametrize('device', [
    OWN_ORDER, base.BootDevice(base.DISK, True),
    base.BootDevice(base.CDROM, False)])
def test_what_it_had(tools, device):
    task = fail(tools, begun(tools, device))
    assert management(task).get_boot_device(task.for_driver()) == device


def test_what_an_earlier_snapshot_could_not_put_back(tools):
    first = begun(tools, OWN_ORDER)

    def away(_self, node):
        raise errors.DriverError(node=node['uuid'], reason='it is away')

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fake.FakeManagement, 'follow_own_order', away)
        fail(tools, first)
    assert management(first).get_boot_device(
        first.for_driver()).device == base.PXE
    task = tasks.Task(tools, node_moves.begin(
        nodes.get(first.uuid), 'snapshot', scenes.HOST, scenes.REQUEST))
    preparing.begin(task)
    task = fail(tools, task)
    assert management(task).get_boot_device(
        task.for_driver()) == OWN_ORDER
