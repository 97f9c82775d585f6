# SPDX-License-Identifier: Apache-2.0
"""Freezes: when each began and ended, and why it ended.

Like actions, they are written in the transaction that moves their server,
with its row locked.
"""

import datetime

import sqlalchemy as sa

from stillframe.db import base
from stillframe.db import models

#: end_reason where the one who had it frozen asked for the end.
BY_REQUEST = 'unquiesce'
#: end_reason where an administrator reset the server.
RESET = 'reset'
#: end_reason where no worker has told (yet).
UNREPORTED = 'unreported'
#: end_reason where the work could not be handed to a worker.
NOT_SENT = 'not_sent'

# Written down without word from the worker, which may correct them.
_UNSEEN = (RESET, UNREPORTED, NOT_SENT)

_z = models.freezes

# Built once, since each quiesce and its end run them.
_INSERT = sa.insert(_z)
_OF = (_z.c.server_uuid == sa.bindparam('server'),
       _z.c.freeze_id == sa.bindparam('freeze'))
_ONE = sa.select(_z).where(*_OF)
_BEGAN = sa.update(_z).where(*_OF)
_END = sa.update(_z).where(
    *_OF, sa.or_(_z.c.ended_at.is_(None), _z.c.end_reason.in_(_UNSEEN)))


def start(conn: sa.engine.Connection, server_uuid: str, freeze_id: str,
          host: str, timeout: float, now: datetime.datetime) -> None:
    """Record a freeze that is asked for.

    :param freeze_id: the request id of the quiesce.
    :param timeout: seconds from the freeze call to the automatic thaw.
    """
    conn.execute(_INSERT, {
        'server_uuid': server_uuid, 'freeze_id': freeze_id, 'host': host,
        'timeout': timeout, 'created_at': now})


def began(conn: sa.engine.Connection, server_uuid: str,
          freeze_id: str | None, host: str, frozen_at: datetime.datetime,
          filesystems: int | None) -> None:
    """Record that the guest is frozen."""
    conn.execute(_BEGAN, {
        'server': server_uuid, 'freeze': freeze_id, 'frozen_at': frozen_at,
        'filesystems': filesystems, 'host': host})


def end(conn: sa.engine.Connection, server_uuid: str, freeze_id: str,
        ended_at: datetime.datetime, reason: str) -> None:
    """Record that a freeze is over; the first word of a worker counts."""
    conn.execute(_END, {
        'server': server_uuid, 'freeze': freeze_id, 'ended_at': ended_at,
        'end_reason': base.clip(_z.c.end_reason, reason)})


def give_up(conn: sa.engine.Connection, server_uuid: str,
            freeze_id: str | None, now: datetime.datetime,
            reason: str) -> None:
    """Record, without word from a worker, that a freeze is over.

    Changes nothing when it is over already.

    :param freeze_id: None changes nothing.
    """
    if freeze_id is not None:
        conn.execute(
            sa.update(_z)
            .where(_of(server_uuid, freeze_id), _z.c.ended_at.is_(None))
            .values(ended_at=now, end_reason=reason))


def get(conn: sa.engine.Connection, server_uuid: str,
        freeze_id: str | None) -> sa.RowMapping | None:
    """Give a freeze of a server, None when there is none."""
    if freeze_id is None:
        return None
    return conn.execute(
        _ONE, {'server': server_uuid, 'freeze': freeze_id}
    ).mappings().one_or_none()


def stands(freeze: sa.RowMapping | None) -> bool:
    """Tell whether a freeze began and is not known to be over."""
    return (freeze is not None and freeze['frozen_at'] is not None
            and freeze['ended_at'] is None)


def seen_to_end(freeze: sa.RowMapping | None) -> bool:
    """Tell whether a worker has reported the end of a freeze."""
    return (freeze is not None and freeze['ended_at'] is not None
            and freeze['end_reason'] not in _UNSEEN)


def _of(server_uuid: str, freeze_id: str | None
        ) -> sa.ColumnElement[bool]:
    return sa.and_(_z.c.server_uuid == server_uuid,
                   _z.c.freeze_id == freeze_id)
