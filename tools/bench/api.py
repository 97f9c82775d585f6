# SPDX-License-Identifier: Apache-2.0
"""How many requests a second one API process serves, and how large it is.

One process, eight threads, eight clients on connections that stay open, and
10,000 servers, on MariaDB and on SQLite; RabbitMQ carries the actions.
"""

from collections.abc import Callable

from tests.lab import processes
from tools.bench import figures
from tools.bench import load
from tools.bench import population
from tools.bench import rest
from tools.bench import seed
from tools.bench import sink
from tools.bench import stack

#: What is given for Nova 34 on such a machine, without Keystone.
NOVA = {'actions_per_second': (14.0, '13-15'),
        'list_100_of_10000_per_second': (2.0, '2'),
        'show_per_second': (32.0, '32')}
NOVA_RSS = 260.0
_WORDS = {'actions_per_second': 'quiesce requests accepted (202); each '
          'message reached a worker that does nothing about it',
          'list_100_of_10000_per_second':
          'GET /servers/detail?limit=100',
          'show_per_second': 'GET /servers/{id}, all of them in turn'}


def measure(transport_url: str, database: str | None, seconds: float
            ) -> list[figures.Figure]:
    """Make the figures on one database.

    :param database: URL; None: SQLite in a file.
    :param seconds: for which each kind of request is sent.
    """
    suffix = '' if database else '_sqlite'
    settings: stack.Settings = {
        'DEFAULT': {'transport_url': transport_url},
        # The workers exist on paper and do not report any more.
        'api': {'threads': 8, 'service_down_time': 3600}}
    with figures.naming(f'the API{suffix}'), processes.state_dir(
            'sqlite') as path:
        url = database or f'sqlite:///{path}/stillframe.sqlite'
        with stack.Stack(['api'], settings, url) as running:
            running.run('tools.bench.seed')
            fresh = running.rss('api')
            measured = [
                _measure('list_100_of_10000_per_second', suffix, running,
                         lambda: load.run(_job(
                             running, ['/v2.1/servers/detail?limit=100'],
                             seconds))),
                _measure('show_per_second', suffix, running,
                         lambda: load.run(_job(
                             running, _shows(), seconds))),
                _measure('actions_per_second', suffix, running,
                         lambda: _act(running, seconds))]
            memory = running.rss('api')
    aim = None if suffix else figures.Aim('at most', NOVA_RSS / 2)
    measured.append(figures.Figure(
        f'rss_api{suffix}', memory, 'MB', 1, None,
        f'after all of that ({fresh:.0f} MB before it); given for the API '
        f'worker of Nova: {NOVA_RSS:.0f} MB', aim))
    return measured


def _job(running: stack.Stack, paths: list[str], seconds: float
         ) -> load.Job:
    return load.Job(running.port, 'GET', paths, rest.HEADERS, seconds=seconds)


def _shows() -> list[str]:
    each = population.SERVERS // seed.HOSTS
    # One host after another would be one leaf of an index after another.
    return [f'/v2.1/servers/{population.server_id(host, number)}'
            for number in range(each) for host in range(seed.HOSTS)]


def _act(running: stack.Stack, seconds: float) -> load.Answers:
    """Quiesce servers, each once; see that every message arrived."""
    each = population.SERVERS // seed.HOSTS
    paths = [f'/v2.1/servers/{population.server_id(host, number)}/action'
             for number in range(each) for host in range(sink.HOSTS)]
    with running.talk('tools.bench.sink') as workers:
        workers.hear()
        answers = load.run(load.Job(
            running.port, 'POST', paths,
            {**rest.HEADERS, 'Content-Type': 'application/json'},
            '{"quiesce": null}', expected=202, seconds=seconds,
            again=False))
        workers.say(str(answers.asked))
        came = int(workers.hear())
    if came != answers.asked:
        raise ValueError(f'{answers.asked} requests were accepted, but '
                         f'{came} reached a worker')
    return answers


def _measure(name: str, suffix: str, running: stack.Stack,
             do: Callable[[], load.Answers]) -> figures.Figure:
    before = running.cpu('api')
    answers = do()
    each = (running.cpu('api') - before) / answers.asked
    nova, written = NOVA[name]
    return figures.Figure(
        name + suffix, answers.rate, '1/s', len(answers.times), None,
        f'{_WORDS[name]}; 8 clients, one process, 8 threads, '
        f'{"SQLite" if suffix else "MariaDB"}; an answer took '
        f'{figures.percentile(answers.times, 50) * 1000:.1f} ms (median), '
        f'{figures.percentile(answers.times, 99) * 1000:.1f} ms (p99) and '
        f'{each * 1000:.1f} ms of CPU; given for Nova: {written}',
        figures.Aim('at least', 10 * nova))
