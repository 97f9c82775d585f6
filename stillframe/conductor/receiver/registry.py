# SPDX-License-Identifier: Apache-2.0
"""The transfers that this conductor knows of."""

from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
import contextlib
import threading
from typing import Any

from oslo_log import log

from stillframe.conductor.receiver import storing
from stillframe.conductor.receiver import transfers
from stillframe.states.transfers import HELD
from stillframe.states.transfers import State

LOG = log.getLogger(__name__)


class Registry:
    """Transfers by name; any thread may ask."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_name: dict[str, transfers.Transfer] = {}

    def add(self, transfer: transfers.Transfer) -> None:
        """Know one more."""
        with self._lock:
            self._by_name[transfer.name] = transfer

    def forget(self, name: str) -> None:
        """Know one less; no error when it was not known."""
        with self._lock:
            self._by_name.pop(name, None)

    def get(self, name: str) -> transfers.Transfer | None:
        """Give the transfer of a name."""
        with self._lock:
            return self._by_name.get(name)

    def all(self) -> list[transfers.Transfer]:
        """Give all of them."""
        with self._lock:
            return list(self._by_name.values())

    def of_snapshot(self, snapshot_id: str) -> list[transfers.Transfer]:
        """Give those of a snapshot, also such that are being closed."""
        return [one for one in self.all() if one.snapshot_id == snapshot_id]


@contextlib.contextmanager
def complaint(name: str) -> Iterator[None]:
    """Go on when a file cannot be removed: that is tried again later."""
    try:
        yield
    except OSError as exc:
        LOG.error('The files of transfer %s cannot be removed: %s', name,
                  exc.strerror)


def recover(registry: Registry, folder: storing.Folder,
            rows: Iterable[Mapping[Any, Any]]) -> None:
    """Know the transfers of a former life; remove what is nobody's.

    :param rows: those that the database has of this conductor.
    """
    for row in rows:
        if registry.get(row['name']) is None:
            registry.add(_known(row, folder))
    for name in folder.names():
        with complaint(name):
            if registry.get(name) is None:
                folder.remove(name)
            else:
                folder.remove_part(name)


def _known(row: Mapping[Any, Any], folder: storing.Folder
           ) -> transfers.Transfer:
    """Make of a row what fits to the file that is there."""
    state, size = State(row['state']), row['received']
    try:
        here = folder.image(row['name']).stat().st_size
    except FileNotFoundError:
        here = None
    if state in HELD and here != size:
        LOG.error('The image of snapshot %s is not what it was when this '
                  'conductor stopped: %s bytes instead of %s',
                  row['snapshot_uuid'], here, size)
        state = State.WAITING
    if state is State.WAITING:
        # One that was not written down did not arrive: its agent got no
        # answer.
        with complaint(row['name']):
            folder.remove(row['name'])
    held = state in HELD
    return transfers.Transfer(
        row['name'], row['snapshot_uuid'], row['credential_hash'],
        state, size if held else 0,
        row['sha256'] if held else None)
