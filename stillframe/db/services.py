# SPDX-License-Identifier: Apache-2.0
"""The processes that report that they are alive."""

from collections.abc import Sequence
from typing import Any
import uuid

from oslo_db import exception as db_exc
import sqlalchemy as sa

from stillframe.db import base
from stillframe.db import models

_s = models.services

#: The values of the column "binary".
COMPUTE = 'stillframe-compute'
CONDUCTOR = 'stillframe-conductor'

# Built once: each worker reports every few seconds.
_ONE = sa.select(_s).where(_s.c.host == sa.bindparam('of_host'),
                           _s.c.binary == sa.bindparam('of_binary'))
# An older report of the same life, delivered late, is dropped.
_UPDATE = sa.update(_s).where(
    _s.c.id == sa.bindparam('one'),
    sa.or_(_s.c.started_at != sa.bindparam('life'),
           _s.c.report_count < sa.bindparam('number')))


@base.retry(db_exc.DBDuplicateEntry)
def report(host: str, binary: str, started_at: str, report_count: int,
           capabilities: dict[str, Any]) -> str:
    """Record a report; a repeated or late one only changes nothing.

    :return: the digest of the host's servers as applied last, which the
        report itself does not change; '' for a new service.
    """
    now = base.utcnow()
    with base.writer() as conn:
        row = conn.execute(_ONE, {'of_host': host, 'of_binary': binary}
                           ).mappings().one_or_none()
        if row is None:
            conn.execute(sa.insert(_s).values(
                uuid=str(uuid.uuid4()), host=host, binary=binary,
                started_at=started_at, report_count=report_count,
                last_seen=now, capabilities=capabilities,
                servers_digest='', contested=False, created_at=now))
            return ''
        values: dict[str, Any] = {
            'started_at': started_at, 'report_count': report_count,
            'last_seen': now}
        if row['capabilities'] != capabilities:
            values['capabilities'] = capabilities
        conn.execute(_UPDATE, {'one': row['id'], 'life': started_at,
                               'number': report_count, **values})
        return row['servers_digest']


def set_inventory(conn: sa.engine.Connection, host: str,
                  servers_digest: str, contested: bool, full: bool) -> None:
    """Record which picture of a host's servers was applied last.

    :param contested: it has domains that count as another host's.
    :param full: all domains were told, so that "no" means none.
    """
    values: dict[str, Any] = {'servers_digest': servers_digest}
    if contested or full:
        values['contested'] = contested
    conn.execute(
        sa.update(_s).where(_s.c.host == host, _s.c.binary == COMPUTE)
        .values(**values))


def contest(conn: sa.engine.Connection, host: str) -> None:
    """Record that a host may have domains that count as another's."""
    conn.execute(
        sa.update(_s).where(_s.c.host == host, _s.c.binary == COMPUTE)
        .values(contested=True))


def ask_contested(conn: sa.engine.Connection, host: str) -> None:
    """Have other hosts tell all they have, since one lost a server.

    One of those that have such domains may now have the server.

    :param host: the host that lost it.
    """
    conn.execute(
        sa.update(_s).where(_s.c.host != host, _s.c.contested.is_(True))
        .values(servers_digest=''))


def get(host: str, binary: str) -> sa.RowMapping | None:
    """Give one service, None when it never reported."""
    with base.reader() as conn:
        return conn.execute(
            sa.select(_s).where(_s.c.host == host, _s.c.binary == binary)
        ).mappings().one_or_none()


def list_all(host: str | None = None, binary: str | None = None
             ) -> Sequence[sa.RowMapping]:
    """List services in the order of binary and host."""
    query = sa.select(_s).order_by(_s.c.binary, _s.c.host)
    if host is not None:
        query = query.where(_s.c.host == host)
    if binary is not None:
        query = query.where(_s.c.binary == binary)
    with base.reader() as conn:
        return conn.execute(query).mappings().all()
