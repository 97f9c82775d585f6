# SPDX-License-Identifier: Apache-2.0
"""What this worker is doing to volumes: one file for each request.

A file is there from before the first change until the outcome is safely in
the outbox, so a worker that was killed knows what it had begun, and what
the chain was before.
"""

from collections.abc import Iterator
import dataclasses
import json
import pathlib
from typing import Any

from oslo_log import log

from stillframe.compute import files
from stillframe.rpc import payloads

LOG = log.getLogger(__name__)

_ENDING = '.intent.json'

#: Taken up; nothing was changed.
CLAIMED = 'claimed'
#: The change may have begun.
CHANGING = 'changing'


@dataclasses.dataclass(frozen=True)
class Intent:
    """One request that is being worked on.

    :ivar snapshot: the request.
    :ivar claim: the answer to the claim; None while it is asked for.
    :ivar started_at: wall clock.
    :ivar phase: :data:`CLAIMED` or :data:`CHANGING`.
    :ivar chain_before: the chain before the change, once it was seen.
    :ivar freeze, consistency: of a create: how the guest was frozen for it,
        once that is known.
    """

    snapshot: payloads.VolumeSnapshot
    claim: payloads.VolumeSnapshotClaim | None
    started_at: str
    phase: str = CLAIMED
    chain_before: list[dict[str, str | None]] | None = None
    consistency: str | None = None
    freeze: dict[str, Any] | None = None
    version: int = 1

    @property
    def operation_id(self) -> str:
        """The request's id."""
        return self.snapshot['operation_id']

    def having(self, **changes: Any) -> 'Intent':
        """Give a changed copy."""
        return dataclasses.replace(self, **changes)


class Intents:
    """The intents below one folder."""

    def __init__(self, state_path: str):
        self._folder = pathlib.Path(state_path) / 'volume_snapshots'
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        files.sweep(self._folder, _ENDING)

    def _path(self, operation_id: str) -> pathlib.Path:
        return self._folder / (operation_id + _ENDING)

    def write(self, intent: Intent) -> Intent:
        """Keep an intent durably.

        :raises OSError: the disk refused it.
        """
        files.write(self._path(intent.operation_id),
                    json.dumps(dataclasses.asdict(intent), indent=1))
        return intent

    def remove(self, intent: Intent) -> None:
        """Forget an intent whose outcome is kept."""
        files.remove(self._path(intent.operation_id))

    def has(self, operation_id: str) -> bool:
        """Tell whether there is an intent of a request."""
        return self._path(operation_id).exists()

    def all(self) -> Iterator[Intent]:
        """Give what an earlier life left."""
        for path in sorted(self._folder.glob('*' + _ENDING)):
            try:
                values = json.loads(path.read_text('utf-8'))
                intent = Intent(**values)
                if intent.version != 1:
                    raise ValueError('of another version')
            except (ValueError, TypeError) as exc:
                # Written whole or not at all, so this is a damaged disk.
                LOG.error('Setting aside the unreadable intent %s: %s',
                          path, exc)
                files.set_aside(path)
                continue
            yield intent
