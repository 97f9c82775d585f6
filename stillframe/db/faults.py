# SPDX-License-Identifier: Apache-2.0
"""Faults: why a server is in error."""

import datetime

import sqlalchemy as sa

from stillframe.db import base
from stillframe.db import models

_f = models.faults


def save(conn: sa.engine.Connection, server_uuid: str, request_id: str,
         message: str, details: str | None, host: str,
         now: datetime.datetime, code: int = 500) -> None:
    """Record a fault; the caller makes sure that it does so once."""
    # The whole message is in the action.
    conn.execute(sa.insert(_f).values(
        server_uuid=server_uuid, request_id=request_id, code=code,
        message=base.clip(_f.c.message, message),
        details=base.clip(_f.c.details, details), host=host,
        created_at=now))


def latest(conn: sa.engine.Connection, server_uuids: list[str]
           ) -> dict[str, sa.RowMapping]:
    """Give the newest fault of each of some servers, in one query."""
    if not server_uuids:
        return {}
    newest = (sa.select(sa.func.max(_f.c.id))
              .where(_f.c.server_uuid.in_(server_uuids))
              .group_by(_f.c.server_uuid))
    rows = conn.execute(sa.select(_f).where(_f.c.id.in_(newest)))
    return {row['server_uuid']: row for row in rows.mappings()}
