# SPDX-License-Identifier: Apache-2.0
"""Taking back a new file of which Cinder does not know.

What Cinder will not hear of, and the request that merges the file down
again, are written down in one transaction: whoever is killed, there is
either the one or both.
"""

import posixpath
from typing import Any

from oslo_context import context as oslo_context
from oslo_db import exception as db_exc
import sqlalchemy as sa

from stillframe import exceptions
from stillframe.db import base
from stillframe.db import models
from stillframe.db import volume_snapshots
from stillframe.states import volume_snapshots as states
from stillframe.states.volume_snapshots import Delivery

_o = models.volume_snapshots


def begin(row: sa.RowMapping, error: str) -> sa.RowMapping | None:
    """Note that a new file is a stray, and begin to merge it down.

    :param row: the creation that succeeded.
    :param error: how that came out, for administrators.
    :return: the request for the merge; None when there is nothing that
        could be merged, or the creation is not ours to judge any more.
    :raises VolumeBusy, WrongVolumeState: not now; nothing was noted.
    """
    try:
        return _begin(row, error)
    except db_exc.DBDuplicateEntry:
        raise exceptions.VolumeBusy(
            volume=row['volume_id'], reason='another snapshot request for '
            'it has just begun') from None


@base.retry()
def _begin(row: sa.RowMapping, error: str) -> sa.RowMapping | None:
    now = base.utcnow()
    wish = _merge(row)
    with base.writer() as conn:
        noted = conn.execute(
            sa.update(_o)
            .where(_o.c.uuid == row['uuid'], _o.c.delivery == Delivery.DUE)
            .values(delivery=Delivery.UNWANTED, delivery_error=error,
                    delivering_until=None,
                    delivery_attempts=_o.c.delivery_attempts + 1))
        if not noted.rowcount or wish is None:
            return None
        try:
            return volume_snapshots.insert(
                conn, oslo_context.generate_request_id(), row['volume_id'],
                row['snapshot_id'], states.UNDO, wish, now)
        except (exceptions.VolumeUnknown, exceptions.VolumeMultiAttached):
            # The server gave the volume back: nothing writes to the file.
            return None


def _merge(row: sa.RowMapping) -> dict[str, Any] | None:
    """Give what is to be merged into what, if there is anything."""
    names = [posixpath.basename(layer['path'])
             for layer in row['chain_after'] or ()]
    if len(names) < 2 or names[0] != row['request'].get('new_file'):
        return None
    return {'file_to_merge': names[0], 'merge_target_file': names[1]}
