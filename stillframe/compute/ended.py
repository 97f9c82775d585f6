# SPDX-License-Identifier: Apache-2.0
"""What is remembered of a freeze after its record is gone.

One small file a server. It answers "when and why did it end" to a late
unquiesce, and recognises a request that arrives a second time.
"""

import dataclasses
import json
import pathlib
import threading
import time

from oslo_log import log

from stillframe.compute import files

LOG = log.getLogger(__name__)

_ENDING = '.ended.json'
_KEEP = 24 * 3600.0


@dataclasses.dataclass(frozen=True)
class Ended:
    """How a freeze ended.

    :ivar ended_at: wall clock, None where nobody knows.
    """

    freeze_id: str
    reason: str
    ended_at: str | None
    message: str


class Memory:
    """The last freeze of each server, for a day."""

    def __init__(self, state_path: str):
        self._folder = pathlib.Path(state_path) / 'ended'
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        files.sweep(self._folder, _ENDING)
        self._lock = threading.Lock()

    def _path(self, server_id: str) -> pathlib.Path:
        return self._folder / (server_id + _ENDING)

    def remember(self, server_id: str, ended: Ended) -> None:
        """Keep how a server's freeze ended; no disk is waited for."""
        try:
            with self._lock:
                files.write(self._path(server_id),
                            json.dumps(dataclasses.asdict(ended)),
                            durably=False)
        except OSError as exc:
            # It only makes a later sentence better.
            LOG.error('How the freeze %s ended is not remembered: %s',
                      ended.freeze_id, exc)

    def recall(self, server_id: str, freeze_id: str) -> Ended | None:
        """Give how that freeze ended, if it was the server's last."""
        try:
            text = self._path(server_id).read_text('utf-8')
            ended = Ended(**json.loads(text))
        except (OSError, ValueError, TypeError):
            # It only makes a sentence better; without it there is one too.
            return None
        return ended if ended.freeze_id == freeze_id else None

    def prune(self) -> None:
        """Forget what is older than a day."""
        oldest = time.time() - _KEEP
        with self._lock:
            for path in self._folder.glob('*' + _ENDING):
                if path.stat().st_mtime < oldest:
                    path.unlink(missing_ok=True)
