# SPDX-License-Identifier: Apache-2.0
"""Moving a server at a user's request, by compare-and-swap.

Each function is one transaction: the move, the action and the freeze are
written together or not at all, and before any work is handed out. Of
requests that race, the database lets one through.
"""

from collections.abc import Mapping
import datetime
import types
from typing import Any

import sqlalchemy as sa

from stillframe import context
from stillframe import exceptions
from stillframe.db import actions
from stillframe.db import base
from stillframe.db import freezes
from stillframe.db import models
from stillframe.db import servers
from stillframe.states import images
from stillframe.states import servers as states

RESET_ACTION = 'resetState'
#: The event of a reset that no worker has a part in.
RESET_EVENT = 'api_reset_server'
#: What a server's row says of a request, when none holds it.
FREE: Mapping[str, None] = types.MappingProxyType({
    'task_state': None, 'task_request_id': None, 'task_action': None,
    'task_started_at': None})

_WAIT_FOR_IMAGE: Mapping[str, str] = types.MappingProxyType({
    'quiesce': 'an image of it is being made. Try again when that is '
               'complete.',
    # It is let go as soon as only the data is to be sent.
    'unquiesce': 'the image that is being made of it still needs the '
                 'freeze. Try again in a moment.',
})

_s = models.servers

# Built once, since each request runs it; the parameters of the execution
# that bear names of columns are the new values.
_SWAP = sa.update(_s).where(
    _s.c.uuid == sa.bindparam('one'), _s.c.deleted.is_(False),
    _s.c.vm_state == sa.bindparam('needed'), _s.c.task_state.is_(None))


@base.retry()
def begin(ctxt: context.RequestContext, server_uuid: str, request: str,
          timeout: float | None = None) -> sa.RowMapping:
    """Move a server into the task of a request and record the action.

    :param request: ``quiesce`` or ``unquiesce``.
    :param timeout: of a quiesce, which must have one: seconds until the
        automatic thaw.
    :return: the server's row after the move.
    :raises ServerNotFound: there is no such server.
    :raises WrongState: another state, or another request was first.
    :raises FreezeEndedEarly: unquiesce, but the freeze is over already.
    """
    if (request == 'quiesce') != (timeout is not None):
        raise ValueError('a quiesce has a timeout, nothing else has one')
    now = base.utcnow()
    with base.writer() as conn:
        if not _swap(conn, ctxt, server_uuid, request, now):
            row = _lock(conn, server_uuid)
            if not states.can(request, row['vm_state'], row['task_state']):
                raise _refusal(conn, row, request)
            # It came into the right state just now; it is locked now.
            _swap(conn, ctxt, server_uuid, request, now)
        row = servers.select(conn, server_uuid)
        actions.start(conn, server_uuid, request, ctxt.request_id,
                      ctxt.user_id, ctxt.project_id, now,
                      event=actions.event_name(request), host=row['host'])
        if timeout is not None:
            freezes.start(conn, server_uuid, ctxt.request_id, row['host'],
                          timeout, now)
        return row


def _swap(conn: sa.engine.Connection, ctxt: context.RequestContext,
          server_uuid: str, request: str, now: datetime.datetime) -> bool:
    transition = states.TRANSITIONS[request]
    return bool(conn.execute(_SWAP, {
        'one': server_uuid, 'needed': transition.vm_state,
        'task_state': transition.task_state,
        'task_request_id': ctxt.request_id, 'task_action': request,
        'task_started_at': now, 'updated_at': now}).rowcount)


def check(server_uuid: str, request: str) -> sa.RowMapping:
    """Tell whether a request would be taken now, without moving anything.

    :return: the server's row.
    :raises: as :func:`begin`.
    """
    with base.reader() as conn:
        row = servers.select(conn, server_uuid)
        if row['deleted'] or not states.can(
                request, row['vm_state'], row['task_state']):
            raise _refusal(conn, row, request)
        return row


def _refusal(conn: sa.engine.Connection, row: sa.RowMapping,
             request: str) -> exceptions.StillframeError:
    if row['deleted']:
        return exceptions.ServerNotFound(server=row['uuid'])
    needed = states.TRANSITIONS[request].vm_state
    if row['vm_state'] == needed:
        if row['task_state'] in images.TASK_STATES:
            return exceptions.ImageUnderWay(
                action=request, server=row['uuid'], attr='task_state',
                state=row['task_state'], wait=_WAIT_FOR_IMAGE[request])
        return exceptions.WrongState(
            action=request, server=row['uuid'], attr='task_state',
            state=row['task_state'])
    if request == 'unquiesce' and row['task_state'] is None:
        freeze = freezes.get(conn, row['uuid'], row['freeze_id'])
        if (freeze is not None and freeze['ended_at'] is not None
                and freeze['end_reason'] != freezes.BY_REQUEST):
            return exceptions.FreezeEndedEarly(
                server=row['uuid'], state=row['vm_state'],
                ended_at=iso(freeze['ended_at']),
                reason=freeze['end_reason'])
    return exceptions.WrongState(
        action=request, server=row['uuid'], attr='vm_state',
        state=row['vm_state'])


def iso(when: datetime.datetime) -> str:
    """Write a stored time for a person: ISO 8601 with a Z."""
    return when.isoformat(timespec='seconds') + 'Z'


def let_go(conn: sa.engine.Connection, server_uuid: str, request_id: str,
           now: datetime.datetime, message: str, reason: str,
           **state: Any) -> bool:
    """Take a server from a request that does not come to its end.

    It is left in the state in which it is by now, unless another is given.

    :param message: of the action, which ends in an error.
    :param reason: why the freeze that a quiesce should have made is over;
        an unquiesce has made none of its own.
    :param state: further columns of the server to change.
    :return: False when the request no longer holds it; nothing is changed
        then.
    """
    row = held_by(conn, server_uuid, request_id)
    if row is None:
        return False
    release(conn, row, now, **state)
    actions.finish(conn, server_uuid, request_id, now, message,
                   actions.ERROR)
    freezes.give_up(conn, server_uuid, request_id, now, reason)
    return True


def held_by(conn: sa.engine.Connection, server_uuid: str, request_id: str
            ) -> sa.RowMapping | None:
    """Give a server, locked, if a request holds it."""
    return conn.execute(
        sa.select(_s).where(
            _s.c.uuid == server_uuid, _s.c.task_request_id == request_id
        ).with_for_update()).mappings().one_or_none()


def release(conn: sa.engine.Connection, row: sa.RowMapping,
            now: datetime.datetime, **state: Any) -> None:
    """Free a locked server, in the state in which it is by now.

    :param state: columns to change, which go before that.
    """
    vm_state = row['vm_state']
    freeze = freezes.get(conn, row['uuid'], row['freeze_id'])
    if (vm_state in states.FOLLOWS_POWER
            or vm_state == states.QUIESCED and not freezes.stands(freeze)):
        # What happened meanwhile, such as the end of a freeze, was left to
        # the request to show.
        vm_state = states.vm_state_of_power(row['power_state'])
    conn.execute(
        sa.update(_s).where(_s.c.uuid == row['uuid'])
        .values({'vm_state': vm_state, 'updated_at': now, **FREE, **state}))


@base.retry()
def revert(server_uuid: str, request_id: str, message: str) -> bool:
    """Take back a move whose work could not be handed out.

    Should a worker have got the work after all, its outcome finds the
    request gone, and a freeze is thawed.

    :return: False when the request no longer holds the server: who took it
        away has ended its action. Nothing is changed then.
    """
    with base.writer() as conn:
        return let_go(conn, server_uuid, request_id, base.utcnow(), message,
                      freezes.NOT_SENT)


@base.retry()
def begin_reset(ctxt: context.RequestContext,
                server_uuid: str) -> sa.RowMapping:
    """Take a server over for a reset that has to thaw its guest.

    It never fails for a state, as in Nova. What ran before loses the
    server: its action is finished here, and its outcome will be stale.

    :return: the server's row before the move.
    :raises ServerNotFound: there is no such server.
    """
    now = base.utcnow()
    with base.writer() as conn:
        before = _lock(conn, server_uuid)
        _supersede(conn, before, now)
        conn.execute(
            sa.update(_s).where(_s.c.uuid == server_uuid)
            .values(task_state=states.RESET_TASK,
                    task_request_id=ctxt.request_id,
                    task_action=RESET_ACTION, task_started_at=now,
                    updated_at=now))
        actions.start(conn, server_uuid, RESET_ACTION, ctxt.request_id,
                      ctxt.user_id, ctxt.project_id, now,
                      event=actions.event_name('reset'),
                      host=before['host'])
        return before


@base.retry()
def reset_now(ctxt: context.RequestContext, server_uuid: str, state: str,
              message: str) -> None:
    """Set a server's state in the database alone, as Nova's reset does.

    For a server whose guest needs no thaw, or whose worker is down; also
    after :func:`begin_reset`, when the work could not be handed out.

    :param state: one of :data:`states.RESET_TARGETS`.
    :param message: what the action says.
    :raises ServerNotFound: there is no such server.
    """
    now = base.utcnow()
    with base.writer() as conn:
        before = _lock(conn, server_uuid)
        if before['task_request_id'] != ctxt.request_id:
            _supersede(conn, before, now)
            actions.start(conn, server_uuid, RESET_ACTION, ctxt.request_id,
                          ctxt.user_id, ctxt.project_id, now,
                          event=RESET_EVENT)
        # Its guest may stay frozen until the deadline, but nobody vouches
        # for that from here on.
        freezes.give_up(conn, server_uuid, before['freeze_id'], now,
                        freezes.RESET)
        conn.execute(
            sa.update(_s).where(_s.c.uuid == server_uuid)
            .values(vm_state=state, updated_at=now, **FREE))
        actions.finish(conn, server_uuid, ctxt.request_id, now, message,
                       actions.SUCCESS)


def _supersede(conn: sa.engine.Connection, row: sa.RowMapping,
               now: datetime.datetime) -> None:
    """End the action of the request that holds a server, if one does."""
    request_id = row['task_request_id']
    if request_id is not None:
        actions.finish(
            conn, row['uuid'], request_id, now,
            'Given up: an administrator reset the state of the server '
            'while this was running.', actions.ERROR)
        freezes.give_up(conn, row['uuid'], request_id, now, freezes.RESET)


def _lock(conn: sa.engine.Connection, server_uuid: str) -> sa.RowMapping:
    row = conn.execute(
        sa.select(_s).where(_s.c.uuid == server_uuid).with_for_update()
    ).mappings().one_or_none()
    if row is None or row['deleted']:
        raise exceptions.ServerNotFound(server=server_uuid)
    return row
