# SPDX-License-Identifier: Apache-2.0
"""The network ports of nodes, by which a ramdisk says who it is."""

from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any
import uuid as uuid_

from oslo_db import exception as db_exc
import sqlalchemy as sa

from stillframe import exceptions
from stillframe.db import base
from stillframe.db import models
from stillframe.db import nodes
from stillframe.db import paging
from stillframe.states import nodes as states

_p = models.ports
_n = models.nodes

#: What a list may be sorted by.
SORT_KEYS = frozenset(('id', 'uuid', 'address', 'node_uuid', 'pxe_enabled',
                       'created_at', 'updated_at'))
#: What a list shows of each port unless asked otherwise.
LISTED = ('uuid', 'address')
#: Columns that a user sets.
USERS = frozenset(('address', 'extra', 'pxe_enabled',
                   'local_link_connection', 'node_uuid'))
# Columns by which a ramdisk says whose it is.
_IDENTITY = frozenset(('address', 'node_uuid'))


def select(conn: sa.engine.Connection, uuid: str) -> sa.RowMapping:
    """Give one port.

    :raises PortNotFound: there is none.
    """
    row = conn.execute(sa.select(_p).where(_p.c.uuid == uuid)
                       ).mappings().one_or_none()
    if row is None:
        raise exceptions.PortNotFound(port=uuid)
    return row


def get(uuid: str) -> sa.RowMapping:
    """Give one port.

    :raises PortNotFound: there is none.
    """
    with base.reader() as conn:
        return select(conn, uuid)


def list_page(limit: int, marker: str | None = None,
              node_uuid: str | None = None, address: str | None = None,
              project_id: str | None = None,
              sort_key: str = 'id', sort_dir: str = 'asc',
              columns: Iterable[str] | None = LISTED
              ) -> Sequence[sa.RowMapping]:
    """List ports.

    :param limit: at most so many.
    :param marker: UUID of the last port of the page before.
    :param node_uuid: those of this node alone.
    :param address: that with this address, in lower case.
    :param project_id: those of nodes that it owns or leases.
    :param sort_key: one of :data:`SORT_KEYS`.
    :param sort_dir: asc or desc.
    :param columns: to read; None: all.
    :raises PortNotFound: the marker is unknown.
    """
    keys = paging.keys_of(_p, sort_key, sort_dir)
    query = (sa.select(_p) if columns is None
             else sa.select(*[_p.c[name] for name in columns]))
    if node_uuid is not None:
        query = query.where(_p.c.node_uuid == node_uuid)
    if address is not None:
        query = query.where(_p.c.address == address)
    if project_id is not None:
        query = query.where(_p.c.node_uuid.in_(
            sa.select(_n.c.uuid).where(
                *nodes.Filters(project_id=project_id).conditions())))
    with base.reader() as conn:
        if marker is not None:
            query = query.where(paging.after(select(conn, marker), keys))
        return conn.execute(paging.ordered(query, keys).limit(limit)
                            ).mappings().all()


def addresses_of(node_uuid: str) -> set[str]:
    """Give the addresses of a node's ports."""
    with base.reader() as conn:
        return set(conn.execute(sa.select(_p.c.address).where(
            _p.c.node_uuid == node_uuid)).scalars())


@base.retry()
def create(values: Mapping[str, Any]) -> sa.RowMapping:
    """Make a port.

    :param values: by column; node_uuid and address (in lower case) are
        needed, uuid may be given.
    :raises AlreadyExists: its address or UUID is another's.
    :raises NodeNotFound: there is no such node.
    """
    row: dict[str, Any] = {
        'uuid': str(uuid_.uuid4()), 'extra': {}, 'pxe_enabled': True,
        'local_link_connection': {}, 'created_at': base.utcnow(), **values}
    try:
        with base.writer() as conn:
            nodes.select(conn, row['node_uuid'])
            conn.execute(sa.insert(_p).values(**row))
            return select(conn, row['uuid'])
    except db_exc.DBDuplicateEntry as exc:
        raise _taken(exc, row) from None


@base.retry()
def update(uuid: str, values: Mapping[str, Any]) -> sa.RowMapping:
    """Change a port.

    :param values: by column, those of :data:`USERS`.
    :raises PortNotFound: it is gone.
    :raises AlreadyExists: its address is another's.
    :raises NodeNotFound: there is no such node.
    :raises NodeLocked, PortInUse, NodeChanged: its node does not let it
        be changed now.
    """
    if not values.keys() <= USERS:
        raise ValueError(f'not a user\'s: {values.keys() - USERS}')
    try:
        with base.writer() as conn:
            row = select(conn, uuid)
            wanted = nodes.select(
                conn, values.get('node_uuid', row['node_uuid']))['uuid']
            _lock(conn, row, 'change', {row['node_uuid'], wanted},
                  not values.keys().isdisjoint(_IDENTITY))
            conn.execute(sa.update(_p).where(_p.c.uuid == uuid).values(
                **{**values, 'node_uuid': wanted},
                updated_at=base.utcnow()))
            return select(conn, uuid)
    except db_exc.DBDuplicateEntry as exc:
        raise _taken(exc, {'uuid': uuid, **values}) from None


def _taken(exc: db_exc.DBDuplicateEntry, row: Mapping[str, Any]
           ) -> exceptions.AlreadyExists:
    if base.taken_column(exc, _p) == 'address':
        return exceptions.AlreadyExists(
            what=f'port with MAC address {row["address"]}')
    return exceptions.AlreadyExists(what=f'port with UUID {row["uuid"]}')


@base.retry()
def destroy(uuid: str) -> None:
    """Delete a port.

    :raises PortNotFound: it is gone.
    :raises NodeLocked, PortInUse, NodeChanged: its node does not let it go
        now.
    """
    with base.writer() as conn:
        row = select(conn, uuid)
        _lock(conn, row, 'delete', {row['node_uuid']}, True)
        conn.execute(sa.delete(_p).where(_p.c.uuid == uuid))


def _lock(conn: sa.engine.Connection, port: sa.RowMapping, action: str,
          node_uuids: set[str], identity: bool) -> None:
    """Lock the nodes of a port, if they let it be changed now.

    As Ironic, which reserves the node to change one of its ports.

    :param node_uuids: of the node that it has, and is to have.
    :param identity: it is about that by which a ramdisk says whose it is.
    :raises NodeNotFound: one of them is gone.
    :raises NodeLocked, PortInUse, NodeChanged: as said.
    """
    # In one order, so that two do not wait for each other.
    for node_uuid in sorted(node_uuids):
        node = conn.execute(
            sa.select(_n).where(_n.c.uuid == node_uuid).with_for_update()
        ).mappings().one_or_none()
        if node is None:
            raise exceptions.NodeNotFound(node=node_uuid)
        if node['reservation'] is not None:
            raise exceptions.NodeLocked(node=node_uuid,
                                        host=node['reservation'])
        if identity and node['provision_state'] in states.LOOKUP_ALLOWED:
            raise exceptions.PortInUse(
                action=action, port=port['uuid'], node=node_uuid,
                state=node['provision_state'])
    # It may have been moved since it was read.
    if select(conn, port['uuid'])['node_uuid'] != port['node_uuid']:
        raise exceptions.NodeChanged(node=port['node_uuid'])
