# SPDX-License-Identifier: Apache-2.0
"""Sending all disks of a server to the image store."""

from collections.abc import Callable
import math

from stillframe.clients import images
from stillframe.compute import clock
from stillframe.compute.imaging import points
from stillframe.compute.imaging import results
from stillframe.compute.imaging import seeing
from stillframe.compute.imaging import streaming
from stillframe.compute.imaging import volumes
from stillframe.rpc import payloads
from stillframe.states import images as states

# Seconds between two reports of progress.
_REPORT = 2.0


def send(request: payloads.Image, seen: seeing.Seen, point: points.Point,
         store: images.Store, bounds: streaming.Bounds,
         end: payloads.ImageEnd, report: Callable[[int], None]) -> None:
    """Send all disks; the image that was asked for becomes active last.

    When it is complete, so is all that it refers to.

    :param end: the image's figures; what is sent is added to them.
    :param report: told the percentage from time to time.
    :raises: as :func:`streaming.send` and the store do.
    """
    progress = Progress(report, len(seen.local))
    progress.tell(0)
    for disk in seen.local:
        end['images'][disk.target] = states.disk_image_id(
            request['image_id'], disk.target, disk.root)
    shown = results.properties(end)
    for disk in seen.local[::-1]:
        image_id = end['images'][disk.target]
        properties = {**shown, 'stillframe_disk': disk.target}
        if disk.root:
            store.update(image_id, {**properties, **_mapping(seen, end)})
        else:
            store.create(images.Record(
                image_id, f'{request["name"]} ({disk.target})',
                request['owner'], properties={
                    **request['properties'], **properties,
                    'stillframe_image': request['image_id']}))
        stored = streaming.send(point.export(disk.target), disk.target,
                                store, image_id, bounds, progress.tell)
        end['size'] += stored.size
        progress.next()
    if seen.disks[0].target in seen.sizes:
        # The root disk is a volume: the image refers to all, and has no
        # data of its own, for which the format is called raw.
        root = seen.disks[0].target
        store.update(request['image_id'], {
            **shown, **_mapping(seen, end), 'stillframe_disk': root,
            'disk_format': 'raw'})
        store.activate_empty(request['image_id'])


def _mapping(seen: seeing.Seen, end: payloads.ImageEnd) -> dict[str, str]:
    return volumes.mapping(seen.disks, seen.sizes, end['snapshots'],
                           end['images'])


class Progress:
    """Turns the fractions of several transfers into reports."""

    def __init__(self, report: Callable[[int], None], parts: int):
        """Take where to report.

        :param parts: how many transfers there are.
        """
        self._tell = report
        self._parts = max(1, parts)
        self._done = 0
        self._next = 0.0

    def tell(self, fraction: float) -> None:
        """Report, unless that was done a moment ago."""
        if clock.now() >= self._next:
            self._next = clock.now() + _REPORT
            self._tell(math.floor(
                100 * (self._done + fraction) / self._parts))

    def next(self) -> None:
        """Begin with the next transfer."""
        self._done += 1
