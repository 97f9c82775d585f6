# SPDX-License-Identifier: Apache-2.0
"""Reading nodes, and the changes to them that users make."""

from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
from typing import Any
import uuid as uuid_

from oslo_db import exception as db_exc
import sqlalchemy as sa

from stillframe import exceptions
from stillframe.db import base
from stillframe.db import models
from stillframe.db import paging
from stillframe.states import nodes as states

_n = models.nodes
_p = models.ports

#: A node as everything else sees it: its row, by the names of the columns.
Node = Mapping[Any, Any]

#: What a list may be sorted by.
SORT_KEYS = frozenset((
    'id', 'uuid', 'name', 'driver', 'power_state', 'provision_state',
    'instance_uuid', 'maintenance', 'resource_class', 'owner', 'lessee',
    'conductor_group', 'created_at', 'updated_at', 'provision_updated_at',
    'reservation', 'boot_mode', 'target_power_state',
    'target_provision_state'))
#: What a list shows of each node unless asked otherwise.
LISTED = ('uuid', 'name', 'instance_uuid', 'maintenance', 'power_state',
          'provision_state')
#: Columns that a user sets; everything else is ours.
USERS = frozenset((
    'name', 'driver', 'power_interface', 'boot_interface',
    'management_interface', 'snapshot_interface', 'driver_info',
    'properties', 'instance_info', 'extra', 'instance_uuid',
    'resource_class', 'owner', 'lessee', 'description', 'conductor_group',
    'boot_mode', 'maintenance', 'maintenance_reason'))

# Built once, since each request runs one of them.
_ONE = sa.select(_n).where(_n.c.uuid == sa.bindparam('one'))
_MANY = sa.select(_n).where(
    _n.c.uuid.in_(sa.bindparam('these', expanding=True)))
_ONE_BY_NAME = sa.select(_n).where(_n.c.name == sa.bindparam('one'))
_ONE_BY_INSTANCE = sa.select(_n).where(
    _n.c.instance_uuid == sa.bindparam('one'))


@dataclasses.dataclass(frozen=True)
class Filters:
    """What a list of nodes is narrowed to; None means any.

    :ivar equal: values by column.
    :ivar associated: whether it has an instance_uuid.
    :ivar project_id: its owner or its lessee.
    :ivar description_contains: found in its description.
    """

    equal: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    associated: bool | None = None
    project_id: str | None = None
    description_contains: str | None = None

    def conditions(self) -> list[Any]:
        """Give the conditions for a query."""
        found: list[Any] = [_n.c[column] == value
                            for column, value in self.equal.items()]
        if self.associated is not None:
            column = _n.c.instance_uuid
            found.append(column.is_not(None) if self.associated
                         else column.is_(None))
        if self.project_id is not None:
            found.append(sa.or_(_n.c.owner == self.project_id,
                                _n.c.lessee == self.project_id))
        if self.description_contains is not None:
            found.append(_n.c.description.contains(
                self.description_contains, autoescape=True))
        return found


def is_uuid(text: str) -> bool:
    """Tell whether a text is a UUID as we write them."""
    try:
        return str(uuid_.UUID(text)) == text.lower()
    except ValueError:
        return False


def select(conn: sa.engine.Connection, ident: str) -> sa.RowMapping:
    """Give one node by its UUID or its name.

    :raises NodeNotFound: there is none.
    """
    by_uuid = is_uuid(ident)
    row = conn.execute(
        _ONE if by_uuid else _ONE_BY_NAME,
        {'one': ident.lower() if by_uuid else ident}
    ).mappings().one_or_none()
    if row is None:
        raise exceptions.NodeNotFound(node=ident)
    return row


def get(ident: str) -> sa.RowMapping:
    """Give one node by its UUID or its name.

    :raises NodeNotFound: there is none.
    """
    with base.reader() as conn:
        return select(conn, ident)


def get_many(uuids: Iterable[str]) -> list[sa.RowMapping]:
    """Give several nodes by their UUIDs, in any order, in one query.

    One that is gone is left out.
    """
    with base.reader() as conn:
        return list(conn.execute(
            _MANY, {'these': list(uuids)}).mappings())


def get_by_instance(instance_uuid: str) -> sa.RowMapping | None:
    """Give the node that carries an instance; None when none does."""
    with base.reader() as conn:
        return conn.execute(
            _ONE_BY_INSTANCE, {'one': instance_uuid}
        ).mappings().one_or_none()


def with_instances() -> Sequence[sa.RowMapping]:
    """List the nodes that carry an instance, whole."""
    with base.reader() as conn:
        return conn.execute(
            sa.select(_n).where(_n.c.instance_uuid.is_not(None))
            .order_by(_n.c.id)).mappings().all()


def gone_instances(host: str) -> Sequence[str]:
    """List the servers of a host that no node carries any more."""
    server = models.servers
    with base.reader() as conn:
        return conn.execute(
            sa.select(server.c.uuid).where(
                server.c.host == host, server.c.deleted.is_(False),
                ~sa.select(_n.c.id).where(
                    _n.c.instance_uuid == server.c.uuid).exists())
        ).scalars().all()


def sight_of_instances() -> tuple[Any, ...]:
    """Give what differs when the nodes that carry an instance do."""
    with base.reader() as conn:
        return tuple(conn.execute(
            sa.select(sa.func.count(), sa.func.max(_n.c.updated_at))
            .where(_n.c.instance_uuid.is_not(None))).one())


def get_by_addresses(addresses: Iterable[str]) -> sa.RowMapping | None:
    """Give the node that has ports with some MAC addresses.

    :param addresses: in lower case; those that are unknown are no matter.
    :return: None when there is none, or more than one.
    """
    with base.reader() as conn:
        rows = conn.execute(
            sa.select(_n).where(_n.c.uuid.in_(
                sa.select(_p.c.node_uuid)
                .where(_p.c.address.in_(list(addresses)))))
            .limit(2)).mappings().all()
    return rows[0] if len(rows) == 1 else None


def list_page(filters: Filters, limit: int, marker: str | None = None,
              sort_key: str = 'id', sort_dir: str = 'asc',
              columns: Iterable[str] | None = LISTED
              ) -> Sequence[sa.RowMapping]:
    """List nodes: one query, two with a marker.

    :param limit: at most so many.
    :param marker: UUID of the last node of the page before.
    :param sort_key: one of :data:`SORT_KEYS`.
    :param sort_dir: asc or desc.
    :param columns: to read; None: all.
    :raises NodeNotFound: the marker is unknown.
    """
    keys = paging.keys_of(_n, sort_key, sort_dir)
    query = (sa.select(_n) if columns is None
             else sa.select(*[_n.c[name] for name in columns]))
    query = query.where(*filters.conditions())
    with base.reader() as conn:
        if marker is not None:
            query = query.where(paging.after(select(conn, marker), keys))
        return conn.execute(paging.ordered(query, keys).limit(limit)
                            ).mappings().all()


@base.retry()
def create(values: Mapping[str, Any]) -> sa.RowMapping:
    """Make a node, in state enroll.

    :param values: by column; driver is needed, uuid may be given.
    :raises AlreadyExists: its UUID, name or instance is another's.
    """
    row: dict[str, Any] = {
        'uuid': str(uuid_.uuid4()), 'version': 1, 'driver_info': {},
        'driver_internal_info': {}, 'properties': {}, 'instance_info': {},
        'extra': {}, 'conductor_group': '', 'maintenance': False,
        'provision_state': states.ENROLL, 'created_at': base.utcnow(),
        **values}
    try:
        with base.writer() as conn:
            conn.execute(sa.insert(_n).values(**row))
            return select(conn, row['uuid'])
    except db_exc.DBDuplicateEntry as exc:
        raise _taken(exc, row) from None


@base.retry()
def update(node: Node, values: Mapping[str, Any]) -> sa.RowMapping:
    """Change a node as a user asks for.

    :param node: as it was read when the change was made from it.
    :param values: by column, those of :data:`USERS`.
    :raises NodeNotFound: it is gone.
    :raises NodeChanged: another change came first.
    :raises NodeLocked: a conductor is at work on it.
    :raises AlreadyExists: its name or instance is another's.
    """
    if not values.keys() <= USERS:
        raise ValueError(f'not a user\'s: {values.keys() - USERS}')
    condition = [_n.c.uuid == node['uuid'],
                 _n.c.version == node['version']]
    if not values.keys() <= {'maintenance', 'maintenance_reason'}:
        # It was judged by its state whether it may be changed.
        condition += [_n.c.reservation.is_(None),
                      _n.c.provision_state == node['provision_state']]
    try:
        with base.writer() as conn:
            changed = conn.execute(
                sa.update(_n).where(*condition)
                .values(**values, version=_n.c.version + 1,
                        updated_at=base.utcnow()))
            row = select(conn, node['uuid'])
            if not changed.rowcount:
                if (row['version'] == node['version']
                        and row['reservation'] is not None):
                    raise exceptions.NodeLocked(node=node['uuid'],
                                                host=row['reservation'])
                raise exceptions.NodeChanged(node=node['uuid'])
            return row
    except db_exc.DBDuplicateEntry as exc:
        raise _taken(exc, {**node, **values}) from None


def _taken(exc: db_exc.DBDuplicateEntry, row: Mapping[str, Any]
           ) -> exceptions.AlreadyExists:
    column = base.taken_column(exc, _n)
    if column == 'instance_uuid':
        return exceptions.AlreadyExists(
            f'Instance {row["instance_uuid"]} is already associated with a '
            'node, it cannot be associated with this other node '
            f'{row["uuid"]}')
    if column == 'name':
        return exceptions.AlreadyExists(
            what=f'node with name {row["name"]}')
    return exceptions.AlreadyExists(what=f'node with UUID {row["uuid"]}')


@base.retry()
def destroy(node: Node) -> None:
    """Delete a node with its ports and its history.

    :raises NodeNotFound: it is gone.
    :raises NodeLocked: a conductor is at work on it.
    :raises NodeAssociated: it has an instance.
    :raises WrongNodeState: its state does not allow it, and it is not in
        maintenance; or its ramdisk may be running.
    """
    allowed = sa.or_(
        _n.c.provision_state.in_(sorted(states.DELETE_ALLOWED)),
        sa.and_(_n.c.maintenance.is_(True),
                _n.c.provision_state.not_in(sorted(states.WAITING))))
    with base.writer() as conn:
        gone = conn.execute(sa.delete(_n).where(
            _n.c.uuid == node['uuid'], _n.c.reservation.is_(None),
            _n.c.instance_uuid.is_(None), allowed))
        if gone.rowcount:
            return
        row = select(conn, node['uuid'])
    if row['reservation'] is not None:
        raise exceptions.NodeLocked(node=row['uuid'],
                                    host=row['reservation'])
    if row['instance_uuid'] is not None:
        raise exceptions.NodeAssociated(node=row['uuid'],
                                        instance=row['instance_uuid'])
    raise exceptions.WrongNodeState(action='delete', node=row['uuid'],
                                    state=row['provision_state'])
