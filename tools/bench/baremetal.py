# SPDX-License-Identifier: Apache-2.0
"""The bare-metal dialect: lists, moves of nodes, heartbeats.

One API process with eight threads and one conductor, apart, over RabbitMQ
and MariaDB; 10,000 nodes of fake hardware, that is without a BMC that would
be waited for. All of it, the clients too, shares the machine.
"""

from collections.abc import Callable
from collections.abc import Sequence
import contextlib
import json
import pathlib
import time
from typing import Any

import sqlalchemy as sa

from stillframe.db import models
from stillframe.states import nodes as states
from tests.lab import processes
from tools.bench import figures
from tools.bench import load
from tools.bench import node_seed
from tools.bench import stack

_n = models.nodes

_HEADERS = {'Accept': 'application/json', 'X-Auth-Token': 'admin',
            'Content-Type': 'application/json',
            'X-OpenStack-Ironic-API-Version': '1.116'}
#: What is given for Ironic 39 on such a machine, without Keystone, and how
#: many times that is wished for.
IRONIC = {'nodes_list_1000_per_second': (4.5, '4.5', 10),
          'nodes_detail_100_of_10000_per_second': (15.6, '15.6', 10),
          'provision_per_second': (21.0, '18-24', 5),
          'heartbeats_per_second': (34.0, '27-41', 5)}
_CLIENTS = 8
# Seconds for a conductor to come up, or to finish what it was handed.
_PATIENCE = 120.0
_POLL = 0.02


def measure(transport_url: str, database: str, seconds: float
            ) -> list[figures.Figure]:
    """Make the figures.

    :param database: URL of an empty one.
    :param seconds: for which each kind of request is sent.
    """
    with figures.naming('bare metal'), processes.state_dir('img') as images:
        settings: stack.Settings = {
            'DEFAULT': {'transport_url': transport_url},
            'api': {'threads': 8},
            'drivers': {'enabled_hardware_types': 'fake-hardware'},
            'images': {'url_prefixes': f'file://{images}'}}
        with stack.Stack(['conductor', 'api'], settings,
                         database) as running:
            bench = _Bench(running, images, seconds)
            try:
                return [*bench.lists(), bench.provision(),
                        bench.heartbeats(), *bench.memory()]
            finally:
                bench.close()


class _Bench:
    """The measurements on running processes, one after another."""

    def __init__(self, running: stack.Stack, images: pathlib.Path,
                 seconds: float):
        self._running = running
        self._images = images
        self._seconds = seconds
        self._engine = sa.create_engine(running.database)
        running.run('tools.bench.node_seed')
        self._fresh = {name: running.rss(name)
                       for name in ('api', 'conductor')}
        _wait('the conductor to report', lambda: self._get(
            '/v1/conductors')['conductors'])

    def close(self) -> None:
        """Close the connections to the database."""
        self._engine.dispose()

    # --- reading -----------------------------------------------------------

    def lists(self) -> list[figures.Figure]:
        """Read lists, the same each time and another each time."""
        brief, detail = '/v1/nodes?limit=1000', '/v1/nodes/detail?limit=100'
        return [
            self._list('nodes_list_1000_per_second', [brief],
                       f'GET {brief} of 10,000 nodes'),
            self._list('nodes_detail_100_of_10000_per_second', [detail],
                       f'GET {detail}, nothing changes meanwhile'),
            self._list('nodes_detail_all_pages_per_second',
                       self._pages(detail),
                       f'GET {detail}, one page after another of all '
                       '10,000 nodes')]

    def _pages(self, path: str) -> list[str]:
        ids = [one['uuid'] for page in self._all('/v1/nodes?limit=1000')
               for one in page]
        if len(ids) != node_seed.NODES:
            raise ValueError(f'{len(ids)} nodes are listed')
        return [path, *(f'{path}&marker={one}' for one in ids[99:-1:100])]

    def _all(self, path: str | None) -> Any:
        while path is not None:
            document = self._get(path)
            yield document['nodes']
            following = document.get('next')
            path = following and following[following.index('/v1/'):]

    def _list(self, name: str, paths: list[str], what: str
              ) -> figures.Figure:
        before = self._cpu()
        answers = load.run(self._job('GET', paths, seconds=self._seconds))
        return self._figure(name, answers.rate, answers, f'{what}; '
                            f'{_CLIENTS} clients', before)

    # --- moving ------------------------------------------------------------

    def provision(self) -> figures.Figure:
        """Have nodes moved, and wait until the conductor has done it."""
        before = self._cpu()
        ids = [node_seed.node_id(number) for number
               in range(node_seed.NODES - node_seed.AGENTS)]
        manage, late = self._moves('manage', ids, states.VERIFYING)
        # In the order of the list, so the first ones were managed.
        provide, later = self._moves('provide', ids[:manage.asked],
                                     states.CLEANING)
        answers = load.Answers(
            manage.seconds + late + provide.seconds + later,
            manage.times + provide.times, manage.asked + provide.asked)
        return self._figure(
            'provision_per_second', answers.rate, answers,
            'PUT /v1/nodes/{id}/states/provision, "manage" then "provide" '
            'of the same nodes of fake hardware; accepted by the API and '
            'finished by the conductor, whose last one was done '
            f'{late * 1000:.0f} and {later * 1000:.0f} ms after the last '
            f'answer; {_CLIENTS} clients', before)

    def _moves(self, verb: str, ids: Sequence[str], working: str
               ) -> tuple[load.Answers, float]:
        """Move nodes, each once; tell how much longer it took to be done."""
        answers = load.run(self._job(
            'PUT', [f'/v1/nodes/{one}/states/provision' for one in ids],
            body=json.dumps({'target': verb}), expected=202,
            seconds=self._seconds / 2, again=False))
        began = time.monotonic()
        _wait(f'"{verb}" of all nodes', lambda: not self._count(
            sa.or_(_n.c.provision_state == working,
                   _n.c.reservation.is_not(None))))
        took = time.monotonic() - began
        end, _target = states.after(working, 'done')
        if (done := self._count(_n.c.provision_state == end)
                ) != answers.asked:
            raise ValueError(f'{answers.asked} nodes were asked to '
                             f'{verb}, {done} are {end}')
        return answers, took

    # --- heartbeats --------------------------------------------------------

    def heartbeats(self) -> figures.Figure:
        """Let agents report, all at once, whose nodes are snapshotted."""
        ids = [node_seed.node_id(node_seed.NODES - 1 - number)
               for number in range(node_seed.AGENTS)]
        self._snapshot(ids)
        bodies = [json.dumps({
            'callback_url': f'https://192.0.2.1:{10000 + number}',
            'agent_token': self._get(f'/v1/lookup?node_uuid={one}')[
                'config']['agent_token'],
            'agent_version': '11.0.0'}) for number, one in enumerate(ids)]
        before = self._cpu()
        answers = load.run(self._job(
            'POST', [f'/v1/heartbeat/{one}' for one in ids], bodies=bodies,
            expected=202, clients=len(ids), lenient=True, fresh=True,
            seconds=self._seconds))
        began = time.monotonic()
        # Behind all of them in the conductor's queue.
        self._get(f'/v1/nodes/{ids[0]}/validate')
        late = time.monotonic() - began
        if self._count(_n.c.provision_state == states.SNAPSHOT_WAIT,
                       _n.c.agent_last_heartbeat.is_not(None)) != len(ids):
            raise ValueError('not all nodes wait, with an agent heard')
        refusal = (f' (the first: {answers.refusal})' if answers.refused
                   else '')
        return self._figure(
            'heartbeats_per_second', len(answers.times)
            / (answers.seconds + late), answers,
            f'POST /v1/heartbeat/{{id}} by {len(ids)} agents, each with '
            'its token, on a new connection for each, and again as soon as '
            'it is answered; their nodes are in "snapshot wait" (fake '
            'snapshot interface, data under way), so the conductor hears '
            f'of each; {answers.asked} answered, {answers.refused} refused'
            f'{refusal}; '
            'the conductor answered an enquiry sent after the last one in '
            f'{late * 1000:.0f} ms', before)

    def _snapshot(self, ids: Sequence[str]) -> None:
        """Begin a snapshot of each node; return when all wait."""
        load.run(self._job(
            'PUT', [f'/v1/nodes/{one}/states/provision' for one in ids],
            bodies=[json.dumps({
                'target': 'snapshot', 'image_ref':
                f'file://{self._images}/{one}.qcow2'}) for one in ids],
            expected=202, warm_up=0, seconds=_PATIENCE, again=False))
        _wait('all snapshots to be under way', lambda: self._count(
            _n.c.provision_state == states.SNAPSHOT_WAIT,
            _n.c.reservation.is_(None)) == len(ids))

    # --- the rest ----------------------------------------------------------

    def memory(self) -> list[figures.Figure]:
        """Tell how large the processes have become."""
        return [figures.Figure(
            f'rss_baremetal_{name}', self._running.rss(name), 'MB', 1, None,
            f'after all of that ({fresh:.0f} MB before it)')
            for name, fresh in self._fresh.items()]

    def _job(self, method: str, paths: list[str], **more: Any) -> load.Job:
        return load.Job(self._running.port, method, paths, _HEADERS,
                        **{'clients': _CLIENTS, **more})

    def _get(self, path: str) -> Any:
        with contextlib.closing(load.Connection(
                self._running.port)) as connection:
            answer = connection.ask(load.question('GET', path, _HEADERS))
        if answer.status != 200:
            raise ValueError(f'GET {path}: {answer.status} '
                             f'{answer.body.decode()}')
        return json.loads(answer.body)

    def _count(self, *conditions: sa.ColumnElement[bool]) -> int:
        with self._engine.connect() as conn:
            return conn.execute(
                sa.select(sa.func.count()).select_from(_n)
                .where(*conditions)).scalar_one()

    def _cpu(self) -> tuple[float, float]:
        return self._running.cpu('api'), self._running.cpu('conductor')

    def _figure(self, name: str, rate: float, answers: load.Answers,
                what: str, before: tuple[float, float]) -> figures.Figure:
        used = [(now - then) / answers.asked * 1000 for now, then
                in zip(self._cpu(), before, strict=True)]
        aim, given = None, ''
        if name in IRONIC:
            value, written, times = IRONIC[name]
            aim = figures.Aim('at least', times * value)
            given = f'; given for Ironic 39, noauth: {written}'
        return figures.Figure(
            name, rate, '1/s', len(answers.times), None,
            f'{what}; an answer took '
            f'{figures.percentile(answers.times, 50) * 1000:.1f} ms '
            f'(median), {figures.percentile(answers.times, 99) * 1000:.1f} '
            f'ms (p99), and {used[0]:.1f} ms of CPU in the API and '
            f'{used[1]:.1f} in the conductor{given}', aim)


def _wait(what: str, done: Callable[[], Any]) -> None:
    """Wait until something is so.

    :raises TimeoutError: it took too long.
    """
    deadline = time.monotonic() + _PATIENCE
    while not done():
        if time.monotonic() > deadline:
            raise TimeoutError(f'waited in vain for {what}')
        time.sleep(_POLL)
