# SPDX-License-Identifier: Apache-2.0
"""Reading servers and their volumes."""

from collections.abc import Sequence
import dataclasses
import datetime
from typing import Any

import sqlalchemy as sa

from stillframe import exceptions
from stillframe.db import base
from stillframe.db import faults
from stillframe.db import models
from stillframe.db import paging
from stillframe.states import servers as states

_s = models.servers
_v = models.volumes

#: What a list may be sorted by.
SORT_KEYS = frozenset((
    'created_at', 'updated_at', 'launched_at', 'name', 'uuid', 'host',
    'vm_state', 'task_state', 'power_state', 'project_id', 'user_id'))

# Statements of the hot paths are built once; SQLAlchemy takes as long to
# build one as to run it.
_ONE = sa.select(_s).where(_s.c.uuid == sa.bindparam('one'))
_LISTED = sa.select(_s.c.uuid, _s.c.name)
_LISTED_WITH_DETAILS = sa.select(
    _s.c.uuid, _s.c.name, _s.c.domain_name, _s.c.project_id, _s.c.user_id,
    _s.c.host, _s.c.vm_state, _s.c.task_state, _s.c.power_state,
    _s.c.flavor, _s.c.image_id, _s.c.launched_at, _s.c.created_at,
    _s.c.updated_at, _s.c.deleted_at)
_VOLUMES_SHOWN = (
    sa.select(_v.c.server_uuid, _v.c.volume_id, _v.c.device)
    .where(_v.c.server_uuid.in_(sa.bindparam('servers', expanding=True)))
    .order_by(_v.c.target))


@dataclasses.dataclass(frozen=True)
class Filters:
    """What a list of servers is narrowed to; None means any.

    :ivar name_pattern: a regular expression that is found somewhere in the
        name. The caller vouches for its cost: with SQLite it runs in this
        process.
    :ivar equal: pairs of a column and the value that it must have.
    :ivar changes_since: updated then or later; deleted servers included.
    :ivar changes_before: updated then or earlier.
    :ivar deleted: True: only deleted ones; None: both.
    """

    project_id: str | None = None
    name_pattern: str | None = None
    vm_states: Sequence[str] | None = None
    equal: Sequence[tuple[str, Any]] = ()
    changes_since: datetime.datetime | None = None
    changes_before: datetime.datetime | None = None
    deleted: bool | None = False


@dataclasses.dataclass(frozen=True)
class Page:
    """A page of servers, with what each shows besides its own row.

    :ivar servers: with the columns that are shown, no more.
    :ivar volumes: id and device of each, by server uuid, in the order of
        the target device.
    :ivar faults: newest by server uuid, for those in error or deleted.
    """

    servers: Sequence[sa.RowMapping]
    volumes: dict[str, list[sa.RowMapping]]
    faults: dict[str, sa.RowMapping]


def _conditions(filters: Filters) -> list[Any]:
    found: list[Any] = []
    if filters.project_id is not None:
        found.append(_s.c.project_id == filters.project_id)
    if filters.deleted is not None:
        found.append(_s.c.deleted == filters.deleted)
    found.extend(_s.c[column] == value for column, value in filters.equal)
    if filters.vm_states is not None:
        found.append(_s.c.vm_state.in_(filters.vm_states))
    if filters.name_pattern is not None:
        found.append(_s.c.name.regexp_match(filters.name_pattern))
    if filters.changes_since is not None:
        found.append(_s.c.updated_at >= filters.changes_since)
    if filters.changes_before is not None:
        found.append(_s.c.updated_at <= filters.changes_before)
    return found


def list_page(filters: Filters, limit: int, marker: str | None = None,
              sort: Sequence[tuple[str, str]] = (('created_at', 'desc'),),
              detail: bool = True) -> Page:
    """List servers.

    :param limit: at most so many.
    :param marker: uuid of the last server of the page before; it need not
        match the filters but the caller must be allowed to see it.
    :param sort: pairs of a key of :data:`SORT_KEYS` and asc or desc.
    :param detail: read volumes and faults too (two more queries whatever
        the number of servers).
    :raises ServerNotFound: the marker is unknown.
    """
    keys = [(_s.c[key], way == 'desc') for key, way in sort]
    keys.append((_s.c.id, keys[-1][1] if keys else True))
    with base.reader() as conn:
        query = (_LISTED_WITH_DETAILS if detail else _LISTED).where(
            *_conditions(filters))
        if marker is not None:
            row = conn.execute(_ONE, {'one': marker}
                               ).mappings().one_or_none()
            if row is None or (filters.project_id is not None
                               and row['project_id'] != filters.project_id):
                raise exceptions.ServerNotFound(server=marker)
            query = query.where(paging.after(row, keys))
        query = paging.ordered(query, keys)
        rows = conn.execute(query.limit(limit)).mappings().all()
        if not detail:
            return Page(rows, {}, {})
        return _with_details(conn, rows)


def _with_details(conn: sa.engine.Connection,
                  rows: Sequence[sa.RowMapping]) -> Page:
    uuids = [row['uuid'] for row in rows]
    volumes: dict[str, list[sa.RowMapping]] = {one: [] for one in uuids}
    if uuids:
        for volume in conn.execute(
                _VOLUMES_SHOWN, {'servers': uuids}).mappings():
            volumes[volume['server_uuid']].append(volume)
    in_error = [row['uuid'] for row in rows
                if row['vm_state'] in (states.ERROR, states.DELETED)]
    return Page(rows, volumes, faults.latest(conn, in_error))


def select(conn: sa.engine.Connection, uuid: str) -> sa.RowMapping:
    """Give one server's row, deleted or not.

    :raises ServerNotFound: there is none.
    """
    row = conn.execute(_ONE, {'one': uuid}).mappings().one_or_none()
    if row is None:
        raise exceptions.ServerNotFound(server=uuid)
    return row


def get(uuid: str, deleted: bool = False) -> sa.RowMapping:
    """Give one server.

    :param deleted: take deleted ones too.
    :raises ServerNotFound: there is none.
    """
    with base.reader() as conn:
        row = select(conn, uuid)
    if row['deleted'] and not deleted:
        raise exceptions.ServerNotFound(server=uuid)
    return row


def get_page(uuid: str, deleted: bool = False) -> Page:
    """Give one server with its volumes and its fault.

    :raises ServerNotFound: there is none.
    """
    with base.reader() as conn:
        row = select(conn, uuid)
        if row['deleted'] and not deleted:
            raise exceptions.ServerNotFound(server=uuid)
        return _with_details(conn, [row])


def volumes_of(uuid: str) -> Sequence[sa.RowMapping]:
    """List the volumes of a server in the order of the target device."""
    with base.reader() as conn:
        return conn.execute(
            sa.select(_v).where(_v.c.server_uuid == uuid)
            .order_by(_v.c.target)).mappings().all()
