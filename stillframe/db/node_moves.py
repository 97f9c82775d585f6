# SPDX-License-Identifier: Apache-2.0
"""Moving a node from state to state, by compare-and-swap.

A move and the reservation of the node for the conductor that is to act on
it are one statement, so of requests that race one wins, and a conductor
that lost a node (because it was taken for dead) can change nothing more.
"""

from collections.abc import Mapping
from collections.abc import Sequence
import datetime
from typing import Any

import sqlalchemy as sa

from stillframe import exceptions
from stillframe.db import base
from stillframe.db import models
from stillframe.db import node_snapshots
from stillframe.db import nodes
from stillframe.states import nodes as states
from stillframe.states import power

_n = models.nodes

# The parameters of the execution that bear names of columns are the new
# values.
_SWAP = sa.update(_n).where(
    _n.c.uuid == sa.bindparam('one'),
    _n.c.provision_state == sa.bindparam('old_state'),
    _n.c.reservation.is_(None))


class LostNode(exceptions.StillframeError):
    """The node is no longer this conductor's: it has to let go of it."""

    template = 'Node {node} is no longer reserved by {host} in {state}.'
    code = 'stillframe.lost_node'


@base.retry()
def begin(node: nodes.Node, verb: str, host: str | None,
          snapshot: Mapping[str, Any] | None = None) -> sa.RowMapping:
    """Move a node at a user's request.

    :param node: as it was read just now.
    :param verb: of :data:`stillframe.states.nodes.VERBS`.
    :param host: the conductor that is to act, which gets the node
        reserved; only looked at where the request needs one.
    :param snapshot: with the verb snapshot, values of its row by column:
        see :func:`stillframe.db.node_snapshots.insert`.
    :return: the node's row after the move.
    :raises NodeNotFound: it is gone.
    :raises NodeLocked: a conductor is at work on it.
    :raises NodeInMaintenance: the request is refused in maintenance.
    :raises WrongNodeState: its state refuses the request.
    """
    if (verb == 'snapshot') != (snapshot is not None):
        raise ValueError('a snapshot has its values, nothing else has any')
    now = base.utcnow()
    with base.writer() as conn:
        if not _swap(conn, node, verb, host, now):
            node = conn.execute(
                sa.select(_n).where(_n.c.uuid == node['uuid'])
                .with_for_update()).mappings().one_or_none() or _gone(node)
            refuse(node, verb)
            # It came into the right state just now; it is locked now.
            _swap(conn, node, verb, host, now)
        if snapshot is not None:
            node_snapshots.insert(conn, node['uuid'], host, snapshot, now)
        after = nodes.select(conn, node['uuid'])
        if snapshot is None and node['provision_state'] in states.WAITING:
            # As it is now: it may wait for another one than was read.
            node_snapshots.decide(conn, after['snapshot_id'],
                                  _OUTCOMES[states.VERBS[verb]], now)
        return after


_OUTCOMES: Mapping[str, tuple[str, str]] = {
    'abort': (states.Outcome.ABORTED, 'It was aborted by a request.'),
    'delete': (states.Outcome.DELETED,
               'The node was deleted by a request meanwhile.'),
}


def _gone(node: nodes.Node) -> sa.RowMapping:
    raise exceptions.NodeNotFound(node=node['uuid'])


def refuse(node: nodes.Node, verb: str) -> None:
    """See whether a node takes a request; return when it does.

    :raises NodeLocked: a conductor is at work on it.
    :raises NodeInMaintenance: the request is refused in maintenance.
    :raises WrongNodeState: its state refuses the request.
    """
    # As Ironic has it: what the state refuses is told as locked while a
    # conductor is at work, since the state is about to change.
    if node['reservation'] is not None:
        raise exceptions.NodeLocked(node=node['uuid'],
                                    host=node['reservation'])
    if not states.can(node['provision_state'], verb):
        raise exceptions.WrongNodeState(
            action=verb, node=node['uuid'], state=node['provision_state'])
    if (node['maintenance']
            and states.VERBS[verb] in states.REFUSED_IN_MAINTENANCE):
        raise exceptions.NodeInMaintenance(action=verb, node=node['uuid'])


def _swap(conn: sa.engine.Connection, node: nodes.Node, verb: str,
          host: str | None, now: datetime.datetime) -> bool:
    old = node['provision_state']
    if not states.can(old, verb):
        return False
    event = states.VERBS[verb]
    state, target = states.after(old, event)
    reserve = states.needs_conductor(old, verb)
    if reserve and host is None:
        raise ValueError(f'{verb} needs a conductor')
    statement = _SWAP
    if event in states.REFUSED_IN_MAINTENANCE:
        statement = statement.where(_n.c.maintenance.is_(False))
    return bool(conn.execute(statement, {
        'one': node['uuid'], 'old_state': old, 'provision_state': state,
        'target_provision_state': target, 'provision_updated_at': now,
        'reservation': host if reserve else None, 'last_error': None,
        'updated_at': now}).rowcount)


@base.retry()
def revert(before: nodes.Node, after: nodes.Node, message: str) -> bool:
    """Take back a move whose work could not be handed over.

    :param before: the node's row before the move.
    :param after: its row after the move.
    :param message: the reason that a snapshot's row gets.
    :return: False when somebody has taken up the work after all.
    """
    now = base.utcnow()
    with base.writer() as conn:
        moved = conn.execute(
            sa.update(_n).where(
                _n.c.uuid == after['uuid'],
                _n.c.provision_state == after['provision_state'],
                _n.c.reservation == after['reservation'],
                # Whoever takes the work up writes to the row first.
                _n.c.updated_at == after['updated_at'])
            .values(provision_state=before['provision_state'],
                    target_provision_state=before[
                        'target_provision_state'],
                    provision_updated_at=now, updated_at=now,
                    reservation=None, last_error=message))
        if not moved.rowcount:
            return False
        if after['snapshot_id'] != before['snapshot_id']:
            node_snapshots.end(conn, after['snapshot_id'], now,
                               (states.Outcome.FAILED, message))
        elif before['provision_state'] in states.WAITING:
            node_snapshots.undecide(conn, after['snapshot_id'])
        return True


# --- the conductor's side --------------------------------------------------


@base.retry()
def reserve(uuid: str, host: str, state: str,
            instead_of: str | None = None) -> sa.RowMapping | None:
    """Reserve a node that is in some state for a conductor.

    :param instead_of: the dead conductor that has it reserved.
    :return: the node's row; None when it is not, or no longer, like that.
    """
    with base.writer() as conn:
        taken = conn.execute(
            sa.update(_n).where(
                _n.c.uuid == uuid, _n.c.provision_state == state,
                _n.c.reservation.is_(None) if instead_of is None
                else _n.c.reservation == instead_of)
            .values(reservation=host))
        return nodes.select(conn, uuid) if taken.rowcount else None


def move(node: nodes.Node, host: str, event: str, release: bool = False,
         also: Mapping[str, Any] | None = None,
         end: tuple[str, str | None] | None = None) -> nodes.Node:
    """Move a node that a conductor has reserved.

    :param node: as this conductor saw it last.
    :param release: let go of it with the same statement.
    :param also: further values by column.
    :param end: the snapshot is over: its outcome and reason. An outcome
        that was decided before stays.
    :return: the node's row after the move; when it was let go of, as it was
        seen before, with what was written.
    :raises LostNode: it is not, or no longer, like that.
    :raises NoTransition: the machine has no such way.
    """
    state, target = states.after(node['provision_state'], event)
    return _write(node, host, release, end, {
        'provision_state': state, 'target_provision_state': target,
        'provision_updated_at': base.utcnow(), **(also or {})})


def write(node: nodes.Node, host: str, values: Mapping[str, Any]
          ) -> nodes.Node:
    """Write to the row of a node that a conductor has reserved.

    :param values: by column.
    :return: the node's row afterwards.
    :raises LostNode: it is not, or no longer, like that.
    """
    return _write(node, host, False, None, values)


def release(node: nodes.Node, host: str,
            values: Mapping[str, Any] | None = None,
            end: tuple[str, str | None] | None = None) -> nodes.Node:
    """Let go of a node that a conductor has reserved.

    :param values: further values by column.
    :param end: as for :func:`move`.
    :return: as it was seen before, with what was written.
    :raises LostNode: it is not, or no longer, like that.
    """
    return _write(node, host, True, end, values or {})


@base.retry()
def _write(node: nodes.Node, host: str, release: bool,
           end: tuple[str, str | None] | None, values: Mapping[str, Any]
           ) -> nodes.Node:
    now = base.utcnow()
    values = dict(values, updated_at=now)
    if release:
        values['reservation'] = None
    if values.get('last_error') is not None:
        values['last_error'] = base.clip(_n.c.last_error,
                                         values['last_error'])
    with base.writer() as conn:
        done = conn.execute(
            sa.update(_n).where(
                _n.c.uuid == node['uuid'], _n.c.reservation == host,
                _n.c.provision_state == node['provision_state'],
                _same(_n.c.snapshot_id, node['snapshot_id']))
            .values(**values))
        if not done.rowcount:
            raise LostNode(node=node['uuid'], host=host,
                           state=node['provision_state'])
        if end is not None:
            node_snapshots.end(conn, node['snapshot_id'], now, end)
        # Who has let go of it has no more use for the rest of the row.
        return ({**node, **values} if release
                else nodes.select(conn, node['uuid']))


def holds(node: nodes.Node, host: str) -> bool:
    """Tell whether a conductor still has a node as it saw it last."""
    with base.reader() as conn:
        return conn.execute(
            sa.select(_n.c.id).where(
                _n.c.uuid == node['uuid'], _n.c.reservation == host,
                _n.c.provision_state == node['provision_state'],
                _same(_n.c.snapshot_id, node['snapshot_id']))
        ).one_or_none() is not None


def _same(column: Any, value: Any) -> Any:
    return column.is_(None) if value is None else column == value


# --- power -----------------------------------------------------------------


@base.retry()
def begin_power(node: nodes.Node, target: str, host: str) -> sa.RowMapping:
    """Reserve a node for a change of its power.

    :param target: of :data:`stillframe.states.power.TARGETS`.
    :return: the node's row afterwards.
    :raises NodeNotFound: it is gone.
    :raises NodeLocked: a conductor is at work on it.
    :raises WrongNodeState: its power is the conductor's own business now.
    """
    with base.writer() as conn:
        done = conn.execute(
            sa.update(_n).where(
                _n.c.uuid == node['uuid'], _n.c.reservation.is_(None),
                _n.c.provision_state.not_in(sorted(states.POWER_IS_OURS)))
            .values(reservation=host, last_error=None,
                    target_power_state=power.RESULT[target],
                    updated_at=base.utcnow()))
        row = nodes.select(conn, node['uuid'])
        if done.rowcount:
            return row
    if row['reservation'] is not None:
        raise exceptions.NodeLocked(node=row['uuid'],
                                    host=row['reservation'])
    raise exceptions.WrongNodeState(action=target, node=row['uuid'],
                                    state=row['provision_state'])


@base.retry()
def revert_power(node: nodes.Node, message: str) -> bool:
    """Let go of a node whose change of power could not be handed over.

    :param node: its row after :func:`begin_power`.
    :return: False when somebody has taken up the work after all.
    """
    with base.writer() as conn:
        return bool(conn.execute(
            sa.update(_n).where(
                _n.c.uuid == node['uuid'],
                _n.c.reservation == node['reservation'],
                _n.c.updated_at == node['updated_at'])
            .values(reservation=None, target_power_state=None,
                    last_error=message)).rowcount)


# --- looking for what got stuck --------------------------------------------


# What is needed to decide whether to take up a node; a look at thousands
# of whole rows would take long.
_SHORT = sa.select(
    _n.c.uuid, _n.c.driver, _n.c.conductor_group, _n.c.provision_state,
    _n.c.reservation, _n.c.maintenance, _n.c.snapshot_id, _n.c.agent_url,
    _n.c.agent_last_heartbeat)


def reserved() -> Sequence[sa.RowMapping]:
    """List the nodes that some conductor has reserved.

    :return: rows of a few columns.
    """
    with base.reader() as conn:
        return conn.execute(
            _SHORT.where(_n.c.reservation.is_not(None)).order_by(_n.c.id)
        ).mappings().all()


def in_states(wanted: Sequence[str]) -> Sequence[sa.RowMapping]:
    """List the nodes in some states that nobody has reserved.

    :return: rows of a few columns.
    """
    with base.reader() as conn:
        return conn.execute(
            _SHORT.where(_n.c.provision_state.in_(wanted),
                         _n.c.reservation.is_(None)).order_by(_n.c.id)
        ).mappings().all()
