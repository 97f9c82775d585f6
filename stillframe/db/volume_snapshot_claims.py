# SPDX-License-Identifier: Apache-2.0
"""What a worker is told of a request when it begins, and says meanwhile."""

import sqlalchemy as sa

from stillframe.db import base
from stillframe.db import models
from stillframe.db import volume_formats
from stillframe.rpc import payloads
from stillframe.states import volume_snapshots as states
from stillframe.states.volume_snapshots import State

_o = models.volume_snapshots


@base.retry()
def claim(operation_id: str, host: str) -> payloads.VolumeSnapshotClaim:
    """Let a worker begin the work of a request, unless it was given up.

    The same worker may ask again: the answer may have been lost.
    """
    now = base.utcnow()
    with base.writer() as conn:
        conn.execute(
            sa.update(_o)
            .where(_o.c.uuid == operation_id, _o.c.state == State.PENDING)
            .values(state=State.RUNNING, host=host, started_at=now))
        row = conn.execute(sa.select(_o).where(
            _o.c.uuid == operation_id)).mappings().one_or_none()
        if (row is None or row['state'] != State.RUNNING
                or row['host'] != host):
            return {'go': False, 'formats': {}, 'merged_before': False,
                    'strays': []}
        return {'go': True,
                'formats': volume_formats.known(conn, row['volume_id']),
                'merged_before': _merged_before(conn, row),
                'strays': _strays(conn, row['volume_id'])}


def _strays(conn: sa.engine.Connection, volume_id: str) -> list[str]:
    """Give the files of which Cinder does not know, as far as we do.

    Whether they are still in the chain is seen there.
    """
    latest = sa.select(sa.func.max(_o.c.id)).where(
        _o.c.volume_id == volume_id, _o.c.operation == states.CREATE,
        _o.c.state == State.DONE).group_by(_o.c.snapshot_id)
    rows = conn.execute(sa.select(_o.c.request).where(
        _o.c.id.in_(latest), _o.c.delivery.in_(sorted(states.STRAY))))
    return sorted(row.request['new_file'] for row in rows)


def _merged_before(conn: sa.engine.Connection, row: sa.RowMapping) -> bool:
    """Tell whether the very same merge was done by an earlier request."""
    if row['operation'] != states.DELETE:
        return False
    earlier = conn.execute(
        sa.select(_o.c.request).where(
            _o.c.volume_id == row['volume_id'], _o.c.id < row['id'],
            _o.c.snapshot_id == row['snapshot_id'],
            _o.c.operation == states.DELETE, _o.c.state == State.DONE))
    return any(one.request == row['request'] for one in earlier)


def note_progress(operation_id: str, host: str, percent: int) -> None:
    """Note how far a running request is; it never goes back."""
    with base.writer() as conn:
        conn.execute(
            sa.update(_o)
            .where(_o.c.uuid == operation_id, _o.c.host == host,
                   _o.c.state == State.RUNNING, _o.c.progress < percent)
            .values(progress=percent))
