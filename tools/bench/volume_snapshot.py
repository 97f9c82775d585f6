# SPDX-License-Identifier: Apache-2.0
"""Snapshots of a volume: Cinder asks, Stillframe makes them and tells Cinder.

A real Cinder with its NFS driver, and a guest that writes to the volume all
the time.
"""

import statistics
import time

import sqlalchemy as sa

from stillframe.db import models
from tests.integration.volume_snapshots import daemon
from tests.integration.volume_snapshots import scene as scenes
from tests.lab import cinder_config
from tests.lab.cinder import Cinder
from tests.lab.libvirtd import Libvirtd
from tests.lab.volumes import Volumes
from tools.bench import figures


def measure(transport_url: str, rounds: int) -> list[figures.Figure]:
    """Make snapshots one after another, and the figures.

    :param transport_url: of a broker that Cinder has for itself.
    """
    took = []
    with (Cinder(transport_url) as cinder, Volumes(cinder) as volumes,
          Libvirtd('v') as host,
          daemon.Stillframe(
              host, DEFAULT={'debug': 'false'},
              cinder=daemon.open_cinder(
                  cinder.endpoint, cinder_config.PROJECT)) as stillframe,
          scenes.Scene(host, volumes, stillframe) as scene):
        for _round in range(rounds):
            began = time.monotonic()
            volumes.snapshot(scene.volume)
            took.append(time.monotonic() - began)
        windows, waits = _read(
            f'sqlite:///{stillframe.path}/state/stillframe.sqlite', rounds)
    return [
        figures.of_samples(
            'volume_snapshot_window', windows, 's',
            'an active server on a volume of a real Cinder (NFS): freeze '
            'call sent to thaw acknowledged'),
        figures.of_samples(
            'volume_snapshot_wait', waits, 's',
            "from Cinder's request to Cinder's answer to our update, which "
            'its next poll sees; Cinder polls once a second. A user of '
            f'Cinder waited {statistics.median(took):.2f} s (median) in '
            'all'),
    ]


def _read(database: str, rounds: int) -> tuple[list[float], list[float]]:
    """Read what was written down of the snapshots.

    :return: seconds frozen, seconds until Cinder knew; one a snapshot.
    :raises ValueError: not all of them froze and were told to Cinder.
    """
    made = models.volume_snapshots
    engine = sa.create_engine(database)
    try:
        with engine.connect() as conn:
            rows = conn.execute(sa.select(
                made.c.created_at, made.c.delivered_at,
                made.c.freeze)).all()
    finally:
        engine.dispose()
    windows = [row.freeze['window'] for row in rows
               if row.freeze and row.freeze.get('window') is not None]
    waits = [(row.delivered_at - row.created_at).total_seconds()
             for row in rows if row.delivered_at is not None]
    if not len(windows) == len(waits) == rounds:
        raise ValueError(f'{rounds} snapshots, but {len(windows)} froze and '
                         f'{len(waits)} were told to Cinder')
    return windows, waits
