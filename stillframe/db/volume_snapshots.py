# SPDX-License-Identifier: Apache-2.0
"""Requests for snapshots of volumes, from acceptance to outcome.

Of requests for one volume that race, the database lets one through: while
the work of one is open, ``active_volume`` holds the volume's id, and that
column is unique.
"""

from collections.abc import Sequence
import datetime
from typing import Any
import uuid

from oslo_db import exception as db_exc
import sqlalchemy as sa

from stillframe import context
from stillframe import exceptions
from stillframe.db import base
from stillframe.db import models
from stillframe.db import outcomes
from stillframe.db import volume_formats
from stillframe.rpc import payloads
from stillframe.states import images as image_states
from stillframe.states import servers as server_states
from stillframe.states import volume_snapshots as states
from stillframe.states.volume_snapshots import Delivery
from stillframe.states.volume_snapshots import State

_s = models.servers
_v = models.volumes
_o = models.volume_snapshots


def attached(volume_id: str) -> sa.RowMapping:
    """Give the server that has a volume.

    :return: the server's row.
    :raises VolumeUnknown: no server has it.
    :raises VolumeMultiAttached: more than one has it.
    """
    with base.reader() as conn:
        return attached_in(conn, volume_id)


def attached_in(conn: sa.engine.Connection,
                volume_id: str) -> sa.RowMapping:
    """Give the server that has a volume, inside a transaction."""
    rows = conn.execute(
        sa.select(_s).join_from(_v, _s, _v.c.server_uuid == _s.c.uuid)
        .where(_v.c.volume_id == volume_id, _s.c.deleted.is_(False))
        .limit(2)).mappings().all()
    if not rows:
        raise exceptions.VolumeUnknown(volume=volume_id)
    if len(rows) > 1:
        raise exceptions.VolumeMultiAttached(volume=volume_id)
    return rows[0]


def check_state(row: sa.RowMapping, operation: str) -> None:
    """Refuse a server whose state forbids the operation.

    :raises WrongVolumeState: with status 400, as Nova answers it.
    """
    if row['vm_state'] not in states.VM_STATES:
        raise exceptions.WrongVolumeState(
            server=row['uuid'], attr='vm_state', state=row['vm_state'],
            method=f'volume_snapshot_{operation}')
    # While its image is being made, it is we who ask Cinder for snapshots.
    if row['task_state'] not in (None, image_states.SNAPSHOT):
        raise exceptions.WrongVolumeState(
            server=row['uuid'], attr='task_state', state=row['task_state'],
            method=f'volume_snapshot_{operation}')


def begin(ctxt: context.RequestContext, volume_id: str, snapshot_id: str,
          operation: str, request: dict[str, Any]) -> sa.RowMapping:
    """Accept a request: write it down before anything is done.

    What is still to be told to Cinder of earlier requests for the same
    snapshot is dropped: it would be taken for the outcome of this one.

    :param operation: ``create`` or ``delete``.
    :param request: ``new_file``, or ``file_to_merge`` and
        ``merge_target_file``.
    :return: the request's row.
    :raises VolumeUnknown: no server has the volume.
    :raises VolumeMultiAttached: more than one has it.
    :raises WrongVolumeState: the server's state forbids it.
    :raises VolumeBusy: another request for the volume is not over.
    :raises VolumeBeingTold: it is, but Cinder's acknowledgement is not
        here yet.
    """
    try:
        return _begin(ctxt, volume_id, snapshot_id, operation, request)
    except db_exc.DBDuplicateEntry:
        # Another one was faster by a hair.
        raise exceptions.VolumeBusy(
            volume=volume_id, reason='another snapshot request for it has '
            'just begun') from None


@base.retry()
def _begin(ctxt: context.RequestContext, volume_id: str, snapshot_id: str,
           operation: str, request: dict[str, Any]) -> sa.RowMapping:
    now = base.utcnow()
    with base.writer() as conn:
        _supersede(conn, volume_id, snapshot_id, now)
        row = insert(conn, ctxt.request_id, volume_id, snapshot_id,
                     operation, request, now)
        if operation == states.DELETE and not request.get(
                'merge_target_file'):
            _check_told(conn, volume_id)
        return row


def insert(conn: sa.engine.Connection, request_id: str, volume_id: str,
           snapshot_id: str, operation: str, request: dict[str, Any],
           now: datetime.datetime) -> sa.RowMapping:
    """Write an accepted request down; see :func:`begin`."""
    server = attached_in(conn, volume_id)
    check_state(server, operation)
    open_ = conn.execute(
        sa.select(_o).where(_o.c.active_volume == volume_id)
    ).mappings().one_or_none()
    if open_ is not None:
        raise exceptions.VolumeBusy(
            volume=volume_id, reason=f'{_DOING[open_["operation"]]} '
            f'snapshot {open_["snapshot_id"]} is not finished')
    operation_id = str(uuid.uuid4())
    conn.execute(sa.insert(_o).values(
        uuid=operation_id, request_id=request_id,
        snapshot_id=snapshot_id, volume_id=volume_id,
        active_volume=volume_id, server_uuid=server['uuid'],
        host=server['host'], operation=operation, state=State.PENDING,
        request=request, progress=0, delivery=Delivery.NONE,
        delivery_attempts=0, delivery_refusals=0, created_at=now))
    return _get(conn, operation_id)


_DOING = {states.CREATE: 'creating', states.DELETE: 'deleting',
          states.UNDO: 'undoing'}


def _check_told(conn: sa.engine.Connection, volume_id: str) -> None:
    """Refuse a merge into the active file that Cinder may not know of.

    The request does not name that file. When Cinder gave a new snapshot up
    before it heard of its success, it means the file below.
    """
    untold = conn.execute(sa.select(_o.c.snapshot_id).where(
        _o.c.volume_id == volume_id, _o.c.operation == states.CREATE,
        _o.c.state == State.DONE,
        _o.c.delivery == Delivery.DUE)).scalars().first()
    if untold is not None:
        raise exceptions.VolumeBeingTold(
            volume=volume_id, reason='Cinder has not been told yet of the '
            f'new file of snapshot {untold}')


def _supersede(conn: sa.engine.Connection, volume_id: str, snapshot_id: str,
               now: datetime.datetime) -> None:
    mine = (_o.c.snapshot_id == snapshot_id, _o.c.delivery == Delivery.DUE)
    for row in conn.execute(
            sa.select(_o).where(*mine).with_for_update()).mappings():
        if row['delivering_until'] and row['delivering_until'] > now:
            raise exceptions.VolumeBeingTold(
                volume=volume_id, reason='the outcome of the last request '
                f'for snapshot {snapshot_id} is just being told to Cinder')
    conn.execute(sa.update(_o).where(*mine).values(
        delivery=Delivery.SUPERSEDED))


def _get(conn: sa.engine.Connection, operation_id: str) -> sa.RowMapping:
    row = conn.execute(sa.select(_o).where(
        _o.c.uuid == operation_id)).mappings().one_or_none()
    if row is None:
        raise exceptions.NotFound(
            what=f'Volume snapshot request {operation_id}')
    return row


def get(operation_id: str) -> sa.RowMapping:
    """Give one request.

    :raises NotFound: there is none.
    """
    with base.reader() as conn:
        return _get(conn, operation_id)


def of_snapshot(snapshot_id: str, limit: int) -> Sequence[sa.RowMapping]:
    """List the requests for a snapshot, newest first."""
    with base.reader() as conn:
        return conn.execute(
            sa.select(_o).where(_o.c.snapshot_id == snapshot_id)
            .order_by(_o.c.id.desc()).limit(limit)).mappings().all()


def known_formats(volume_id: str) -> dict[str, str]:
    """Give what is known of a volume's files: format by bare name."""
    with base.reader() as conn:
        return volume_formats.known(conn, volume_id)


@base.retry()
def finish(host: str, outcome: payloads.Outcome, tell: bool) -> str:
    """Write down how the work of a request ended.

    :param outcome: of kind ``volume_snapshot``; its ``snapshot`` has what
        is special to it.
    :param tell: whether there is a Cinder to be told.
    :return: a verdict of :mod:`stillframe.rpc.payloads`.
    """
    now = base.utcnow()
    told = outcome['snapshot']
    success = outcome['result'] == server_states.Result.SUCCESS
    with base.writer() as conn:
        row = conn.execute(
            sa.select(_o).where(_o.c.uuid == told['operation_id'])
            .with_for_update()).mappings().one_or_none()
        if row is None:
            return payloads.UNKNOWN
        values: dict[str, Any] = {
            'message': outcome['message'], 'detail': outcome['detail'],
            'consistency': told['consistency'], 'freeze': told['freeze'],
            'chain_before': told['chain_before'],
            'chain_after': told['chain_after'], 'formats': told['formats'],
            'finished_at': outcomes.when(outcome['finished_at']) or now}
        if told['learned']:
            volume_formats.learn(conn, row['volume_id'], told['learned'],
                                 now)
        if row['state'] not in states.OPEN:
            if row['chain_after'] is not None:
                return payloads.DUPLICATE
            # Given up before. What Cinder was told cannot be taken back.
            untold = (row['delivery'] in (Delivery.DUE, Delivery.NONE)
                      and not _in_flight(row, now))
            if not untold:
                values['detail'] = (
                    f'{row["message"]} The worker reported later: '
                    f'{outcome["result"]}. {outcome["detail"] or ""}')
                if success:
                    values.update(state=State.DONE, progress=100,
                                  **_late(row, tell, now))
                conn.execute(sa.update(_o).where(_o.c.id == row['id'])
                             .values(**values))
                return payloads.APPLIED
        values.update(
            state=State.DONE if success else State.ERROR, host=host,
            progress=100 if success else row['progress'],
            active_volume=None, **_due(
                tell and row['operation'] != states.UNDO, now))
        conn.execute(sa.update(_o).where(_o.c.id == row['id'])
                     .values(**values))
        return payloads.APPLIED


def _in_flight(row: sa.RowMapping, now: datetime.datetime) -> bool:
    return bool(row['delivering_until'] and row['delivering_until'] > now)


def _due(tell: bool, now: datetime.datetime) -> dict[str, Any]:
    if not tell:
        return {'delivery': Delivery.NONE}
    return {'delivery': Delivery.DUE, 'delivery_due': now}


def _late(row: sa.RowMapping, tell: bool,
          now: datetime.datetime) -> dict[str, Any]:
    """Give what comes of a success after Cinder was told the opposite.

    Of a new file it does not know then; telling it brings that to light. A
    merge is found done when Cinder asks for it again.
    """
    if not tell or row['operation'] != states.CREATE:
        return {}
    return {'delivery': Delivery.DUE, 'delivery_due': now,
            'delivery_attempts': 0, 'delivery_refusals': 0}


def open_requests() -> Sequence[sa.RowMapping]:
    """List the requests whose work is open.

    :return: rows of uuid, state, host, server_uuid, snapshot_id,
        created_at.
    """
    with base.reader() as conn:
        return conn.execute(
            sa.select(_o.c.uuid, _o.c.state, _o.c.host, _o.c.server_uuid,
                      _o.c.snapshot_id, _o.c.created_at)
            .where(_o.c.state.in_(sorted(states.OPEN)))).mappings().all()


@base.retry()
def give_up(operation_id: str, state: str, message: str,
            tell: bool) -> bool:
    """End a request on which nobody reports.

    :param state: the one that it was seen in.
    :param tell: whether Cinder is to be told.
    :return: False when it is in that state no more.
    """
    now = base.utcnow()
    ended = {'state': State.ERROR, 'active_volume': None,
             'message': message, 'finished_at': now}
    with base.writer() as conn:
        mine = sa.update(_o).where(_o.c.uuid == operation_id,
                                   _o.c.state == state)
        return bool(
            conn.execute(mine.where(_o.c.operation != states.UNDO)
                         .values(**ended, **_due(tell, now))).rowcount
            or conn.execute(mine.values(**ended)).rowcount)
