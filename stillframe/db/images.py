# SPDX-License-Identifier: Apache-2.0
"""Images of servers, from acceptance until complete or removed.

The ids of the images are written down before anything is made in a store,
so whatever goes wrong afterwards, and whoever is killed, what has to be
removed can be named. Of requests for one server that race, the database
lets one through.
"""

from collections.abc import Sequence
import datetime
from typing import Any

from oslo_db import exception as db_exc
import sqlalchemy as sa

from stillframe import context
from stillframe import exceptions
from stillframe.db import actions
from stillframe.db import base
from stillframe.db import faults
from stillframe.db import models
from stillframe.db import servers
from stillframe.db import transitions
from stillframe.rpc import payloads
from stillframe.states import images as states
from stillframe.states.servers import Result

_s = models.servers
_v = models.volumes
_i = models.server_images

# Seconds until something in a store is tried to be removed again: doubled
# each time, up to the second figure, at most so many times.
_FIRST_RETRY = 5
_MOST_RETRY = 3600
_MOST_ATTEMPTS = 40


def begin(ctxt: context.RequestContext, server_uuid: str,
          image_id: str) -> sa.RowMapping:
    """Accept a request for an image: move the server, write it all down.

    :param image_id: of the image to be made.
    :return: the server's row after the move.
    :raises ServerNotFound: there is no such server.
    :raises WrongState: its state forbids it, or another request was first.
    """
    try:
        return _begin(ctxt, server_uuid, image_id)
    except db_exc.DBDuplicateEntry:
        # Another one was faster by a hair, or is still sending an image.
        raise exceptions.WrongState(
            action=states.ACTION, server=server_uuid, attr='task_state',
            state=states.UPLOADING) from None


@base.retry()
def _begin(ctxt: context.RequestContext, server_uuid: str,
           image_id: str) -> sa.RowMapping:
    now = base.utcnow()
    with base.writer() as conn:
        moved = conn.execute(
            sa.update(_s)
            .where(_s.c.uuid == server_uuid, _s.c.deleted.is_(False),
                   _s.c.vm_state.in_(sorted(states.FROM)),
                   _s.c.task_state.is_(None))
            .values(task_state=states.PENDING,
                    task_request_id=ctxt.request_id,
                    task_action=states.ACTION, task_started_at=now,
                    updated_at=now))
        row = servers.select(conn, server_uuid)
        if not moved.rowcount:
            raise refusal(row)
        targets = conn.execute(
            sa.select(_v.c.target).where(_v.c.server_uuid == server_uuid)
        ).scalars().all()
        conn.execute(sa.insert(_i).values(
            request_id=ctxt.request_id, server_uuid=server_uuid,
            active_server=server_uuid, host=row['host'], image_id=image_id,
            image_ids=[image_id, *(
                states.disk_image_id(image_id, target, False)
                for target in targets)],
            stage=states.PENDING, percent=0, reports=0, removal_attempts=0,
            created_at=now))
        actions.start(conn, server_uuid, states.ACTION, ctxt.request_id,
                      ctxt.user_id, ctxt.project_id, now,
                      event=actions.event_name(states.ACTION),
                      host=row['host'])
        return row


def refusal(row: sa.RowMapping) -> exceptions.StillframeError:
    """Say why no image can be made of a server in this state."""
    if row['deleted']:
        return exceptions.ServerNotFound(server=row['uuid'])
    attr = ('vm_state' if row['vm_state'] not in states.FROM
            else 'task_state')
    return exceptions.WrongState(action=states.ACTION, server=row['uuid'],
                                 attr=attr, state=row[attr])


@base.retry()
def progressed(request_id: str, stage: str, percent: int) -> bool:
    """Take a sign of life of an image under way; late ones do no harm.

    :param stage: a task state of :mod:`stillframe.states.images`.
    :return: whether there is such an image, and it is not over.
    """
    now = base.utcnow()
    with base.writer() as conn:
        image = _lock(conn, request_id)
        if image is None or image['active_server'] is None:
            return False
        values: dict[str, Any] = {'reports': image['reports'] + 1}
        if states.comes_after(stage, image['stage']):
            values.update(stage=stage, percent=percent)
            _move(conn, image, stage, now)
        elif stage == image['stage']:
            values['percent'] = max(percent, image['percent'])
        conn.execute(sa.update(_i).where(_i.c.id == image['id'])
                     .values(**values))
        return True


def _move(conn: sa.engine.Connection, image: sa.RowMapping, stage: str,
          now: datetime.datetime) -> None:
    """Show on the server how far its image is."""
    row = _holder(conn, image)
    if row is None:
        return
    shown = states.held(row['vm_state'], stage)
    if shown is None:
        transitions.release(conn, row, now)
    else:
        conn.execute(sa.update(_s).where(_s.c.uuid == row['uuid'])
                     .values(task_state=shown, updated_at=now))


@base.retry()
def apply(host: str, outcome: payloads.Outcome) -> str:
    """Apply the outcome of an image; twice changes nothing.

    :return: a verdict of :mod:`stillframe.rpc.payloads`.
    :raises ServiceUnavailable: the database cannot be reached.
    :raises KeyError, TypeError, ValueError: the outcome is malformed.
    """
    now = base.utcnow()
    result = Result(outcome['result'])
    figures = outcome.get('image')
    if result is Result.SUCCESS and not isinstance(figures, dict):
        raise ValueError('an image that is complete has figures')
    with base.writer() as conn:
        image = _lock(conn, outcome['request_id'])
        if image is None:
            return payloads.UNKNOWN
        if image['active_server'] is None:
            if image['result'] == Result.SUCCESS:
                return payloads.DUPLICATE
            # It may have been given up. What the worker has made in the
            # store since then is removed, too.
            conn.execute(sa.update(_i).where(_i.c.id == image['id']).values(
                removal_due=now, removal_attempts=0))
            return (payloads.STALE if result is Result.SUCCESS
                    else payloads.DUPLICATE)
        _end(conn, image, result, outcome['message'], outcome['detail'],
             now, figures, outcome['reason'])
        return payloads.APPLIED


@base.retry()
def give_up(request_id: str, message: str,
            detail: str | None = None) -> bool:
    """End a request for an image that failed, without a worker's word.

    :return: False when it was over already.
    """
    now = base.utcnow()
    with base.writer() as conn:
        image = _lock(conn, request_id)
        if image is None or image['active_server'] is None:
            return False
        _end(conn, image, Result.FAILED, message, detail, now)
        return True


def _end(conn: sa.engine.Connection, image: sa.RowMapping, result: Result,
         message: str, detail: str | None, now: datetime.datetime,
         figures: payloads.ImageEnd | None = None,
         reason: str | None = None) -> None:
    """End an image: release the server, finish the action."""
    complete = result is Result.SUCCESS
    conn.execute(
        sa.update(_i).where(_i.c.id == image['id'])
        .values(active_server=None, result=result.value, finished_at=now,
                figures=figures, percent=100 if complete
                else image['percent'],
                removal_due=None if complete else now))
    row = _holder(conn, image)
    if row is not None:
        transitions.release(conn, row, now)
    if result is Result.FAILED:
        faults.save(conn, image['server_uuid'], image['request_id'],
                    message, detail, image['host'], now)
    actions.finish(
        conn, image['server_uuid'], image['request_id'], now, message,
        actions.SUCCESS if complete else actions.ERROR,
        details=_describe(figures, reason, detail))


def _describe(figures: payloads.ImageEnd | None, reason: str | None,
              detail: str | None) -> str:
    parts = [f'{key} {value}' for key, value in (
        ('reason', reason), ('', detail)) if value]
    if figures is not None:
        parts += [f'{key} {figures[key]}'
                  for key in ('method', 'consistency', 'freeze', 'window',
                              'size', 'images')
                  if figures.get(key) is not None]
    return '; '.join(part.strip() for part in parts)


def _holder(conn: sa.engine.Connection, image: sa.RowMapping
            ) -> sa.RowMapping | None:
    """Give the server of an image, locked, if the image holds it."""
    return transitions.held_by(conn, image['server_uuid'],
                               image['request_id'])


def _lock(conn: sa.engine.Connection, request_id: str
          ) -> sa.RowMapping | None:
    return conn.execute(
        sa.select(_i).where(_i.c.request_id == request_id)
        .with_for_update()).mappings().one_or_none()


def open_requests() -> Sequence[sa.RowMapping]:
    """List the images that are not over.

    :return: rows of request_id, server_uuid, host, reports, created_at.
    """
    with base.reader() as conn:
        return conn.execute(
            sa.select(_i.c.request_id, _i.c.server_uuid, _i.c.host,
                      _i.c.reports, _i.c.created_at)
            .where(_i.c.active_server.isnot(None))).mappings().all()


def to_remove(limit: int = 20) -> Sequence[sa.RowMapping]:
    """List what is to be removed from the store now.

    :return: rows of id, request_id, image_ids.
    """
    with base.reader() as conn:
        return conn.execute(
            sa.select(_i.c.id, _i.c.request_id, _i.c.image_ids)
            .where(_i.c.removal_due <= base.utcnow())
            .order_by(_i.c.removal_due).limit(limit)).mappings().all()


@base.retry()
def removed(key: int) -> None:
    """Note that nothing of an image is left in the store."""
    with base.writer() as conn:
        conn.execute(sa.update(_i).where(_i.c.id == key)
                     .values(removal_due=None, removal_error=None))


@base.retry()
def not_removed(key: int, error: str) -> bool:
    """Note that something could not be removed, and try again later.

    :return: False when it has been tried often enough: it stays.
    """
    with base.writer() as conn:
        attempts = conn.execute(
            sa.select(_i.c.removal_attempts).where(_i.c.id == key)
            .with_for_update()).scalar_one() + 1
        again = attempts < _MOST_ATTEMPTS
        wait = min(_FIRST_RETRY * 2 ** min(attempts, 16), _MOST_RETRY)
        conn.execute(
            sa.update(_i).where(_i.c.id == key)
            .values(removal_attempts=attempts, removal_error=error,
                    removal_due=base.utcnow() + datetime.timedelta(
                        seconds=wait) if again else None))
        return again
