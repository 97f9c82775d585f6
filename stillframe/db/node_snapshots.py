# SPDX-License-Identifier: Apache-2.0
"""Snapshots of nodes: how far one is, and the history of a node.

A row goes through two ends: its outcome is decided (outcome is set), then
everything is put back (finished_at is set).
"""

from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
import datetime
from typing import Any
import uuid as uuid_

import sqlalchemy as sa

from stillframe import exceptions
from stillframe.db import base
from stillframe.db import models
from stillframe.states import nodes as states

_h = models.node_snapshots
_n = models.nodes

#: An outcome of :class:`stillframe.states.nodes.Outcome` and its reason.
End = tuple[str, str | None]


def insert(conn: sa.engine.Connection, node_uuid: str, host: str | None,
           values: Mapping[str, Any], now: datetime.datetime) -> str:
    """Write down a snapshot that was accepted, and make it the node's.

    :param host: the conductor that begins it.
    :param values: image_ref, disk_format, options, request_id, user_id,
        project_id; uuid may be given.
    :return: its uuid.
    """
    row = {'uuid': str(uuid_.uuid4()), 'node_uuid': node_uuid,
           'conductor': host, 'phase': states.Phase.PREPARING.value,
           'bytes_done': 0, 'created_at': now, 'phase_at': now,
           'heard_at': now, **values}
    conn.execute(sa.insert(_h).values(**row))
    conn.execute(sa.update(_n).where(_n.c.uuid == node_uuid)
                 .values(snapshot_id=row['uuid']))
    return row['uuid']


def decide(conn: sa.engine.Connection, uuid: str, end: End,
           now: datetime.datetime) -> None:
    """Set the outcome; one that is decided already stays."""
    outcome, reason = end
    conn.execute(
        sa.update(_h).where(_h.c.uuid == uuid, _h.c.outcome.is_(None))
        .values(outcome=outcome, reason=base.clip(_h.c.reason, reason),
                phase=states.Phase.RESTORING.value, phase_at=now))


def undecide(conn: sa.engine.Connection, uuid: str) -> None:
    """Take back a decision that could not be handed over.

    Only ever of a snapshot in a waiting state: which phase it waits in, its
    command tells.
    """
    conn.execute(
        sa.update(_h).where(_h.c.uuid == uuid, _h.c.finished_at.is_(None))
        .values(outcome=None, reason=None, phase=sa.case(
            (_h.c.command_id.is_(None), states.Phase.BOOTING.value),
            else_=states.Phase.STREAMING.value)))


def end(conn: sa.engine.Connection, uuid: str, now: datetime.datetime,
        end: End) -> None:
    """Finish; an outcome that is decided already stays.

    A reason is replaced, which may have become longer by what could not be
    put back; None leaves it as it is.
    """
    outcome, reason = end
    values: dict[str, Any] = {
        'outcome': sa.func.coalesce(_h.c.outcome, outcome),
        'finished_at': now}
    if reason is not None:
        values['reason'] = base.clip(_h.c.reason, reason)
    conn.execute(
        sa.update(_h).where(_h.c.uuid == uuid, _h.c.finished_at.is_(None))
        .values(**values))


@base.retry()
def write(uuid: str, values: Mapping[str, Any]) -> bool:
    """Write how far a snapshot is.

    :param values: by column; a phase also sets the time of its begin.
    :return: False when its outcome is decided already: nothing changed.
    """
    now = base.utcnow()
    values = dict(values, heard_at=now)
    if 'phase' in values:
        values['phase_at'] = now
    with base.writer() as conn:
        return bool(conn.execute(
            sa.update(_h).where(_h.c.uuid == uuid, _h.c.outcome.is_(None))
            .values(**values)).rowcount)


@base.retry()
def restored(uuid: str, original: Mapping[str, Any]) -> None:
    """Write down that a node is as it was before its snapshot.

    :param original: of its row; also when its outcome is decided.
    """
    with base.writer() as conn:
        conn.execute(
            sa.update(_h).where(_h.c.uuid == uuid, _h.c.finished_at.is_(None))
            .values(original=dict(original)))


@base.retry()
def settle(uuid: str, outcome: str, reason: str | None) -> None:
    """Decide the outcome of a snapshot, before everything is put back."""
    with base.writer() as conn:
        decide(conn, uuid, (outcome, reason), base.utcnow())


@base.retry()
def finish(uuid: str, how: End) -> None:
    """Finish a snapshot; see :func:`end`."""
    with base.writer() as conn:
        end(conn, uuid, base.utcnow(), how)


@base.retry()
def take_over(uuid: str, host: str, instead_of: str | None) -> bool:
    """Make another conductor the one that goes on with a snapshot.

    :return: False when it is not, or no longer, with ``instead_of``.
    """
    with base.writer() as conn:
        return bool(conn.execute(
            sa.update(_h).where(
                _h.c.uuid == uuid, _h.c.outcome.is_(None),
                _h.c.conductor.is_(None) if instead_of is None
                else _h.c.conductor == instead_of)
            .values(conductor=host)).rowcount)


def get(uuid: str) -> sa.RowMapping:
    """Give one snapshot.

    :raises NotFound: there is none.
    """
    with base.reader() as conn:
        row = conn.execute(sa.select(_h).where(_h.c.uuid == uuid)
                           ).mappings().one_or_none()
    if row is None:
        raise exceptions.NotFound(what=f'Snapshot {uuid}')
    return row


def get_many(uuids: Iterable[str]) -> dict[str, sa.RowMapping]:
    """Give several snapshots by their uuids, in one query."""
    return _get_many(sa.select(_h), uuids)


# What is looked at every other second, of hundreds that are under way.
_SHORT = sa.select(_h.c.uuid, _h.c.conductor, _h.c.phase, _h.c.bytes_done,
                   _h.c.bytes_total)


def watch_many(uuids: Iterable[str]) -> dict[str, sa.RowMapping]:
    """Give how far several snapshots are, by their uuids.

    :return: rows of uuid, conductor, phase, bytes_done and bytes_total.
    """
    return _get_many(_SHORT, uuids)


def _get_many(query: sa.Select[Any], uuids: Iterable[str]
              ) -> dict[str, sa.RowMapping]:
    wanted = list(uuids)
    if not wanted:
        return {}
    with base.reader() as conn:
        return {row['uuid']: row for row in conn.execute(
            query.where(_h.c.uuid.in_(wanted))).mappings()}


# All that a heartbeat is followed by, mostly: there are hundreds a second.
_CURRENT = sa.select(
    _h.c.uuid, _h.c.node_uuid, _h.c.conductor, _h.c.phase, _h.c.command_id,
    _n.c.provision_state, _n.c.reservation, _n.c.maintenance,
).join_from(_n, _h, _h.c.uuid == _n.c.snapshot_id).where(
    _n.c.uuid == sa.bindparam('one'))


def current(node_uuid: str) -> sa.RowMapping | None:
    """Give the snapshot of a node, and in which state that is.

    :return: uuid, node_uuid, conductor, phase and command_id of the
        snapshot; provision_state, reservation and maintenance of the node.
        None when the node is gone, or was never snapshotted.
    """
    with base.reader() as conn:
        return conn.execute(
            _CURRENT, {'one': node_uuid}).mappings().one_or_none()


def of_requests(request_ids: Iterable[str]) -> Sequence[sa.RowMapping]:
    """List the snapshots that some requests made."""
    wanted = list(request_ids)
    if not wanted:
        return []
    with base.reader() as conn:
        return conn.execute(sa.select(_h).where(
            _h.c.request_id.in_(wanted))).mappings().all()


def history(node_uuid: str, limit: int, marker: str | None = None,
            project_id: str | None = None) -> Sequence[sa.RowMapping]:
    """List the snapshots of a node, the newest first.

    :param limit: at most so many.
    :param marker: uuid of the last one of the page before.
    :param project_id: those of this project alone; None: of all.
    :raises NotFound: the marker is unknown.
    """
    query = sa.select(_h).where(_h.c.node_uuid == node_uuid)
    if project_id is not None:
        query = query.where(_h.c.project_id == project_id)
    if marker is not None:
        query = query.where(_h.c.id < get(marker)['id'])
    with base.reader() as conn:
        return conn.execute(query.order_by(_h.c.id.desc()).limit(limit)
                            ).mappings().all()
