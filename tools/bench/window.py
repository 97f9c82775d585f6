# SPDX-License-Identifier: Apache-2.0
"""How long three servers are frozen when they are frozen in order.

Over REST, as disaster-recovery software does it: quiesce, poll, next one;
then unquiesce in reverse. And by a script that does nothing but call
libvirt. Both in turn, on the same guests, so that whatever else the
machine does hits both.
"""

import re
import statistics
import subprocess
import sys
import time

import sqlalchemy as sa

from stillframe.db import models
from tools.bench import figures
from tools.bench import guests
from tools.bench import rest
from tools.bench import stack

AIM = figures.Aim('at most', 1.3)
_FROZEN = re.compile(r'frozen for ([0-9.]+) s')


def measure(running: stack.Stack, three: guests.Three,
            rounds: int) -> figures.Figure:
    """Freeze the three both ways in turn, and make the figure."""
    name = 'three_servers_window_ratio'
    direct, seen, thaws = [], [], []
    with figures.naming(name), rest.Client(running.port) as client:
        client.wait_ready(three.ids)
        with subprocess.Popen(
                [sys.executable, '-m', 'tools.bench.direct', three.uri,
                 *three.ids], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                text=True) as process:
            script = stack.Talk('tools.bench.direct', process)
            for _round in range(rounds):
                script.say()
                direct.append(float(script.hear()))
                took, thaw = _over_rest(client, three.ids)
                seen.append(took)
                thaws.append(thaw)
    windows = windows_of(running.database, thaws)
    # Each round's own ratio, so that a busy moment does not count twice.
    ratios = [ours / theirs
              for ours, theirs in zip(windows, direct, strict=True)]
    return figures.of_samples(
        name, ratios, '', f'window of the first server, frozen first and '
        f'thawed last: median {statistics.median(windows):.3f} s over REST '
        f'(the client, with the request before and the poll after: '
        f'{statistics.median(seen):.3f} s) against '
        f'{statistics.median(direct):.3f} s by a script that calls libvirt '
        'directly, in turn with it on the same guests', AIM)


def _over_rest(client: rest.Client, ids: list[str]) -> tuple[float, str]:
    """Freeze in order and thaw in reverse.

    :return: seconds that it took as the client sees it, request id of the
        last thaw.
    """
    request_id = ''
    began = time.perf_counter()
    for server_id in ids:
        client.act(server_id, 'quiesce')
        client.wait(server_id, 'QUIESCED')
    for server_id in reversed(ids):
        request_id = client.act(server_id, 'unquiesce')
        client.wait(server_id, 'ACTIVE')
    return time.perf_counter() - began, request_id


def windows_of(database: str, thaws: list[str]) -> list[float]:
    """Read for how long servers were frozen.

    :param thaws: request ids of the requests that thawed them.
    :return: seconds from the freeze call to the thaw's acknowledgement.
    :raises ValueError: a thaw does not say it.
    """
    actions, events = models.actions, models.action_events
    engine = sa.create_engine(database)
    try:
        with engine.connect() as conn:
            details = {row.request_id: row.details for row in conn.execute(
                sa.select(actions.c.request_id, events.c.details)
                .join(events, events.c.action_id == actions.c.id)
                .where(actions.c.request_id.in_(thaws)))}
    finally:
        engine.dispose()
    found = [_FROZEN.search(details.get(one) or '') for one in thaws]
    if None in found:
        raise ValueError(f'not every thaw says how long it was: {details}')
    return [float(one[1]) for one in found if one is not None]
