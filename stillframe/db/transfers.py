# SPDX-License-Identifier: Apache-2.0
"""Transfers: which conductor receives which image under which name.

A row is there as long as a file may be: it is made before the credential is
given away, and removed after the file was.
"""

from collections.abc import Sequence

import sqlalchemy as sa

from stillframe.db import base
from stillframe.db import models
from stillframe.states.transfers import State

_t = models.transfers
_h = models.node_snapshots


@base.retry()
def open_(name: str, snapshot_id: str, conductor: str,
          credential_hash: str) -> None:
    """Note a transfer that is about to begin.

    One of the same snapshot that was closed is forgotten for it: what its
    conductor does not know it removes.

    :param credential_hash: SHA-256 of the password, hexadecimal.
    :raises ServiceUnavailable: the database cannot be reached.
    :raises oslo_db.exception.DBDuplicateEntry: the snapshot has one.
    """
    now = base.utcnow()
    with base.writer() as conn:
        conn.execute(sa.delete(_t).where(
            _t.c.snapshot_uuid == snapshot_id,
            _t.c.state == State.CLOSED))
        conn.execute(sa.insert(_t).values(
            name=name, snapshot_uuid=snapshot_id, conductor=conductor,
            credential_hash=credential_hash, received=0,
            sha256=None, state=State.WAITING, created_at=now,
            updated_at=now))


@base.retry()
def move(name: str, state: State, received: int = 0,
         sha256: str | None = None) -> bool:
    """Note how far a transfer is.

    :param received: bytes of the image that is here.
    :return: False when it was closed meanwhile; nothing is changed then.
    :raises ServiceUnavailable: the database cannot be reached.
    """
    with base.writer() as conn:
        return conn.execute(
            sa.update(_t)
            .where(_t.c.name == name, _t.c.state != State.CLOSED)
            .values(state=state, received=received, sha256=sha256,
                    updated_at=base.utcnow())).rowcount == 1


@base.retry()
def close(snapshot_id: str) -> sa.RowMapping | None:
    """Close the transfer of a snapshot, wherever it is.

    :return: its row, with the conductor that has to remove its file; None
        when there is none.
    :raises ServiceUnavailable: the database cannot be reached.
    """
    with base.writer() as conn:
        row = conn.execute(
            sa.select(_t).where(_t.c.snapshot_uuid == snapshot_id)
            .with_for_update()).mappings().one_or_none()
        if row is not None and row['state'] != State.CLOSED:
            conn.execute(
                sa.update(_t).where(_t.c.id == row['id'])
                .values(state=State.CLOSED, updated_at=base.utcnow()))
        return row


@base.retry()
def close_finished(conductor: str) -> None:
    """Close what a conductor still takes for snapshots that are over.

    Whoever ends a snapshot closes its transfer first, unless that never
    worked, or one opens it who did not hear of the end.
    """
    over = sa.select(_h.c.uuid).where(_h.c.uuid == _t.c.snapshot_uuid,
                                      _h.c.finished_at.is_not(None))
    with base.writer() as conn:
        conn.execute(
            sa.update(_t)
            .where(_t.c.conductor == conductor,
                   _t.c.state != State.CLOSED, over.exists())
            .values(state=State.CLOSED, updated_at=base.utcnow()))


@base.retry()
def removed(name: str) -> None:
    """Forget a transfer of which nothing is left."""
    with base.writer() as conn:
        conn.execute(sa.delete(_t).where(_t.c.name == name))


def of_conductor(conductor: str) -> Sequence[sa.RowMapping]:
    """List the transfers that a conductor has, or has to remove."""
    with base.reader() as conn:
        return conn.execute(
            sa.select(_t).where(_t.c.conductor == conductor)
            .order_by(_t.c.id)).mappings().all()
