# SPDX-License-Identifier: Apache-2.0
"""Deleting what nobody needs to know any more."""

import datetime
from typing import Any

import sqlalchemy as sa

from stillframe.db import base
from stillframe.db import models
from stillframe.states.volume_snapshots import Delivery

# Rows in one transaction: nobody waits long for a lock that a purge holds.
_BATCH = 500

_s = models.servers
_v = models.volume_snapshots
_d = models.volumes
_t = models.volume_formats
_i = models.server_images
_a = models.actions
_f = models.faults
_z = models.freezes
_h = models.node_snapshots
_n = models.nodes
_r = models.transfers
_p = models.services

# Who was heard of since then is not forgotten, whatever is asked for.
_HEARD = datetime.timedelta(days=1)


def purge(before: datetime.datetime) -> dict[str, int]:
    """Delete what was over before a time.

    Snapshots of volumes of which Cinder knows the outcome, and images of
    which nothing is left to remove. What is known of the files of volumes
    that no server has, and of which nothing was heard since. Servers that
    were deleted, with all that hangs on them, unless such work goes on. Of
    the others the actions that ended, the faults, and the freezes that
    ended, except the newest fault (it says why a server is in error) and
    the freeze that a server refers to (it says why there is nothing to
    unquiesce). Of the snapshots of nodes all but the last of each. Workers
    and conductors of which nothing was heard since, nor in the last day,
    and that nothing is left to do for.

    :param before: UTC without a zone.
    :return: rows deleted by table, without those that hung on others.
    :raises ServiceUnavailable: the database cannot be reached.
    """
    newest_faults = sa.select(sa.func.max(_f.c.id)).group_by(
        _f.c.server_uuid).subquery()
    referred = sa.select(_s.c.id).where(
        _s.c.uuid == _z.c.server_uuid,
        _s.c.freeze_id == _z.c.freeze_id).exists()
    last = sa.select(_n.c.id).where(
        _n.c.snapshot_id == _h.c.uuid).exists()
    told_later = sa.or_(_v.c.delivery == Delivery.DUE,
                        _v.c.active_volume.is_not(None))
    removed_later = sa.or_(_i.c.removal_due.is_not(None),
                           _i.c.active_server.is_not(None))
    unchanged = sa.select(_t.c.volume_id).group_by(_t.c.volume_id).having(
        sa.func.max(_t.c.learned_at) < before).subquery()
    heard_of = [
        sa.select(_d.c.id).join_from(_d, _s, _d.c.server_uuid == _s.c.uuid)
        .where(_d.c.volume_id == _t.c.volume_id,
               _s.c.deleted.is_(False)).exists(),
        sa.select(_v.c.id).where(
            _v.c.volume_id == _t.c.volume_id,
            sa.or_(_v.c.active_volume.is_not(None),
                   _v.c.created_at >= before)).exists()]
    owing = [sa.select(table.c.id).where(column == _p.c.host, *open_).exists()
             for table, column, open_ in (
                 (_s, _s.c.host, [_s.c.deleted.is_(False)]),
                 (_n, _n.c.reservation, []), (_r, _r.c.conductor, []),
                 (_h, _h.c.conductor, [_h.c.finished_at.is_(None)]))]
    busy = [sa.select(table.c.id).where(
        table.c.server_uuid == _s.c.uuid, later).exists()
        for table, later in ((_v, told_later), (_i, removed_later))]
    return {
        # Before the requests, which say that a volume was heard of.
        'volume_formats': _delete(
            _t, _t.c.volume_id.in_(sa.select(unchanged)),
            *[~one for one in heard_of]),
        'volume_snapshots': _delete(_v, _v.c.finished_at < before,
                                    ~told_later),
        'server_images': _delete(_i, _i.c.finished_at < before,
                                 ~removed_later),
        'servers': _delete(_s, _s.c.deleted.is_(True),
                           _s.c.deleted_at < before,
                           *[~one for one in busy]),
        'actions': _delete(_a, _a.c.finish_time < before),
        'faults': _delete(_f, _f.c.created_at < before,
                          _f.c.id.not_in(sa.select(newest_faults))),
        'freezes': _delete(_z, _z.c.created_at < before,
                           _z.c.ended_at < before, ~referred),
        'node_snapshots': _delete(_h, _h.c.finished_at < before, ~last),
        'services': _delete(
            _p, _p.c.last_seen < min(before, base.utcnow() - _HEARD),
            *[~one for one in owing]),
    }


def _delete(table: sa.Table, *conditions: Any) -> int:
    total = 0
    while True:
        found = _delete_batch(table, conditions)
        total += found
        if found < _BATCH:
            return total


@base.retry()
def _delete_batch(table: sa.Table, conditions: tuple) -> int:
    # MySQL takes no LIMIT in a subquery of a DELETE: ids first.
    with base.writer() as conn:
        ids = conn.execute(sa.select(table.c.id).where(*conditions)
                           .limit(_BATCH)).scalars().all()
        if ids:
            conn.execute(sa.delete(table).where(
                table.c.id.in_(ids), *conditions))
        return len(ids)
