# SPDX-License-Identifier: Apache-2.0
"""What Stillframe adds to a freeze: from the REST request to the guest.

The client writes down the wall clock when it sends the request; the worker
writes down when the agent had acknowledged the freeze, and how long that
call took. What is left in between is ours: HTTP, policy, database, message,
the worker's own questions, its journal and its guard.
"""

from collections.abc import Sequence
import datetime
import re
import statistics
import time

import sqlalchemy as sa

from stillframe.db import models
from tools.bench import figures
from tools.bench import guests
from tools.bench import rest
from tools.bench import stack

AIM = figures.Aim('under', 25)
_CALL = re.compile(r'freeze call ([0-9.]+) s')


def measure(name: str, running: stack.Stack, three: guests.Three,
            rounds: int, how: str) -> figures.Figure:
    """Freeze and thaw in turn, and make the figure.

    :param how: what the processes are, for the figure's text.
    """
    sent: dict[str, float] = {}
    with figures.naming(name), rest.Client(running.port) as client:
        client.wait_ready(three.ids)
        for number in range(rounds):
            server_id = three.ids[number % len(three.ids)]
            now = time.time()
            sent[client.act(server_id, 'quiesce')] = now
            client.wait(server_id, 'QUIESCED')
            client.act(server_id, 'unquiesce')
            client.wait(server_id, 'ACTIVE')
        overheads, calls = split(sent, read(running.database, sent))
    return figures.of_samples(
        name, [one * 1000 for one in overheads], 'ms',
        f'{how}; to be seen beside the agent call itself, which is left '
        f'out: median {statistics.median(calls) * 1000:.1f} ms, p99 '
        f'{figures.percentile(calls, 99) * 1000:.1f} ms in the same '
        'requests', AIM)


def read(database: str, freeze_ids: Sequence[str] | dict[str, float]
         ) -> dict[str, tuple[datetime.datetime, str]]:
    """Read what the worker reported of some freezes.

    :return: freeze id → when it was acknowledged, details of its event.
    """
    freezes, actions = models.freezes, models.actions
    events = models.action_events
    engine = sa.create_engine(database)
    try:
        with engine.connect() as conn:
            rows = conn.execute(
                sa.select(freezes.c.freeze_id, freezes.c.frozen_at,
                          events.c.details)
                .join(actions, sa.and_(
                    actions.c.server_uuid == freezes.c.server_uuid,
                    actions.c.request_id == freezes.c.freeze_id))
                .join(events, events.c.action_id == actions.c.id)
                .where(freezes.c.freeze_id.in_(list(freeze_ids))))
            return {row.freeze_id: (row.frozen_at, row.details)
                    for row in rows}
    finally:
        engine.dispose()


def split(sent: dict[str, float],
          reported: dict[str, tuple[datetime.datetime, str]]
          ) -> tuple[list[float], list[float]]:
    """Part the time to the freeze into ours and the agent's.

    :param sent: freeze id → seconds since the epoch.
    :param reported: of the same freezes, as :func:`read` gives it.
    :return: seconds of ours, seconds of the agent's, one a freeze.
    :raises KeyError: a freeze was not reported.
    :raises ValueError: a report does not say how long the call took.
    """
    overheads, calls = [], []
    for freeze_id, began in sent.items():
        frozen_at, details = reported[freeze_id]
        found = _CALL.search(details or '')
        if found is None:
            raise ValueError(f'no freeze call in {details!r}')
        call = float(found[1])
        moment = frozen_at.replace(tzinfo=datetime.UTC).timestamp()
        overheads.append(moment - began - call)
        calls.append(call)
    return overheads, calls
