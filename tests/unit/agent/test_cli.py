# SPDX-License-Identifier: Apache-2.0
"""The agent as a process of its own, from its start to its end."""

import json
import pathlib
import signal
import socket
import ssl
import subprocess
import sys
import urllib.error
import urllib.request

import pytest

import stillframe
from stillframe.agent import cli
from tests.unit.agent import bare_metal_double as double

ROOT = pathlib.Path(stillframe.__file__).parents[1]


@pytest.fixture
def bare_metal():
    with double.BareMetal() as one:
        yield one


@pytest.fixture
def start(bare_metal, tmp_path):
    """Start an agent; what runs at the test's end is ended."""
    running = []

    def start(*argv):
        agent = subprocess.Popen(
            [sys.executable, '-m', 'stillframe.agent', '--api-url',
             bare_metal.url, '--listen-host', '127.0.0.1', '--listen-port',
             '0', '--lookup-interval', '0.05', '--state-path',
             tmp_path / 'state', *argv],
            stderr=subprocess.PIPE, text=True)
        running.append(agent)
        return agent

    yield start
    for one in running:
        one.kill()
        one.communicate(timeout=60)


def end(agent, number=signal.SIGTERM):
    """Send a signal; give status and log."""
    agent.send_signal(number)
    _, log = agent.communicate(timeout=60)
    return agent.returncode, log


def call(heartbeat, path, order=None):
    """Call an agent back as its heartbeat says."""
    context = None
    if pem := heartbeat.get('agent_verify_ca'):
        context = ssl.create_default_context(cadata=pem)
        context.verify_flags |= ssl.VERIFY_X509_STRICT
    request = urllib.request.Request(
        f'{heartbeat["callback_url"]}{path}'
        f'?wait=true&agent_token={double.TOKEN}',
        data=json.dumps(order).encode() if order else None)
    with urllib.request.urlopen(request, context=context,
                                timeout=60) as answer:
        return json.load(answer)


def test_from_start_to_end(bare_metal, start):
    bare_metal.lookups = [double.error(404, 'Not yet.'), double.found()]
    agent = start()
    told = bare_metal.wait_for(1)
    assert bare_metal.versions['heartbeat'] == ['1.68']
    assert set(told) == {'callback_url', 'agent_token', 'agent_version',
                         'agent_verify_ca'}
    assert told['agent_token'] == double.TOKEN
    assert told['callback_url'].startswith('https://127.0.0.1:')
    assert call(told, '/v1/commands/') == {'commands': []}
    # A command of the background; it is refused, this being no ramdisk.
    result = call(told, '/v1/commands/',
                  {'name': 'standby.power_off', 'params': {}})
    assert result['command_status'] == 'FAILED'
    assert 'not booted with ipa-api-url' in result['command_error']['details']
    # Its end is told long before the 90 s that are the least otherwise.
    assert bare_metal.wait_for(2, 30) == told
    status, log = end(agent)
    assert (status, cli.ENDED) == (0, 0)
    assert double.TOKEN not in log
    assert f'this machine is node {double.NODE}' in log
    with pytest.raises(urllib.error.URLError):
        call(told, '/v1/status')


@pytest.mark.parametrize('number', [signal.SIGTERM, signal.SIGINT])
def test_told_to_end_while_nobody_knows_it(bare_metal, start, number):
    bare_metal.lookups = [double.error(404, 'Not yet.')]
    agent = start('--lookup-interval', '60')
    for line in agent.stderr:
        if 'asking again' in line:
            break
    status, _ = end(agent, number)
    assert status == cli.ENDED


def test_started_again_in_the_same_boot(bare_metal, start):
    bare_metal.lookups = [double.found(), double.found(token='******')]
    port = str(free_port())
    agent = start('--listen-port', port)
    told = bare_metal.wait_for(1)
    agent.kill()
    agent.communicate(timeout=60)
    start('--listen-port', port)
    assert bare_metal.wait_for(2) == told
    assert call(told, '/v1/commands/') == {'commands': []}


def free_port():
    with socket.create_server(('127.0.0.1', 0)) as one:
        return one.getsockname()[1]


def test_a_token_that_somebody_else_has(bare_metal, start):
    bare_metal.lookups = [double.found(token='******')]
    agent = start()
    _, log = agent.communicate(timeout=60)
    assert agent.returncode == cli.TOKEN_TAKEN == 3
    assert f'The token of node {double.NODE} was given out before' in log
    assert bare_metal.told == []


def test_a_token_that_is_known_beforehand(bare_metal, start, tmp_path):
    bare_metal.lookups = [double.found(token='******')]
    (tmp_path / 'token').write_text(double.TOKEN)
    start('--agent-token-file', tmp_path / 'token')
    assert bare_metal.wait_for(1)['agent_token'] == double.TOKEN


def test_nobody_knows_it(bare_metal, start):
    bare_metal.lookups = [double.error(404, 'Who is that?')]
    agent = start('--lookup-timeout', '0.3')
    _, log = agent.communicate(timeout=60)
    assert agent.returncode == cli.NO_NODE == 4
    assert 'lastly with: HTTP 404: Who is that?' in log


def test_an_api_that_takes_no_certificates(bare_metal, start):
    bare_metal.root = double.root('1.67')
    agent = start()
    told = bare_metal.wait_for(1)
    assert 'agent_verify_ca' not in told
    assert told['callback_url'].startswith('http://')
    assert call(told, '/v1/status')['version'] == told['agent_version']
    assert 'too old to take a certificate' in end(agent)[1]


def test_tls_switched_off(bare_metal, start):
    agent = start('--no-auto-tls')
    assert bare_metal.wait_for(1)['callback_url'].startswith('http://')
    assert 'switched off' in end(agent)[1]


def test_called_at_another_address(bare_metal, start):
    start('--advertise-host', '2001:db8::7', '--advertise-port', '19999')
    assert (bare_metal.wait_for(1)['callback_url']
            == 'https://[2001:db8::7]:19999')


@pytest.mark.parametrize('argv, says', [
    (('--api-url', 'mdns'), 'is no URL'),
    (('--ca-file', '/nowhere', '--api-url', 'https://a'), 'No such file'),
    (('--listen-port', 'x'), 'must be a number'),
    (('--advertise-host', '169.254.1.1'), 'no address to be called at'),
    (('--listen-host', '192.0.2.1'), 'cannot be listened on'),
    (('--state-path', '/dev/null'), '/dev/null'),
])
def test_what_it_cannot_work_with(start, argv, says):
    agent = start(*argv)
    _, log = agent.communicate(timeout=60)
    assert agent.returncode == cli.UNUSABLE == 2
    assert says in log
    assert 'Traceback' not in log


def test_it_needs_nothing_but_the_standard_library():
    """As a ramdisk runs it: isolated, without site-packages."""
    done = subprocess.run(
        [sys.executable, '-I', '-S', '-c',
         'import sys; sys.path.insert(0, sys.argv[1]); '
         'from stillframe.agent import cli; '
         'sys.exit(cli.main(["--api-url", "mdns"]))', ROOT],
        capture_output=True, text=True, timeout=60)
    assert done.returncode == cli.UNUSABLE, done.stderr
    assert "'mdns' is no URL" in done.stderr
