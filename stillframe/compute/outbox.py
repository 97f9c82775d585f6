# SPDX-License-Identifier: Apache-2.0
"""Outcomes on their way to the conductor, kept until it has taken them.

A folder of numbered JSON files; one thread delivers them in order. What was
put is on disk when :meth:`Outbox.put` returns, so a worker that is killed
sends it in its next life.
"""

import collections
from collections.abc import Callable
import json
import pathlib
import threading

from oslo_log import log

from stillframe import exceptions
from stillframe.compute import clock
from stillframe.compute import files
from stillframe.rpc import payloads

LOG = log.getLogger(__name__)

_ENDING = '.outcome.json'
# What is looked at here; the conductor checks the rest.
_NEEDED = ('id', 'kind', 'server_id', 'request_id', 'result')
_BATCH = 50
_REMEMBERED = 1000
_FIRST_BACKOFF = 0.25
_MOST_BACKOFF = 10.0

Send = Callable[[list[payloads.Outcome]], list[payloads.Verdict]]
Answered = Callable[[payloads.Outcome, str], None]


class Outbox:
    """Reports that have not been acknowledged."""

    def __init__(self, state_path: str, send: Send, answered: Answered):
        """Open the folder.

        :param send: hands outcomes to the conductor; raises
            ServiceUnavailable when it did not take them.
        :param answered: is told each verdict, after the outcome is gone.
        """
        self._folder = pathlib.Path(state_path) / 'outbox'
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        files.sweep(self._folder, _ENDING)
        self._send = send
        self._answered = answered
        self._lock = threading.Lock()
        self._waiting: dict[int, payloads.Outcome] = {}
        self._load()
        self._next = max(self._waiting, default=0) + 1
        self._delivered: collections.OrderedDict[str, float] = (
            collections.OrderedDict())
        self._wake = threading.Event()
        self._stopping = False
        self._thread = threading.Thread(
            target=self._deliver, name='outbox', daemon=True)

    def _load(self) -> None:
        for path in sorted(self._folder.glob('*' + _ENDING)):
            try:
                number = int(path.name.removesuffix(_ENDING))
                self._waiting[number] = _read(path)
            except (OSError, ValueError, RecursionError) as exc:
                # Written whole or not at all, so this is a damaged disk.
                LOG.error('Setting aside the unreadable report %s: %s',
                          path, exc)
                files.set_aside(path)

    def _path(self, number: int) -> pathlib.Path:
        return self._folder / f'{number:020d}{_ENDING}'

    def start(self) -> None:
        """Begin to deliver."""
        self._thread.start()

    def stop(self) -> None:
        """Stop delivering; what is left goes in the next life."""
        self._stopping = True
        self._wake.set()
        self._thread.join(30)

    def put(self, outcome: payloads.Outcome) -> None:
        """Keep an outcome durably, and send it soon.

        One whose id is waiting already is not kept twice. One that the
        disk refuses is kept in memory: better told than not.
        """
        with self._lock:
            if any(one['id'] == outcome['id']
                   for one in self._waiting.values()):
                return
            number = self._next
            try:
                files.write(self._path(number),
                            json.dumps(outcome, indent=1))
            except OSError as exc:
                LOG.error('The outcome of %s %s cannot be written to disk, '
                          'so it would not survive this process: %s',
                          outcome['kind'], outcome['request_id'], exc)
            self._next += 1
            self._waiting[number] = outcome
        self._wake.set()

    def about(self, freeze_id: str) -> bool:
        """Tell whether something about a freeze is still waiting."""
        with self._lock:
            return any(freeze_id in (one.get('freeze_id'), one['request_id'])
                       for one in self._waiting.values())

    def delivered(self, freeze_id: str, since: float) -> bool:
        """Tell whether something about a freeze was taken since a moment.

        :param since: a moment of :func:`stillframe.compute.clock.now`.
        """
        with self._lock:
            return self._delivered.get(freeze_id, -1.0) >= since

    def __len__(self) -> int:
        with self._lock:
            return len(self._waiting)

    def _deliver(self) -> None:
        backoff = _FIRST_BACKOFF
        batch = _BATCH
        while not self._stopping:
            with self._lock:
                # Cleared together with the look, so that no put is missed.
                self._wake.clear()
                chosen = sorted(self._waiting.items())[:batch]
            if not chosen:
                self._wake.wait()
                continue
            try:
                verdicts = self._send([outcome for _, outcome in chosen])
            except Exception as exc:  # noqa: BLE001
                if isinstance(exc, exceptions.ServiceUnavailable):
                    LOG.warning('%s outcomes wait for the conductor: %s',
                                len(self), exc)
                else:
                    # Whatever it is, it is no reason to stop reporting.
                    LOG.exception('%s outcomes could not be sent',
                                  len(self))
                # One that the conductor chokes on must not take others
                # with it each time.
                batch = 1
                self._wake.wait(backoff)
                backoff = min(backoff * 2, _MOST_BACKOFF)
                continue
            backoff = _FIRST_BACKOFF
            batch = _BATCH
            self._acknowledge(chosen, verdicts)

    def _acknowledge(self, chosen: list[tuple[int, payloads.Outcome]],
                     verdicts: list[payloads.Verdict]) -> None:
        by_id = {one['id']: one['verdict'] for one in verdicts}
        for number, outcome in chosen:
            verdict = by_id.get(outcome['id'])
            if verdict is None:
                LOG.error('The conductor said nothing about outcome %s of '
                          'server %s; sending it again', outcome['id'],
                          outcome['server_id'])
                self._wake.wait(_FIRST_BACKOFF)
                continue
            files.remove(self._path(number))
            with self._lock:
                del self._waiting[number]
                freeze_id = outcome.get('freeze_id')
                if freeze_id is not None:
                    self._delivered[freeze_id] = clock.now()
                    while len(self._delivered) > _REMEMBERED:
                        self._delivered.popitem(last=False)
            LOG.info('Outcome %s of %s %s: %s',
                     outcome['result'], outcome['kind'],
                     outcome['request_id'], verdict)
            self._answered(outcome, verdict)


def _read(path: pathlib.Path) -> payloads.Outcome:
    """Read an outcome.

    :raises OSError, ValueError, RecursionError: it is not one. Kept, it
        would be in the way of each that comes after it.
    """
    outcome = json.loads(path.read_text('utf-8'))
    if not isinstance(outcome, dict) or not all(
            isinstance(outcome.get(key), str) for key in _NEEDED):
        raise ValueError('not an outcome')
    return outcome  # type: ignore[return-value]
