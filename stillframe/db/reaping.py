# SPDX-License-Identifier: Apache-2.0
"""What got stuck, and giving it up.

Who calls this decides when, by a clock of its own that no step of the wall
clock moves; here is only what is changed, by compare-and-swap, so that a
report that comes at the same moment wins or loses as a whole.
"""

from collections.abc import Sequence

import sqlalchemy as sa

from stillframe.db import actions
from stillframe.db import base
from stillframe.db import faults
from stillframe.db import freezes
from stillframe.db import models
from stillframe.db import transitions
from stillframe.states import servers as states

_s = models.servers
_z = models.freezes


def in_transition() -> Sequence[sa.RowMapping]:
    """List the servers that a request holds.

    :return: rows of uuid, host, task_request_id, task_action,
        task_started_at.
    """
    with base.reader() as conn:
        return conn.execute(
            sa.select(_s.c.uuid, _s.c.host, _s.c.task_request_id,
                      _s.c.task_action, _s.c.task_started_at)
            .where(_s.c.task_state.in_(sorted(states.TASK_STATES)))
        ).mappings().all()


@base.retry()
def give_up(server_uuid: str, request_id: str, host: str,
            message: str) -> bool:
    """Take a server from a request that never ended to error.

    :return: False when the request no longer holds it.
    """
    now = base.utcnow()
    with base.writer() as conn:
        # A late report of a freeze is stale, and is thawed.
        if not transitions.let_go(conn, server_uuid, request_id, now,
                                  message, freezes.UNREPORTED,
                                  vm_state=states.ERROR):
            return False
        faults.save(conn, server_uuid, request_id, message, None, host, now)
        return True


def standing_freezes() -> Sequence[sa.RowMapping]:
    """List the servers shown as quiesced, by which freeze.

    :return: rows of uuid, host, freeze_id, timeout (seconds; None where
        the freeze has no row).
    """
    with base.reader() as conn:
        return conn.execute(
            sa.select(_s.c.uuid, _s.c.host, _s.c.freeze_id, _z.c.timeout)
            .outerjoin_from(_s, _z, sa.and_(
                _z.c.server_uuid == _s.c.uuid,
                _z.c.freeze_id == _s.c.freeze_id))
            .where(_s.c.vm_state == states.QUIESCED,
                   _s.c.deleted.is_(False))
        ).mappings().all()


@base.retry()
def end_unreported(server_uuid: str, freeze_id: str, request_id: str,
                   message: str) -> bool:
    """Stop showing a server as quiesced whose deadline is long over.

    :param request_id: of the system's action that records it.
    :return: False when it is no longer quiesced by that freeze, or when a
        request holds it (whose outcome will tell).
    """
    now = base.utcnow()
    with base.writer() as conn:
        row = conn.execute(
            sa.select(_s).where(
                _s.c.uuid == server_uuid, _s.c.freeze_id == freeze_id,
                _s.c.vm_state == states.QUIESCED,
                _s.c.task_state.is_(None)).with_for_update()
        ).mappings().one_or_none()
        if row is None:
            return False
        conn.execute(
            sa.update(_s).where(_s.c.uuid == server_uuid)
            .values(updated_at=now,
                    vm_state=states.vm_state_of_power(row['power_state'])))
        freezes.give_up(conn, server_uuid, freeze_id, now,
                        freezes.UNREPORTED)
        actions.start(conn, server_uuid, 'unquiesce', request_id, None,
                      row['project_id'], now,
                      event=actions.event_name('unquiesce'),
                      host=row['host'])
        actions.finish(conn, server_uuid, request_id, now, message,
                       actions.ERROR)
        return True
