# SPDX-License-Identifier: Apache-2.0
"""Instance actions and their events: what was asked, and how it went.

The functions that write take an open connection, since an action is always
written in the transaction that moves its server.
"""

from collections.abc import Sequence
import datetime
from typing import Any

import sqlalchemy as sa

from stillframe import exceptions
from stillframe.db import base
from stillframe.db import models

#: The values of an event's result.
SUCCESS = 'Success'
ERROR = 'Error'

_a = models.actions
_e = models.action_events

# Built once, since each request runs them.
_INSERT = sa.insert(_a)
_INSERT_EVENT = sa.insert(_e)
_OPEN = sa.update(_a).where(
    _a.c.server_uuid == sa.bindparam('server'),
    _a.c.request_id == sa.bindparam('request'), _a.c.finish_time.is_(None))
_OPEN_EVENTS = sa.update(_e).where(
    _e.c.action_id == sa.select(_a.c.id).where(
        _a.c.server_uuid == sa.bindparam('server'),
        _a.c.request_id == sa.bindparam('request')).scalar_subquery(),
    _e.c.finish_time.is_(None))


def event_name(action: str) -> str:
    """Give the name of the event in which a worker does an action."""
    return f'compute_{action}_server'


def start(conn: sa.engine.Connection, server_uuid: str, action: str,
          request_id: str, user_id: str | None, project_id: str | None,
          now: datetime.datetime, event: str | None = None,
          host: str | None = None) -> int:
    """Record that an action began.

    :param event: name of a first event; None for none.
    :param host: the host that does the event.
    :return: the action's row id.
    """
    key = conn.execute(_INSERT, {
        'server_uuid': server_uuid, 'action': action,
        # Without Keystone both are what the caller says.
        'request_id': request_id,
        'user_id': base.clip(_a.c.user_id, user_id),
        'project_id': base.clip(_a.c.project_id, project_id),
        'start_time': now, 'updated_at': now,
    }).inserted_primary_key
    if key is None:
        raise RuntimeError('the database gave no id for a new action')
    action_id = key[0]
    if event is not None:
        conn.execute(_INSERT_EVENT, {
            'action_id': action_id, 'event': event, 'start_time': now,
            'host': host})
    return action_id


def finish(conn: sa.engine.Connection, server_uuid: str, request_id: str,
           now: datetime.datetime, message: str, result: str,
           details: str | None = None,
           finished_at: datetime.datetime | None = None) -> None:
    """Record that an action ended; one that had ended stays as it was.

    :param result: of its open events.
    :param finished_at: when the work ended, if earlier than now.
    """
    which = {'server': server_uuid, 'request': request_id,
             'finish_time': finished_at or now}
    done = conn.execute(_OPEN, {
        **which, 'updated_at': now,
        'message': base.clip(_a.c.message, message)})
    if done.rowcount:
        conn.execute(_OPEN_EVENTS, {
            **which, 'result': result,
            'details': base.clip(_e.c.details, details)})


def lookup(conn: sa.engine.Connection, server_uuid: str,
           request_id: str) -> sa.RowMapping | None:
    """Give an action by its request id, None when there is none."""
    return conn.execute(
        sa.select(_a).where(_a.c.server_uuid == server_uuid,
                            _a.c.request_id == request_id)
    ).mappings().one_or_none()


def get(server_uuid: str, request_id: str
        ) -> tuple[sa.RowMapping, Sequence[sa.RowMapping]]:
    """Give an action with its events, oldest event first.

    :raises ActionNotFound: when there is none.
    """
    with base.reader() as conn:
        # The events first: each statement may see what was committed
        # before it, and an event that has ended must not be shown with an
        # action that has not yet got its message.
        events = conn.execute(
            sa.select(_e).join_from(_e, _a, _e.c.action_id == _a.c.id)
            .where(_a.c.server_uuid == server_uuid,
                   _a.c.request_id == request_id)
            .order_by(_e.c.start_time, _e.c.id)).mappings().all()
        action = lookup(conn, server_uuid, request_id)
        if action is None:
            raise exceptions.ActionNotFound(request_id=request_id)
        return action, events


def list_for_server(server_uuid: str, limit: int | None = None,
                    marker: str | None = None,
                    changes_since: datetime.datetime | None = None,
                    changes_before: datetime.datetime | None = None
                    ) -> Sequence[sa.RowMapping]:
    """List the actions of a server, newest first.

    :param limit: at most so many; None for all.
    :param marker: request id of the last action of the page before.
    :param changes_since: updated at this time or later.
    :param changes_before: updated at this time or earlier.
    :raises ActionNotFound: the marker is unknown.
    """
    query: Any = (sa.select(_a).where(_a.c.server_uuid == server_uuid)
                  .order_by(_a.c.start_time.desc(), _a.c.id.desc()))
    with base.reader() as conn:
        if marker is not None:
            row = lookup(conn, server_uuid, marker)
            if row is None:
                raise exceptions.ActionNotFound(request_id=marker)
            query = query.where(sa.or_(
                _a.c.start_time < row['start_time'],
                sa.and_(_a.c.start_time == row['start_time'],
                        _a.c.id < row['id'])))
        if changes_since is not None:
            query = query.where(_a.c.updated_at >= changes_since)
        if changes_before is not None:
            query = query.where(_a.c.updated_at <= changes_before)
        if limit is not None:
            query = query.limit(limit)
        return conn.execute(query).mappings().all()
