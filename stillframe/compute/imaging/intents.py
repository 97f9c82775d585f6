# SPDX-License-Identifier: Apache-2.0
"""What an image under way has to have undone, kept on disk.

A file for each image: written before anything is changed, gone when nothing
of it is left on this host and its outcome is safely in the outbox; of one to
which snapshots in Cinder belong, when the conductor has taken it. A worker
that was killed finds it in its next life. If it had told already, it tells a
second outcome, which changes nothing.
"""

from collections.abc import Iterator
import dataclasses
import json
import os
import pathlib

from oslo_log import log

from stillframe.compute import files
from stillframe.rpc import payloads

LOG = log.getLogger(__name__)

_ENDING = '.image.json'


@dataclasses.dataclass(frozen=True)
class Intent:
    """One image under way.

    :ivar request_id: of the request for it.
    :ivar image_id: of the image of the root disk.
    :ivar method: how the point in time is taken; see
        :mod:`stillframe.compute.imaging.points`.
    :ivar folder: where its scratch files and sockets are.
    :ivar sources: path of the active file by target, as it was before.
    :ivar volumes: id of the volume by target, of those disks of which
        Cinder makes snapshots that belong to no complete image yet.
    :ivar made: the figures of an image that is complete and to which those
        snapshots belong, unless the conductor says that it was given up.
    """

    request_id: str
    server_id: str
    image_id: str
    method: str
    folder: str
    started_at: str
    sources: dict[str, str] = dataclasses.field(default_factory=dict)
    volumes: dict[str, str] = dataclasses.field(default_factory=dict)
    made: payloads.ImageEnd | None = None
    version: int = 1


class Intents:
    """The intents below the state path."""

    def __init__(self, state_path: str | os.PathLike):
        self._folder = pathlib.Path(state_path) / 'imaging'
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        files.sweep(self._folder, _ENDING)

    def _path(self, image_id: str) -> pathlib.Path:
        return self._folder / (image_id + _ENDING)

    def write(self, intent: Intent) -> None:
        """Keep an intent durably.

        :raises OSError: the disk refused it.
        """
        files.write(self._path(intent.image_id),
                    json.dumps(dataclasses.asdict(intent), indent=1))

    def remove(self, intent: Intent) -> None:
        """Forget an intent."""
        files.remove(self._path(intent.image_id))

    def of_image(self, image_id: str) -> Intent | None:
        """Give the intent of an image, if there is one."""
        path = self._path(image_id)
        return self._read(path) if path.exists() else None

    def left(self) -> Iterator[Intent]:
        """Give those that an earlier life left."""
        for path in sorted(self._folder.glob('*' + _ENDING)):
            intent = self._read(path)
            if intent is not None:
                yield intent

    def _read(self, path: pathlib.Path) -> Intent | None:
        try:
            return Intent(**json.loads(path.read_text('utf-8')))
        except FileNotFoundError:
            # Done with, since somebody looked which there are.
            return None
        except (OSError, ValueError, TypeError) as exc:
            # Written whole or not at all, so this is a damaged disk.
            LOG.error('Setting aside the unreadable intent %s, whose '
                      'scratch files may be left: %s', path, exc)
            files.set_aside(path)
            return None
