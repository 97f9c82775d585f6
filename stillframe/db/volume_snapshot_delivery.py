# SPDX-License-Identifier: Apache-2.0
"""What Cinder has to be told of volume snapshots, and what it takes.

A row that is due is told by one conductor at a time: whoever takes it has
it for a while, and when that one dies, another takes it after that while.
"""

from collections.abc import Sequence
import datetime
from typing import Any

from oslo_db import exception as db_exc
import sqlalchemy as sa

from stillframe.db import base
from stillframe.db import models
from stillframe.states.volume_snapshots import Delivery

_o = models.volume_snapshots
_e = models.cinder_endpoints


def take_due(lease: float, longest_wait: float,
             limit: int) -> Sequence[sa.RowMapping]:
    """Take rows of which Cinder has to be told now.

    :param lease: seconds for which they are ours.
    :param longest_wait: seconds to a next try at most; a row that says to
        wait longer than that does so because the wall clock was set back.
    """
    now = base.utcnow()
    free = (_o.c.delivery == Delivery.DUE,
            sa.or_(_o.c.delivery_due <= now,
                   _o.c.delivery_due > now + _seconds(longest_wait)),
            sa.or_(_o.c.delivering_until.is_(None),
                   _o.c.delivering_until <= now,
                   _o.c.delivering_until > now + _seconds(2 * lease)))
    with base.writer() as conn:
        taken = []
        for row in conn.execute(sa.select(_o).where(*free).order_by(
                _o.c.delivery_due).limit(limit)).mappings().all():
            mine = conn.execute(
                sa.update(_o).where(_o.c.id == row['id'], *free)
                .values(delivering_until=now + _seconds(lease)))
            if mine.rowcount:
                taken.append(row)
        return taken


def _seconds(number: float) -> datetime.timedelta:
    return datetime.timedelta(seconds=number)


def give_back(operation_id: str, error: str | None, again_in: float,
              refused: bool = False) -> None:
    """Note that Cinder could not be told yet.

    :param error: what happened; None when it was not even tried.
    :param again_in: seconds until the next try.
    :param refused: it answered, and said no.
    """
    now = base.utcnow()
    values: dict[str, Any] = {
        'delivering_until': None, 'delivery_due': now + _seconds(again_in)}
    if error is not None:
        values.update(
            delivery_attempts=_o.c.delivery_attempts + 1,
            delivery_refusals=_o.c.delivery_refusals + int(refused),
            delivery_error=error)
    with base.writer() as conn:
        conn.execute(
            sa.update(_o).where(_o.c.uuid == operation_id,
                                _o.c.delivery == Delivery.DUE)
            .values(**values))


def end(operation_id: str, delivery: Delivery, form: str | None,
        error: str | None) -> None:
    """Note that telling Cinder is over.

    :param delivery: how.
    :param form: the form that Cinder took.
    """
    now = base.utcnow()
    with base.writer() as conn:
        conn.execute(
            sa.update(_o).where(_o.c.uuid == operation_id,
                                _o.c.delivery == Delivery.DUE)
            .values(delivery=delivery, delivery_form=form,
                    delivery_error=error, delivering_until=None,
                    delivery_attempts=_o.c.delivery_attempts + 1,
                    delivered_at=now
                    if delivery is Delivery.DELIVERED else None))


def form_of(url: str) -> str | None:
    """Give the form that an endpoint is known to take, or None."""
    with base.reader() as conn:
        return conn.execute(sa.select(_e.c.form).where(
            _e.c.url == url[:255])).scalar_one_or_none()


@base.retry(db_exc.DBDuplicateEntry)
def learn_form(url: str, form: str) -> None:
    """Remember which form an endpoint takes."""
    now = base.utcnow()
    with base.writer() as conn:
        known = conn.execute(
            sa.update(_e).where(_e.c.url == url[:255])
            .values(form=form, learned_at=now))
        if not known.rowcount:
            conn.execute(sa.insert(_e).values(
                url=url[:255], form=form, learned_at=now))
