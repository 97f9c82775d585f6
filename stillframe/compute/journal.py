# SPDX-License-Identifier: Apache-2.0
"""The freeze journal: one file for each guest that may be frozen.

A record is on disk before the guest agent is told to freeze, and goes only
after the guest was seen thawed (or is gone) and the outcome is safely in
the outbox. It holds all that the guard needs to thaw the guest when every
other process is dead. Beside the records lie the guard's results.

Records are written by the worker alone, results by the guard alone.
Standard library only: the guard uses this too.
"""

from collections.abc import Iterator
import dataclasses
import json
import os
import pathlib
import re
import typing
from typing import Any

from stillframe.compute import clock
from stillframe.compute import files

FREEZING = 'freezing'
FROZEN = 'frozen'
THAWING = 'thawing'

# Seconds; of numbers that went through text.
_ROUNDING = 1.0
_RECORD = '.freeze.json'
_RESULT = '.result.json'
_UUID = re.compile(r'[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}')


class Unreadable(Exception):
    """A record is there but cannot be understood."""


@dataclasses.dataclass(frozen=True)
class Ending:
    """Why a freeze is being ended, and whom that has to be told.

    :ivar kind: the outcome's kind; see :mod:`stillframe.rpc.payloads`.
    :ivar request_id: the outcome's request id. It is stored before the
        thaw, so that a restarted worker reports under the same one.
    :ivar reason: a stable word, None for a request.
    :ivar started_at: wall clock.
    :ivar state: for a reset: the vm_state wished for.
    :ivar message: what went wrong, when that is why it is being ended.
    :ivar detail: the same for administrators.
    :ivar told: the outcome is in the outbox already, with the guest not
        seen thawed; what is left to report is that it was.
    """

    kind: str
    request_id: str
    reason: str | None
    started_at: str
    state: str | None = None
    message: str | None = None
    detail: str | None = None
    told: bool = False


@dataclasses.dataclass(frozen=True)
class Record:
    """One guest that is frozen, or may be.

    :ivar request_id: of the quiesce: the id of this freeze.
    :ivar domain_id: libvirt's number for this run of the domain.
    :ivar boot_id: the host's boot in which the moments below count.
    :ivar deadline: moment (:func:`clock.now`) to thaw at.
    :ivar called: moment at which the freeze call was sent.
    :ivar may_freeze_until: moment up to which the freeze call can still
        reach the guest, whatever the guest answers before: libvirt may hold
        it back behind another command. 0 once the call has come back.
    :ivar timeout: seconds from the freeze call to the deadline.
    :ivar filesystems: how many were frozen, once known.
    :ivar freeze_call: seconds until the freeze was acknowledged.
    :ivar told: the outcome of the quiesce is in the outbox.
    :ivar brief: the worker froze it for a step of its own, which it ends
        itself; nobody was told that the server is quiesced.
    """

    server_id: str
    request_id: str
    connection_uri: str
    domain_id: int
    boot_id: str
    state: str
    timeout: float
    deadline: float
    called: float
    started_at: str
    may_freeze_until: float = 0.0
    filesystems: int | None = None
    freeze_call: float | None = None
    frozen_at: str | None = None
    told: bool = False
    ending: Ending | None = None
    brief: bool = False
    version: int = 1

    def remaining(self) -> float:
        """Give the seconds until the deadline; negative when overdue.

        A record of an earlier boot of the host is overdue, and so is one
        that has longer to go than was ever granted: it is damaged, and a
        deadline that never comes would be none.
        """
        left = self.deadline - clock.now()
        if self.boot_id != clock.boot_id() or left > self.timeout + _ROUNDING:
            return -1.0
        return left

    def acknowledged(self, called: float, filesystems: int) -> 'Record':
        """Give a copy that knows that the freeze call has come back.

        :param called: moment at which the call was sent.
        """
        return self.having(
            called=called, freeze_call=clock.now() - called,
            frozen_at=clock.wall(), filesystems=filesystems,
            may_freeze_until=0.0)

    def having(self, **changes: Any) -> 'Record':
        """Give a changed copy."""
        return dataclasses.replace(self, **changes)


@dataclasses.dataclass(frozen=True)
class Result:
    """What the guard found and did.

    :ivar request_id: the freeze's id; None when the record was unreadable.
    :ivar gone: the domain no longer runs; else it was verified thawed.
    :ivar was_frozen: it was frozen when the guard came.
    :ivar thawed: file systems that the thaw released.
    :ivar moment: when it was verified (:func:`clock.now`).
    :ivar thaw_call: seconds until the thaw was acknowledged.
    """

    server_id: str
    request_id: str | None
    gone: bool
    was_frozen: bool
    thawed: int
    boot_id: str
    moment: float
    at: str
    thaw_call: float | None = None


def _load(kind: type, text: str) -> Any:
    """Build a dataclass from JSON; keys that a newer writer added go.

    :raises ValueError, TypeError, AttributeError: it is another thing, or
        one of its values is.
    """
    try:
        values = json.loads(text)
    except RecursionError:
        raise ValueError('nested too deeply') from None
    hints = typing.get_type_hints(kind)
    known = {name: value for name, value in values.items()
             if name in hints}
    for name, value in known.items():
        if not _fits(value, hints[name]):
            raise ValueError(f'{name} is {str(value)[:64]}')
    return kind(**known)


def _fits(value: object, hint: Any) -> bool:
    """Tell whether a value may stand where a type is declared.

    Of what a damaged record says, nothing is to be met first by the code
    that has to thaw.
    """
    kinds = typing.get_args(hint) or (hint,)
    if Ending in kinds and isinstance(value, dict):
        # It is built, and looked at, on its own.
        return True
    if isinstance(value, bool):
        return bool in kinds
    if isinstance(value, int | float) and float in kinds:
        # No moment and no length of time has more digits.
        return abs(value) < 1e15
    return isinstance(value, kinds)


def _dump(thing: Any) -> str:
    return json.dumps(dataclasses.asdict(thing), indent=1)


class Journal:
    """The records and results below one folder."""

    def __init__(self, state_path: str | os.PathLike):
        self.folder = pathlib.Path(state_path) / 'freezes'
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def _path(self, server_id: str, ending: str) -> pathlib.Path:
        if not _UUID.fullmatch(server_id):
            raise ValueError(f'not the id of a server: {server_id!r}')
        return self.folder / (server_id + ending)

    def write(self, record: Record, durably: bool = True) -> None:
        """Keep a record.

        :param durably: also after a power cut.
        :raises OSError: it could not be written.
        """
        files.write(self._path(record.server_id, _RECORD), _dump(record),
                    durably)

    def read(self, server_id: str) -> Record | None:
        """Give a server's record, or None.

        :raises Unreadable: there is one, damaged or of a later version.
        :raises ValueError: that is not the id of a server.
        """
        path = self._path(server_id, _RECORD)
        try:
            text = path.read_text('utf-8')
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as exc:
            raise Unreadable(f'{server_id}: {exc}') from exc
        try:
            record = _load(Record, text)
            if record.ending is not None:
                record = record.having(
                    ending=_load(Ending, json.dumps(record.ending)))
        except (ValueError, TypeError, AttributeError) as exc:
            raise Unreadable(f'{server_id}: {exc}') from exc
        if record.version != 1 or record.server_id != server_id:
            raise Unreadable(f'{server_id}: not a record of version 1')
        return record

    def servers(self) -> Iterator[str]:
        """Give the ids of the servers that have a record."""
        for path in sorted(self.folder.glob('*' + _RECORD)):
            server_id = path.name.removesuffix(_RECORD)
            if _UUID.fullmatch(server_id):
                yield server_id

    def remove(self, server_id: str) -> None:
        """Forget a freeze, and the guard's result for it."""
        self._path(server_id, _RESULT).unlink(missing_ok=True)
        files.remove(self._path(server_id, _RECORD))

    def write_result(self, result: Result) -> None:
        """Keep what the guard did (by the guard only)."""
        files.write(self._path(result.server_id, _RESULT), _dump(result))

    def result(self, record: Record) -> Result | None:
        """Give the guard's result for this freeze, if there is one."""
        found = self.any_result(record.server_id)
        if found is None or found.request_id != record.request_id:
            return None
        return found

    def any_result(self, server_id: str) -> Result | None:
        """Give the guard's result for a server, whatever its freeze."""
        try:
            text = self._path(server_id, _RESULT).read_text('utf-8')
            return _load(Result, text)
        except (OSError, ValueError, TypeError, AttributeError):
            # Not there, or damaged: the same as a guard that did nothing,
            # since the worker then looks at the guest itself.
            return None

    def sweep_records(self) -> None:
        """Remove halves of records (by the worker, at its start)."""
        files.sweep(self.folder, _RECORD)

    def sweep_results(self) -> None:
        """Remove halves of results (by the guard, at its start)."""
        files.sweep(self.folder, _RESULT)
