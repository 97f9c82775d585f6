# SPDX-License-Identifier: Apache-2.0
"""What an image changes outside itself, and having all of it undone."""

from collections.abc import Callable
from collections.abc import Iterator
import contextlib
import dataclasses
import os
import pathlib
import shutil
import tempfile
import threading

from oslo_config import cfg
from oslo_log import log

from stillframe.compute import scheduler as scheduler_
from stillframe.compute.imaging import intents
from stillframe.compute.imaging import points
from stillframe.compute.imaging import seeing
from stillframe.compute.imaging import volumes as volumes_
from stillframe.compute.libvirt import host as host_
from stillframe.compute.libvirt.troubles import AgentTrouble
from stillframe.rpc import payloads

LOG = log.getLogger(__name__)

# Seconds between two tries to undo something.
_RETRY = 30.0

#: Gives the volumes for an image id.
VolumesOf = Callable[[str], volumes_.Volumes]


class Leftovers:
    """Writes down what is changed for images, and undoes it."""

    def __init__(self, conf: cfg.ConfigOpts, host: host_.Host,
                 scheduler: scheduler_.Scheduler,
                 submit: Callable[..., object], volumes: VolumesOf,
                 stopping: threading.Event):
        """Take what is needed.

        :param submit: does work on a pool.
        """
        self._conf = conf
        self._host = host
        self._scheduler = scheduler
        self._submit = submit
        self._volumes = volumes
        self._stopping = stopping
        self._points: dict[str, points.Point] = {}
        #: What is undone and was not told of yet, by id of its image.
        self._undone: dict[str, intents.Intent] = {}
        self.intents = intents.Intents(conf.state_path)

    def _lookup(self, server_id: str) -> points.Lookup:
        return lambda: self._host.domain(server_id)

    @contextlib.contextmanager
    def kept(self, intent: intents.Intent, seen: seeing.Seen
             ) -> Iterator['Kept']:
        """Give a point for the block, and undo everything after it.

        The intent stays until :meth:`told`: whoever is told may ask for the
        next image at once, so all has to be undone before, and a worker
        that is killed in between has to know of it.

        What Cinder made stays when the block says that it belongs to an
        image now; see :meth:`settle`.
        """
        kept = Kept(self._begin(intent, seen))
        server_id = intent.server_id
        try:
            kept.point = self._point(kept.intent, seen)
            self._points[server_id] = kept.point
            try:
                yield kept
            finally:
                if seen.method == points.STOPPED:
                    # These are this process's own; see points.leftover.
                    kept.point.release()
        finally:
            self._points.pop(server_id, None)
            if self._undo(kept.intent):
                self._undone[kept.intent.image_id] = kept.intent

    def told(self, image_id: str) -> None:
        """Forget an image whose outcome is kept, if nothing of it is left."""
        intent = self._undone.pop(image_id, None)
        if intent is not None:
            self.intents.remove(intent)

    def complete(self, kept: 'Kept', made: payloads.ImageEnd) -> None:
        """Note that the snapshots belong to a complete image."""
        if kept.intent.volumes:
            kept.intent = dataclasses.replace(kept.intent, made=made)
            self.intents.write(kept.intent)

    def settle(self, image_id: str, wanted: bool) -> None:
        """Let go of the snapshots of a complete image, or remove them.

        :param wanted: nobody has given the image up meanwhile.
        """
        intent = self.intents.of_image(image_id)
        if intent is None or intent.made is None:
            return
        if not wanted:
            LOG.warning('Image %s of server %s was given up before it was '
                        'complete; its snapshots are removed', image_id,
                        intent.server_id)
        self._submit(self.undo, dataclasses.replace(
            intent, made=None, volumes={} if wanted else intent.volumes))

    def _begin(self, intent: intents.Intent, seen: seeing.Seen
               ) -> intents.Intent:
        folder = _make_folder(
            pathlib.Path(self._conf.images.scratch_path), seen.owner)
        intent = dataclasses.replace(
            intent, folder=str(folder), method=seen.method,
            volumes=seen.volumes, sources={
                disk.target: disk.path or '' for disk in seen.local})
        try:
            self.intents.write(intent)
        except BaseException:
            folder.rmdir()
            raise
        return intent

    def _point(self, intent: intents.Intent, seen: seeing.Seen
               ) -> points.Point:
        folder = pathlib.Path(intent.folder)
        lookup = self._lookup(intent.server_id)
        if seen.method == points.BACKUP:
            return points.RunningPoint(
                lookup, folder, seen.local, seen.chained,
                self._conf.images.point_in_time == points.OVERLAY,
                self._stopping)
        if seen.method == points.STOPPED:
            return points.StoppedPoint(folder, seen.local, self._stopping)
        return points.VolumesPoint(
            lookup, seen.chained if seen.running else [])

    def relieve(self, server_id: str) -> None:
        """Release a server's point at once, whoever is reading it."""
        point = self._points.get(server_id)
        if point is not None:
            LOG.error('Server %s stands still, since there is no room for '
                      'what it overwrites while its image is made; the '
                      'image is given up', server_id)
            point.release()

    def look(self) -> None:
        """Look for guests that stand still and of which no event told."""
        for server_id, point in list(self._points.items()):
            try:
                if (isinstance(point, points.RunningPoint)
                        and point.starving()):
                    self.relieve(server_id)
            except AgentTrouble as trouble:
                LOG.info('Server %s cannot be looked at: %s', server_id,
                         trouble)

    def undo(self, intent: intents.Intent) -> None:
        """Undo all that an image changed, now or later, and forget it.

        Of one that is complete, what its snapshots are worth is not known
        yet: they stay, and so does the intent.
        """
        if self._undo(intent):
            self.intents.remove(intent)

    def _undo(self, intent: intents.Intent) -> bool:
        """Undo what can be undone now; tell whether nothing is left."""
        folder = pathlib.Path(intent.folder)
        try:
            points.leftover(intent.method, self._lookup(intent.server_id),
                            folder, self._stopping).release()
            if folder.exists():
                shutil.rmtree(folder)
            if intent.made is not None:
                return False
            self._volumes(intent.image_id).remove(intent.volumes)
        except (points.NotReleased, volumes_.NotRemoved, AgentTrouble,
                OSError) as exc:
            LOG.error('Something of image %s of server %s is left and is '
                      'undone later: %s', intent.image_id,
                      intent.server_id, exc)
            if not self._stopping.is_set():
                self._scheduler.after(
                    _RETRY, ('image', intent.image_id),
                    lambda: self._submit(self.undo, intent))
            return False
        return True


class Kept:
    """What is kept for one image.

    :ivar intent: as it was written down last.
    """

    def __init__(self, intent: intents.Intent):
        self.intent = intent
        self.point: points.Point = points.NoPoint()


def _make_folder(scratch: pathlib.Path,
                 owner: tuple[int, int] | None) -> pathlib.Path:
    """Make a folder in which QEMU may make files, and nobody else.

    :param owner: as whom QEMU runs, if known.
    :raises CannotImage: it cannot be made.
    """
    try:
        scratch.mkdir(mode=0o711, parents=True, exist_ok=True)
        folder = pathlib.Path(tempfile.mkdtemp(dir=scratch))
        if owner is not None and os.geteuid() == 0:
            os.chown(folder, *owner)
    except OSError as exc:
        raise seeing.CannotImage(
            'no_scratch', 'The host has no place for what the server '
            'overwrites while its image is made. An administrator has to '
            'see to [images]scratch_path.', str(exc)) from exc
    return folder
