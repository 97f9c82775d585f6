# SPDX-License-Identifier: Apache-2.0
"""The states of making an image of a server, as data.

The task states are Nova's. A server that is quiesced is held only until its
point in time was taken: its freeze has a deadline, and whoever quiesced it
has to be able to thaw it while the data is still being sent.
"""

import uuid

from stillframe.states import servers

ACTION = 'createImage'

PENDING = 'image_snapshot_pending'
SNAPSHOT = 'image_snapshot'
UPLOADING = 'image_uploading'

#: In the order in which an image goes through them.
TASK_STATES = (PENDING, SNAPSHOT, UPLOADING)

#: vm_states of which an image can be made.
FROM = frozenset((servers.ACTIVE, servers.QUIESCED, servers.PAUSED,
                  servers.STOPPED))


def can(vm_state: str, task_state: str | None) -> bool:
    """Tell whether an image can be made of a server in these states."""
    return vm_state in FROM and task_state is None


def held(vm_state: str, task_state: str) -> str | None:
    """Give the task state that a server has while its image is in one."""
    if vm_state == servers.QUIESCED and task_state == UPLOADING:
        return None
    return task_state


def comes_after(one: str, other: str | None) -> bool:
    """Tell whether a task state of an image follows another one."""
    return (other in TASK_STATES
            and TASK_STATES.index(one) > TASK_STATES.index(str(other)))


def disk_image_id(image_id: str, target: str, root: bool) -> str:
    """Give the id of the image of one disk.

    :param image_id: of the image that the user asked for: the root disk's.
        Those of further disks follow from it, so that whoever knows the
        request can name, and remove, all of them.
    """
    if root:
        return image_id
    return str(uuid.uuid5(uuid.UUID(image_id), target))
