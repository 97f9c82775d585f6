# SPDX-License-Identifier: Apache-2.0
"""Applying what compute workers report of ended work.

A report may come twice, late, or after somebody else decided. What it may
change is therefore decided by what the database says of the request and of
the freeze, in one transaction with the server's row locked. Two rules hold
whatever comes in whatever order:

* a request's outcome moves the server only while that request holds it;
* a server is not left quiesced by a freeze that is known to be over.
"""

import datetime
import typing
from typing import Any

import sqlalchemy as sa

from stillframe.db import actions
from stillframe.db import base
from stillframe.db import faults
from stillframe.db import freezes
from stillframe.db import models
from stillframe.db import transitions
from stillframe.rpc import payloads
from stillframe.states import servers as states

_s = models.servers

# The end of what a request asked for, and of what nobody asked for.
_OF_REQUESTS = frozenset((*states.TRANSITIONS, 'reset'))
_OF_SYSTEM = frozenset(('freeze_ended', 'thawed'))

# What the columns take.
_REQUEST_ID_MAX = 64

_TYPES = typing.get_type_hints(payloads.Outcome)

# Built once: while one of these runs, a frozen guest waits for the next
# step of whoever has it frozen.
_LOCKED = sa.select(_s).where(
    _s.c.uuid == sa.bindparam('one')).with_for_update()
_UPDATE = sa.update(_s).where(_s.c.uuid == sa.bindparam('one'))


@base.retry()
def apply(host: str, outcome: payloads.Outcome) -> str:
    """Apply one outcome.

    :return: a verdict of :mod:`stillframe.rpc.payloads`.
    :raises ServiceUnavailable: the database cannot be reached; the worker
        keeps the outcome and sends it again.
    :raises KeyError, TypeError, ValueError: the outcome is malformed.
    """
    now = base.utcnow()
    _check(outcome)
    with base.writer() as conn:
        row = conn.execute(_LOCKED, {'one': outcome['server_id']}
                           ).mappings().one_or_none()
        if row is None:
            return payloads.UNKNOWN
        if outcome['kind'] in _OF_SYSTEM:
            return _system_thaw(conn, row, host, outcome, now)
        if row['task_request_id'] != outcome['request_id']:
            return _late(conn, row, host, outcome, now)
        if outcome['kind'] == 'reset':
            return _end_reset(conn, row, outcome, now)
        return _end_transition(conn, row, host, outcome, now)


def _check(outcome: payloads.Outcome) -> None:
    """Refuse what the database would stumble over.

    :raises KeyError, TypeError, ValueError: what is wrong.
    """
    for key, kind in _TYPES.items():
        if key in payloads.Outcome.__optional_keys__ and key not in outcome:
            continue
        value = outcome[key]  # type: ignore[literal-required]
        if type(value) is int and isinstance(0.0, kind):
            continue
        if not isinstance(value, kind):
            raise TypeError(f'{key} of an outcome is {value!r}')
    if outcome['kind'] not in _OF_REQUESTS | _OF_SYSTEM:
        raise ValueError(f"unknown kind of outcome: {outcome['kind']}")
    if len(outcome['request_id']) > _REQUEST_ID_MAX:
        raise ValueError(f"request id too long: {outcome['request_id']}")


def _end_transition(conn: sa.engine.Connection, row: sa.RowMapping,
                    host: str, outcome: payloads.Outcome,
                    now: datetime.datetime) -> str:
    """End the request that holds a server."""
    kind = outcome['kind']
    result = states.Result(outcome['result'])
    freeze = freezes.get(conn, row['uuid'], outcome['freeze_id'])
    froze = kind == 'quiesce' and result is states.Result.SUCCESS
    message = outcome['message']
    if froze:
        freezes.began(conn, row['uuid'], outcome['freeze_id'], host,
                      when(outcome['frozen_at']) or now,
                      outcome['filesystems'])
    _end_freeze(conn, row, outcome, now)
    if (freeze is not None and freeze['ended_at'] is not None
            and states.after(kind, result) == states.QUIESCED):
        # The end of the freeze was reported before this.
        result = states.Result.LOST
        message += (' The freeze has ended since '
                    f'({freeze["end_reason"]}): a snapshot taken of it '
                    'is not consistent.')
    values: dict[str, Any] = {}
    if kind == 'quiesce' and result in (states.Result.SUCCESS,
                                        states.Result.LOST):
        values['freeze_id'] = outcome['freeze_id']
    vm_state = states.after(kind, result)
    if vm_state == states.ACTIVE:
        # It may have been paused or shut off while this went on.
        vm_state = states.vm_state_of_power(row['power_state'])
    _release(conn, row, vm_state, now, **values)
    if result is states.Result.FAILED:
        _save_fault(conn, row, host, outcome, now)
    _finish(conn, row, outcome, now, result, message)
    return payloads.APPLIED


def _end_reset(conn: sa.engine.Connection, row: sa.RowMapping,
               outcome: payloads.Outcome, now: datetime.datetime) -> str:
    _end_freeze(conn, row, outcome, now)
    _release(conn, row, outcome.get('state') or states.ERROR, now)
    _finish(conn, row, outcome, now, states.Result(outcome['result']),
            outcome['message'])
    return payloads.APPLIED


def _late(conn: sa.engine.Connection, row: sa.RowMapping, host: str,
          outcome: payloads.Outcome, now: datetime.datetime) -> str:
    """Take an outcome whose request does not hold the server.

    It was reported before, or the request was given up, reset or deleted
    meanwhile; each of these has ended the action.
    """
    result = states.Result(outcome['result'])
    if outcome['kind'] == 'quiesce':
        freeze = freezes.get(conn, row['uuid'], outcome['freeze_id'])
        if result is states.Result.SUCCESS:
            return (payloads.DUPLICATE if freeze is not None
                    and freeze['frozen_at'] is not None else payloads.STALE)
        if result is states.Result.CANNOT and freezes.stands(freeze):
            # "Nothing was frozen" does not undo what was told before.
            return payloads.DUPLICATE
    # An unquiesce may have been sent though its sender was told that it was
    # not; a worker that was killed may tell a second end of a quiesce.
    _end_freeze(conn, row, outcome, now)
    _unfreeze(conn, row, host, outcome, now)
    return payloads.DUPLICATE


def _system_thaw(conn: sa.engine.Connection, row: sa.RowMapping, host: str,
                 outcome: payloads.Outcome,
                 now: datetime.datetime) -> str:
    """Record a thaw that nobody asked for, as an action of the system."""
    if row['host'] != host and outcome['reason'] == 'stopped':
        # It stopped there because it moved here, its freeze with it.
        return payloads.APPLIED
    if actions.lookup(conn, row['uuid'], outcome['request_id']) is not None:
        return payloads.DUPLICATE
    freeze = freezes.get(conn, row['uuid'], outcome['freeze_id'])
    if freezes.seen_to_end(freeze):
        # A worker that missed its own report asks about it again.
        return payloads.DUPLICATE
    actions.start(conn, row['uuid'], 'unquiesce', outcome['request_id'],
                  None, row['project_id'],
                  when(outcome['started_at']) or now,
                  event=actions.event_name('unquiesce'), host=host)
    _finish(conn, row, outcome, now, states.Result(outcome['result']),
            outcome['message'])
    _end_freeze(conn, row, outcome, now)
    _unfreeze(conn, row, host, outcome, now)
    return payloads.APPLIED


def _unfreeze(conn: sa.engine.Connection, row: sa.RowMapping, host: str,
              outcome: payloads.Outcome, now: datetime.datetime) -> None:
    """Stop showing a server as quiesced by a freeze that is over."""
    if (row['vm_state'] != states.QUIESCED
            or row['freeze_id'] != _freeze_id(row, outcome)
            or row['task_state'] is not None):
        # With a request on its way, that one's outcome moves the server.
        return
    if outcome['result'] == states.Result.FAILED:
        _save_fault(conn, row, host, outcome, now)
        _release(conn, row, states.ERROR, now)
    elif _says_over(outcome):
        _release(conn, row, states.vm_state_of_power(row['power_state']),
                 now)


def _release(conn: sa.engine.Connection, row: sa.RowMapping, vm_state: str,
             now: datetime.datetime, **values: Any) -> None:
    conn.execute(_UPDATE, {
        'one': row['uuid'], 'vm_state': vm_state, 'updated_at': now,
        **transitions.FREE, **values})


def _freeze_id(row: sa.RowMapping, outcome: payloads.Outcome) -> str | None:
    """Tell which freeze an outcome is about; a reset may not know it."""
    if outcome['kind'] == 'reset':
        return outcome['freeze_id'] or row['freeze_id']
    return outcome['freeze_id']


def _says_over(outcome: payloads.Outcome) -> bool:
    """Tell whether an outcome says that its freeze is over."""
    result = states.Result(outcome['result'])
    if outcome['verified_thawed'] or result is states.Result.LOST:
        return True
    if outcome['kind'] == 'quiesce':
        return result is states.Result.CANNOT
    return (outcome['kind'] != 'reset'
            and result is states.Result.SUCCESS)


def _end_freeze(conn: sa.engine.Connection, row: sa.RowMapping,
                outcome: payloads.Outcome, now: datetime.datetime) -> None:
    """Record that a freeze is over, if this outcome says so."""
    freeze_id = _freeze_id(row, outcome)
    if freeze_id is None or not _says_over(outcome):
        return
    if outcome['kind'] == 'reset':
        reason = freezes.RESET
    elif (outcome['kind'] == 'unquiesce'
          and outcome['result'] == states.Result.SUCCESS):
        reason = freezes.BY_REQUEST
    else:
        reason = outcome['reason'] or outcome['result']
    freezes.end(conn, row['uuid'], freeze_id,
                when(outcome['ended_at']) or now, reason)


def _save_fault(conn: sa.engine.Connection, row: sa.RowMapping, host: str,
                outcome: payloads.Outcome, now: datetime.datetime) -> None:
    faults.save(conn, row['uuid'], outcome['request_id'],
                outcome['message'], outcome['detail'], host, now)


def _finish(conn: sa.engine.Connection, row: sa.RowMapping,
            outcome: payloads.Outcome, now: datetime.datetime,
            result: states.Result, message: str) -> None:
    actions.finish(
        conn, row['uuid'], outcome['request_id'], now, message,
        actions.SUCCESS if result is states.Result.SUCCESS
        else actions.ERROR,
        details=describe(outcome),
        finished_at=when(outcome['finished_at']))


def describe(outcome: payloads.Outcome) -> str:
    """Write the figures of an outcome as one line for an event's details."""
    parts = []
    for key, text in (('filesystems', '{} file systems frozen'),
                      ('thawed', '{} file systems thawed'),
                      ('freeze_call', 'freeze call {:.3f} s'),
                      ('thaw_call', 'thaw call {:.3f} s'),
                      ('frozen_for', 'frozen for {:.3f} s'),
                      ('timeout', 'automatic thaw after {:g} s'),
                      ('reason', 'reason {}'),
                      ('detail', '{}')):
        value = outcome.get(key)
        if value is not None:
            parts.append(text.format(value))
    return '; '.join(parts)


def when(text: str | None) -> datetime.datetime | None:
    """Read a time of a payload; None for None and for what is no time."""
    if text is None:
        return None
    try:
        return datetime.datetime.fromisoformat(text).replace(tzinfo=None)
    except ValueError:
        return None
