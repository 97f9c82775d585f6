# SPDX-License-Identifier: Apache-2.0
"""What is known of the ramdisk agent of a node.

Of an agent's token only a digest is kept. Each heartbeat carries the token,
and the API hands it on to the conductor that has to call the agent, which
keeps it in memory alone. A token is 43 random characters, so a plain digest
says nothing about it.
"""

from collections.abc import Mapping
import hashlib
import hmac
import secrets
import types
from typing import Any

import sqlalchemy as sa

from stillframe import exceptions
from stillframe.db import base
from stillframe.db import models
from stillframe.db import nodes
from stillframe.states import nodes as states

_n = models.nodes
_h = models.node_snapshots

#: What a node's row says of the agent when none is known: written before a
#: ramdisk is booted, and after its work.
UNKNOWN: Mapping[str, None] = types.MappingProxyType({
    'agent_url': None, 'agent_token_hash': None, 'agent_verify_ca': None,
    'agent_version': None, 'agent_last_heartbeat': None})

# All that a heartbeat is judged and passed on by, and no more: there are
# hundreds a second.
_SEEN = sa.select(
    _n.c.uuid, _n.c.provision_state, _n.c.reservation, _n.c.driver,
    _n.c.conductor_group, _n.c.agent_url, _n.c.agent_token_hash,
    _n.c.agent_verify_ca, _h.c.conductor, _h.c.finished_at,
).outerjoin_from(_n, _h, _h.c.uuid == _n.c.snapshot_id).where(
    _n.c.uuid == sa.bindparam('one'))

_HEARD = sa.update(_n).where(
    _n.c.uuid == sa.bindparam('one'),
    _n.c.agent_token_hash == sa.bindparam('digest'),
    sa.or_(_n.c.agent_url.is_(None), _n.c.agent_url == sa.bindparam('url')),
    # A certificate is pinned by the first heartbeat, which also sets the
    # URL.
    sa.or_(_n.c.agent_url.is_(None),
           sa.func.coalesce(_n.c.agent_verify_ca, '')
           == sa.bindparam('pinned')))


def make_token() -> str:
    """Make a token for an agent."""
    return secrets.token_urlsafe(32)


def digest(token: str) -> str:
    """Give what is kept of a token."""
    return hashlib.sha256(token.encode()).hexdigest()


def token_matches(node: nodes.Node, token: str) -> bool:
    """Tell whether a token is that of a node's agent."""
    kept = node['agent_token_hash']
    return kept is not None and hmac.compare_digest(kept, digest(token))


def seen(uuid: str) -> sa.RowMapping:
    """Give what a heartbeat of a node's agent is judged by.

    :return: columns of the node, and of its snapshot conductor and
        finished_at (None where there is none).
    :raises NodeNotFound: there is no such node.
    """
    with base.reader() as conn:
        row = conn.execute(_SEEN, {'one': uuid}).mappings().one_or_none()
    if row is None:
        raise exceptions.NodeNotFound(node=uuid)
    return row


@base.retry()
def give_token(uuid: str) -> str | None:
    """Make the token of a node's agent, at its first lookup.

    :return: None when it has one already: of two that ask, one gets it.
        Also when no ramdisk is waited for, or a conductor is at work on
        the node and about to forget the agent that was.
    """
    token = make_token()
    with base.writer() as conn:
        given = conn.execute(
            sa.update(_n).where(
                _n.c.uuid == uuid, _n.c.agent_token_hash.is_(None),
                _n.c.reservation.is_(None),
                _n.c.provision_state.in_(sorted(states.LOOKUP_ALLOWED)))
            .values(agent_token_hash=digest(token)))
        return token if given.rowcount else None


@base.retry()
def heard(uuid: str, token: str, url: str, version: str | None,
          verify_ca: str | None) -> bool:
    """Write down a heartbeat, if it is that of the node's agent.

    :param url: where the agent listens: the same in each heartbeat.
    :param verify_ca: the agent's certificate (PEM): the same in each.
    :return: False when token, url or certificate is another, or the node
        is gone; its row says which.
    """
    values: dict[str, Any] = {
        'agent_url': url, 'agent_version': version,
        'agent_verify_ca': verify_ca,
        'agent_last_heartbeat': base.utcnow()}
    with base.writer() as conn:
        return bool(conn.execute(_HEARD, {
            'one': uuid, 'digest': digest(token), 'url': url,
            'pinned': verify_ca or '', **values}).rowcount)
