# SPDX-License-Identifier: Apache-2.0
"""One conductor and 200 workers: how soon it knows all, what it costs."""

import time

import sqlalchemy as sa

from stillframe.db import models
from tools.bench import figures
from tools.bench import fleet
from tools.bench import population
from tools.bench import stack


def measure(transport_url: str, database: str, seconds: float
            ) -> list[figures.Figure]:
    """Start all of them against an empty database, and make the figures.

    :param seconds: for which the steady state is watched.
    """
    settings = {'DEFAULT': {'transport_url': transport_url}}
    with (figures.naming('workers_200'),
          stack.Stack(['conductor'], settings, database) as running,
          running.talk('tools.bench.fleet') as simulated):
        settled = float(simulated.hear())
        _verify(database)
        settled_cpu = running.cpu('conductor')
        began = time.monotonic()
        # What is measured here is the passing of time itself.
        time.sleep(seconds)
        took = time.monotonic() - began
        used = running.cpu('conductor') - settled_cpu
        memory = running.rss('conductor')
        simulated.say()
    what = (f'{fleet.WORKERS} simulated workers in one process report '
            f'{population.SERVERS} servers to one conductor over RabbitMQ '
            'and MariaDB')
    return [
        figures.Figure(
            'workers_200_settle', settled, 's',
            fleet.WORKERS, None,
            f'{what}, all started at once on an empty database, on the '
            'same two cores; until the conductor had taken the servers of '
            f'each (it had used {settled_cpu:.1f} s of CPU by then)'),
        figures.Figure(
            'workers_200_steady_cpu', used / took * 100, '% of a core', 1,
            None, f'{what}, nothing changes, reports each 5 s; CPU of the '
            f'conductor over {took:.0f} s'),
        figures.Figure(
            'rss_conductor', memory, 'MB', 1, None,
            'resident after that'),
    ]


def _verify(database: str) -> None:
    """See that the database has all servers and no other.

    :raises ValueError: it has not.
    """
    engine = sa.create_engine(database)
    servers = models.servers
    try:
        with engine.connect() as conn:
            found = conn.execute(
                sa.select(sa.func.count()).select_from(servers)
                .where(servers.c.deleted.is_(False))).scalar_one()
    finally:
        engine.dispose()
    if found != population.SERVERS:
        raise ValueError(f'{found} servers in the database instead of '
                         f'{population.SERVERS}')
