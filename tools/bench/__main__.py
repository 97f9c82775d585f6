# SPDX-License-Identifier: Apache-2.0
"""``python -m tools.bench``: measure, print a table, write bench.json.

``--only NAME`` measures one group (:data:`GROUPS`); ``--quick`` takes few
samples, to see that the benchmark works: its figures count for nothing.
The exit status is 0 when everything could be measured, whatever the aims.
"""

import argparse
from collections.abc import Callable
import contextlib
import functools
import pathlib
import sys
import time
import traceback
from typing import Any

from tests.lab import mariadb
from tests.lab import rabbit
from tools.bench import api
from tools.bench import baremetal
from tools.bench import figures
from tools.bench import freeze
from tools.bench import guests
from tools.bench import image
from tools.bench import report
from tools.bench import stack
from tools.bench import stream
from tools.bench import volume_snapshot
from tools.bench import window
from tools.bench import workers

_TOP = pathlib.Path(__file__).parents[2]


class Bench:
    """What the groups share: guests and peers, started when first needed."""

    def __init__(self, quick: bool):
        self.quick = quick
        self._stack = contextlib.ExitStack()
        self._databases = 0

    def close(self) -> None:
        """End all that was started."""
        self._stack.close()

    @functools.cached_property
    def three(self) -> guests.Three:
        """The three guests."""
        return self._stack.enter_context(guests.three())

    @functools.cached_property
    def broker(self) -> str:
        """URL of RabbitMQ."""
        return self._stack.enter_context(rabbit.Rabbit()).url

    @functools.cached_property
    def _server(self) -> mariadb.MariaDB:
        return self._stack.enter_context(mariadb.MariaDB())

    def database(self) -> str:
        """URL of an empty database of MariaDB."""
        self._databases += 1
        return self._server.create(f'bench{self._databases}')

    def settings(self, **more: object) -> dict[str, dict[str, Any]]:
        """Give the configuration for a worker of the three guests.

        :param more: options of the group DEFAULT.
        """
        return {'DEFAULT': dict(more),
                'compute': {'connection_uri': self.three.uri}}

    def number(self, whole: int, quick: int) -> int:
        """Give the number of samples to take."""
        return quick if self.quick else whole


def embedded(bench: Bench) -> list[figures.Figure]:
    """Freeze with everything in one process."""
    with stack.Stack(['stillframe'], bench.settings()) as running:
        return [
            freeze.measure(
                'freeze_overhead', running, bench.three,
                bench.number(100, 9), 'everything in one process, SQLite'),
            window.measure(running, bench.three, bench.number(15, 3)),
            figures.Figure('rss_stillframe', running.rss('stillframe'),
                           'MB', 1, None, 'everything in one process, '
                           'resident after that')]


def distributed(bench: Bench) -> list[figures.Figure]:
    """Freeze over RabbitMQ and MariaDB."""
    settings = bench.settings(transport_url=bench.broker)
    with stack.Stack(['conductor', 'compute', 'api'], settings,
                     bench.database()) as running:
        return [
            freeze.measure(
                'freeze_overhead_rabbit', running, bench.three,
                bench.number(100, 9), 'API, conductor and worker apart, '
                'RabbitMQ, MariaDB'),
            figures.Figure('rss_compute', running.rss('compute'), 'MB', 1,
                           None, 'a compute worker, resident after that'),
            figures.Figure('rss_guard', running.guard_rss(), 'MB', 1, None,
                           'its guard, which waits')]


def throughput(bench: Bench) -> list[figures.Figure]:
    """Ask one API process as fast as it answers."""
    seconds = bench.number(8, 2)
    return [*api.measure(bench.broker, bench.database(), seconds),
            *api.measure(bench.broker, None, seconds)]


def fleet(bench: Bench) -> list[figures.Figure]:
    """Let 200 workers report to one conductor."""
    return workers.measure(bench.broker, bench.database(),
                           bench.number(62, 5))


def images(bench: Bench) -> list[figures.Figure]:
    """Make images of a server with 1 GiB of data."""
    return image.measure(bench.number(3, 1))


def volume_snapshots(bench: Bench) -> list[figures.Figure]:
    """Have Cinder snapshot a volume."""
    return volume_snapshot.measure(bench.broker, bench.number(6, 2))


def nodes(bench: Bench) -> list[figures.Figure]:
    """List, move and hear 10,000 bare-metal nodes."""
    return baremetal.measure(bench.broker, bench.database(),
                             bench.number(8, 2))


def streams(bench: Bench) -> list[figures.Figure]:
    """Send a disk of a bare-metal machine."""
    return stream.measure(bench.number(3, 1), bench.number(3, 1))


GROUPS: dict[str, Callable[[Bench], list[figures.Figure]]] = {
    'embedded': embedded, 'distributed': distributed,
    'throughput': throughput, 'workers': fleet, 'image': images,
    'volume_snapshot': volume_snapshots, 'baremetal': nodes,
    'stream': streams}
#: Those that freeze guests. The others are measured without any beside.
_WITH_GUESTS = ('embedded', 'distributed')


def main() -> int:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(prog='tools.bench')
    parser.add_argument('--only', choices=sorted(GROUPS), action='append',
                        help='measure this group only')
    parser.add_argument('--quick', action='store_true',
                        help='few samples: to see that it works')
    parser.add_argument('--output', type=pathlib.Path,
                        default=_TOP / 'bench.json')
    arguments = parser.parse_args()
    chosen = arguments.only or list(GROUPS)
    before, busy = report.load(), report.is_busy()
    began = time.monotonic()
    measured, failed = _measure(chosen, arguments.quick)
    print(report.machine())
    print(f'{before} before, {report.load()} after; took '
          f'{time.monotonic() - began:.0f} s')
    if busy:
        print('BUSY: other work ran beside this; no figure is better than '
              'it would be alone')
    if arguments.quick:
        print('QUICK: too few samples to count')
    print()
    print(report.table(measured))
    report.write(measured, arguments.output)
    if failed:
        print(f'NOT MEASURED: {", ".join(failed)}; the errors are above')
    return 1 if failed else 0


def _measure(chosen: list[str], quick: bool
             ) -> tuple[list[figures.Figure], list[str]]:
    """Measure some groups; one that fails does not keep the others.

    :return: the figures, and the names of the groups that failed.
    """
    measured: list[figures.Figure] = []
    failed = []
    for names in ([one for one in chosen if one in _WITH_GUESTS],
                  [one for one in chosen if one not in _WITH_GUESTS]):
        with contextlib.closing(Bench(quick)) as bench:
            for name in names:
                began = time.monotonic()
                try:
                    measured += GROUPS[name](bench)
                except Exception:  # noqa: BLE001
                    traceback.print_exc()
                    failed.append(name)
                print(f'bench: {name} took {time.monotonic() - began:.0f} s',
                      file=sys.stderr)
    return measured, failed


if __name__ == '__main__':
    sys.exit(main())
