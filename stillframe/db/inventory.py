# SPDX-License-Identifier: Apache-2.0
"""Applying what compute workers report of the domains they see."""

from collections.abc import Iterable
import datetime
from typing import Any
import uuid

from oslo_db import exception as db_exc
import sqlalchemy as sa

from stillframe.db import actions
from stillframe.db import base
from stillframe.db import freezes
from stillframe.db import models
from stillframe.db import outcomes
from stillframe.db import services
from stillframe.db import transitions
from stillframe.rpc import payloads
from stillframe.states import servers as states

_s = models.servers
_v = models.volumes

# Columns of a server that a report sets as it says them.
_TOLD = ('name', 'domain_name', 'project_id', 'user_id', 'power_state',
         'agent_state', 'flavor', 'image_id')
_VOLUME_TOLD = ('volume_id', 'target', 'device', 'source', 'format',
                'read_only')


@base.retry(db_exc.DBDuplicateEntry)
def apply(host: str, reported: list[payloads.Server], gone: list[str],
          full: bool, servers_digest: str) -> dict[str, str]:
    """Bring the tables up to a report; applying it twice changes nothing.

    A report that overtook a newer one is put right by the worker's next
    sign of life: its digest differs, and all servers are asked for.

    :param full: what is not in ``reported`` is not on the host.
    :return: server id → freeze id of the servers of this host that are
        shown as quiesced (of the reported ones when not ``full``).
    :raises ServiceUnavailable: the database cannot be reached.
    """
    now = base.utcnow()
    told = {one['uuid']: one for one in reported}
    with base.writer() as conn:
        rows = _rows(conn, told)
        _insert(conn, host, [one for uuid_, one in told.items()
                             if uuid_ not in rows], now)
        elsewhere = _update_all(conn, host, told, rows, now)
        _sync_volumes(conn, {one: server for one, server in told.items()
                             if one not in elsewhere})
        _delete(conn, host, told, gone, full, now)
        services.set_inventory(conn, host, servers_digest,
                               bool(elsewhere), full)
        query = sa.select(_s.c.uuid, _s.c.freeze_id).where(
            _s.c.host == host, _s.c.deleted.is_(False),
            _s.c.vm_state == states.QUIESCED)
        if not full:
            query = query.where(_s.c.uuid.in_(list(told)))
        return {row.uuid: row.freeze_id for row in conn.execute(query)}


def _rows(conn: sa.engine.Connection, uuids: Iterable[str],
          lock: bool = False) -> dict[str, sa.RowMapping]:
    wanted = list(uuids)
    if not wanted:
        return {}
    query = sa.select(_s).where(_s.c.uuid.in_(wanted)).order_by(_s.c.uuid)
    if lock:
        query = query.with_for_update()
    return {row['uuid']: row for row in conn.execute(query).mappings()}


def _belongs(row: sa.RowMapping, host: str, told: payloads.Server) -> bool:
    """Tell whether a domain of this host is the server that we know.

    The same UUID may be defined on two hosts (a migration leaves a
    definition behind, or makes one ahead); the server is where the guest
    runs, and stays where it was while it runs nowhere.
    """
    return (row['host'] == host or row['deleted']
            or told['power_state'] == states.POWER_RUNNING)


def _values(host: str, told: payloads.Server) -> dict[str, Any]:
    values = _clipped(_s, _TOLD, told)
    values['host'] = host
    values['launched_at'] = outcomes.when(told['launched_at'])
    return values


def _clipped(table: sa.Table, names: Iterable[str],
             told: Any) -> dict[str, Any]:
    """Take what was told, texts cut to what their columns take."""
    return {name: base.clip(table.c[name], told[name])
            if isinstance(told[name], str) else told[name]
            for name in names}


def _insert(conn: sa.engine.Connection, host: str,
            reported: list[payloads.Server],
            now: datetime.datetime) -> None:
    if not reported:
        return
    conn.execute(sa.insert(_s), [
        dict(_values(host, told), uuid=told['uuid'], deleted=False,
             vm_state=states.vm_state_of_power(told['power_state']),
             created_at=outcomes.when(told['launched_at']) or now,
             updated_at=now)
        for told in reported])


def _update_all(conn: sa.engine.Connection, host: str,
                told: dict[str, payloads.Server],
                rows: dict[str, sa.RowMapping],
                now: datetime.datetime) -> set[str]:
    """Update the servers that are known already.

    Only what differs is locked: a full report of a host on which nothing
    happened holds up nobody.

    :return: uuids of those that count as another host's.
    """
    differ = [one for one, row in rows.items()
              if _belongs(row, host, told[one])
              and _changes(conn, row, host, told[one])]
    for one, row in _rows(conn, differ, lock=True).items():
        rows[one] = row
        if not _belongs(row, host, told[one]):
            continue
        changes = _changes(conn, row, host, told[one])
        if changes:
            conn.execute(sa.update(_s).where(_s.c.uuid == one)
                         .values(updated_at=now, **changes))
        if row['host'] != host:
            # Its definition may have stayed there; should it go here, the
            # other host is asked for what it has.
            services.contest(conn, row['host'])
    return {one for one, row in rows.items()
            if not _belongs(row, host, told[one])}


def _changes(conn: sa.engine.Connection, row: sa.RowMapping, host: str,
             told: payloads.Server) -> dict[str, Any]:
    values = _values(host, told)
    if row['deleted']:
        values.update(deleted=False, deleted_at=None,
                      vm_state=_revived(conn, row, told))
    elif (row['task_state'] is None
          and row['vm_state'] in states.FOLLOWS_POWER):
        values['vm_state'] = states.vm_state_of_power(told['power_state'])
    return {key: value for key, value in values.items()
            if row[key] != value}


def _revived(conn: sa.engine.Connection, row: sa.RowMapping,
             told: payloads.Server) -> str:
    """Give the vm_state of a server that was deleted and is back.

    When it moves while it is quiesced, the old host may tell first that it
    is gone. Whether the freeze stands is for the new host to say: it is
    asked, with the other quiesced servers.
    """
    if freezes.stands(freezes.get(conn, row['uuid'], row['freeze_id'])):
        return states.QUIESCED
    return states.vm_state_of_power(told['power_state'])


def _sync_volumes(conn: sa.engine.Connection,
                  told: dict[str, payloads.Server]) -> None:
    if not told:
        return
    have: dict[tuple[str, str], sa.RowMapping] = {
        (row['server_uuid'], row['target']): row
        for row in conn.execute(
            sa.select(_v).where(_v.c.server_uuid.in_(list(told)))
        ).mappings()}
    new = []
    for server_uuid, server in told.items():
        for volume in server['volumes']:
            row = have.pop((server_uuid, volume['target']), None)
            values = _clipped(_v, _VOLUME_TOLD, volume)
            if row is None:
                new.append(dict(values, server_uuid=server_uuid,
                                attachment_id=attachment_id(
                                    server_uuid, volume['volume_id'])))
            elif any(row[key] != values[key] for key in _VOLUME_TOLD):
                conn.execute(sa.update(_v).where(_v.c.id == row['id'])
                             .values(**values, attachment_id=attachment_id(
                                 server_uuid, volume['volume_id'])))
    if have:
        conn.execute(sa.delete(_v).where(
            _v.c.id.in_([row['id'] for row in have.values()])))
    if new:
        conn.execute(sa.insert(_v), new)


def attachment_id(server_uuid: str, volume_id: str) -> str:
    """Make the id of an attachment: the same for the same pair, always."""
    return str(uuid.uuid5(uuid.UUID(server_uuid), volume_id))


def _delete(conn: sa.engine.Connection, host: str,
            told: Iterable[str], gone: list[str], full: bool,
            now: datetime.datetime) -> None:
    condition = (_s.c.uuid.not_in(list(told)) if full
                 else _s.c.uuid.in_(gone))
    rows = conn.execute(
        sa.select(_s)
        .where(_s.c.host == host, _s.c.deleted.is_(False), condition)
        .order_by(_s.c.uuid).with_for_update()).mappings().all()
    if not rows:
        return
    for row in rows:
        if row['task_request_id'] is not None:
            actions.finish(
                conn, row['uuid'], row['task_request_id'], now,
                'The server was deleted on its host while this was '
                'running.', actions.ERROR)
    conn.execute(
        sa.update(_s).where(_s.c.uuid.in_([row['uuid'] for row in rows]))
        .values(deleted=True, deleted_at=now, updated_at=now,
                vm_state=states.DELETED,
                power_state=states.POWER_NOSTATE, **transitions.FREE))
    services.ask_contested(conn, host)
