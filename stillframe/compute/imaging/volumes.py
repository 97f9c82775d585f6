# SPDX-License-Identifier: Apache-2.0
"""The disks of a server that are Cinder's: snapshots instead of data.

The image refers to the snapshots by a block device mapping, as the images
that Nova makes of such servers do.
"""

from collections.abc import Iterable
from collections.abc import Mapping
import json
import threading
from typing import Any

from oslo_log import log

from stillframe.clients import cinder
from stillframe.clients import cinder_snapshots
from stillframe.compute import clock
from stillframe.compute.libvirt import image_disks

LOG = log.getLogger(__name__)

# Seconds between two looks at what Cinder is doing, which tells no events.
_LOOK = 0.3
# Seconds for Cinder to remove snapshots; afterwards it is tried later.
_REMOVE = 60.0


class NotInTime(Exception):
    """Cinder did not make its snapshots while the guest could be frozen."""


class NotRemoved(Exception):
    """Snapshots of an image that failed are left in Cinder."""


class Volumes:
    """Volumes of a server, and the snapshots of them for one image."""

    def __init__(self, client: cinder_snapshots.Snapshots, image_id: str,
                 stopping: threading.Event):
        self._client = client
        self._image_id = image_id
        self._stopping = stopping

    def sizes(self, disks: Iterable[image_disks.Disk]) -> dict[str, int]:
        """Tell which disks are Cinder's.

        :return: size in GiB by target.
        :raises Unreachable, Refused: see :mod:`stillframe.clients.cinder`.
        """
        if not self._client.is_configured:
            return {}
        found = {disk.target: self._client.size(disk.volume_id)
                 for disk in disks}
        return {target: size for target, size in found.items()
                if size is not None}

    def _name(self, target: str) -> str:
        # Unique, so that they can be found whoever was killed.
        return f'image {self._image_id} ({target})'

    def make(self, volumes: Mapping[str, str],
             user: cinder_snapshots.User | None, until: float
             ) -> dict[str, str]:
        """Have snapshots made of volumes, and wait for them.

        :param volumes: volume id by target.
        :param user: to whom they are to belong; None: to our account.
        :param until: moment (:func:`clock.now`) to give up at.
        :return: snapshot id by target.
        :raises NotInTime, SnapshotFailed, Unreachable, Refused: see there.
        """
        made = {target: self._client.create(
            volume_id, self._name(target), user)
            for target, volume_id in volumes.items()}
        waiting = list(made.values())
        while waiting:
            if self._is_available(waiting[-1]):
                waiting.pop()
            elif clock.now() > until or self._stopping.wait(_LOOK):
                raise NotInTime(f'{len(waiting)} of {len(made)} snapshots '
                                'were not complete in time')
        return made

    def _is_available(self, snapshot_id: str) -> bool:
        try:
            return self._client.is_available(snapshot_id)
        except cinder.Unreachable as exc:
            # It goes on without us; there is time for another look.
            LOG.warning('Cinder does not say how snapshot %s is: %s',
                        snapshot_id, exc)
            return False

    def remove(self, volumes: Mapping[str, str]) -> None:
        """Remove what was made for an image that failed.

        :param volumes: volume id by target.
        :raises NotRemoved: it has to be tried again.
        """
        begun = clock.now()
        pause = threading.Event()
        left = dict(volumes)
        try:
            while left:
                left = {target: volume_id
                        for target, volume_id in left.items()
                        if not self._client.delete_all(
                            volume_id, self._name(target))}
                if left and (self._stopping.is_set()
                             or clock.now() - begun > _REMOVE):
                    raise NotRemoved(f'snapshots of {len(left)} volumes '
                                     'are still there')
                if left:
                    pause.wait(_LOOK)
        except (cinder.Unreachable, cinder.Refused) as exc:
            raise NotRemoved(str(exc)) from exc


def mapping(disks: Iterable[image_disks.Disk], sizes: Mapping[str, int],
            snapshots: Mapping[str, str], images: Mapping[str, str]
            ) -> dict[str, str]:
    """Give the properties by which an image refers to further disks.

    :param disks: all disks, the root disk first.
    :param sizes: GiB by target, of the volumes.
    :param snapshots: snapshot id by target.
    :param images: image id by target, of the disks that are no volumes.
    """
    entries = []
    for disk in disks:
        entry: dict[str, Any] = {
            'device_name': f'/dev/{disk.target}', 'device_type': 'disk',
            'destination_type': 'volume', 'delete_on_termination': False,
            'boot_index': 0 if disk.root else -1}
        if disk.target in snapshots:
            entry.update(source_type='snapshot',
                         snapshot_id=snapshots[disk.target],
                         volume_size=sizes[disk.target])
        elif not disk.root:
            entry.update(source_type='image',
                         image_id=images[disk.target])
        else:
            # The data of the image itself.
            continue
        entries.append(entry)
    if not snapshots:
        return {}
    return {'block_device_mapping': json.dumps(entries), 'bdm_v2': 'True'}
