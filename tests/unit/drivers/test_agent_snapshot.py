# SPDX-License-Identifier: Apache-2.0
"""Ordering a snapshot of an agent, over a network that is not always there.

The other side is the agent's own command API.
"""

import functools
import logging
import threading
import time

import pytest

from stillframe.agent import command_errors
from stillframe.drivers import base
from stillframe.drivers import errors
from stillframe.drivers import factory
from stillframe.drivers.agent import client
from tests.lab import bad_server
from tests.lab.processes import wait_until
from tests.lab.relay import Relay
from tests.unit.drivers.nodes import configuration
from tests.unit.drivers.nodes import make_node
from tests.unit.drivers.ramdisk import RESULT
from tests.unit.drivers.ramdisk import TOKEN
from tests.unit.drivers.ramdisk import Ramdisk

ORDER = {'version': 1, 'url': 'https://192.0.2.9/transfers/x',
         'username': 'u', 'password': 'p'}


@pytest.fixture
def conf():
    made = configuration(enabled_hardware_types=['fake-hardware'],
                         default_snapshot_interface='agent')
    made.set_override('agent_api_url', 'https://api.test', group='baremetal')
    made.set_override('retry_wait', 0.01, group='agent')
    made.set_override('command_timeout', 20.0, group='agent')
    return made


@pytest.fixture
def snapshot(conf):
    with factory.Factory(conf) as drivers:
        yield drivers.build(make_node()).snapshot


@pytest.fixture(params=['http', 'https'])
def ramdisk(request, tmp_path):
    folder = tmp_path if request.param == 'https' else None
    with Ramdisk().serving(folder) as one:
        yield one


@pytest.fixture
def secure(tmp_path):
    with Ramdisk().serving(tmp_path) as one:
        yield one


def finished(snapshot, node, command_id):
    """Wait for the end of a stream, and give it."""
    def end():
        state = snapshot.poll(node, command_id)
        return None if isinstance(state, base.Progress) else state

    return wait_until(end, 20, 'the end of the stream')


def test_start_poll_done(ramdisk, snapshot):
    node = ramdisk.node()
    snapshot.validate(node)
    command_id = snapshot.start(node, ORDER)
    assert ramdisk.orders == [ORDER]
    assert snapshot.poll(node, command_id) == base.Progress()
    ramdisk.go_on.set()
    assert finished(snapshot, node, command_id) == base.Done(RESULT)
    # It can be asked again.
    assert snapshot.poll(node, command_id) == base.Done(RESULT)


def test_nowhere_to_report_to(snapshot, conf):
    conf.clear_override('agent_api_url', group='baremetal')
    with pytest.raises(errors.NowhereToReport, match='agent_api_url'):
        snapshot.validate(make_node())


def test_failure(ramdisk, snapshot):
    node = ramdisk.node()
    ramdisk.result = command_errors.CommandExecutionError(
        f'GET https://u:p@192.0.2.9/x?agent_token={TOKEN} broke\n off')
    ramdisk.go_on.set()
    end = finished(snapshot, node, snapshot.start(node, ORDER))
    assert end == base.Failed(
        'GET https://***@192.0.2.9/x?agent_token=*** broke off')


def test_an_agent_that_was_started_anew(ramdisk, snapshot):
    end = snapshot.poll(ramdisk.node(), 'id-of-another-life')
    assert isinstance(end, base.Failed)
    assert 'started anew' in end.reason


def test_stop(ramdisk, snapshot):
    node = ramdisk.node()
    command_id = snapshot.start(node, ORDER)
    snapshot.stop(node, command_id)
    assert finished(snapshot, node, command_id) == base.Failed('stopped')


def test_stop_of_an_agent_that_cannot(snapshot):
    """As ironic-python-agent; its transfer is cut instead."""
    with Ramdisk(can_stop=False).serving(None) as ramdisk:
        node = ramdisk.node()
        command_id = snapshot.start(node, ORDER)
        snapshot.stop(node, command_id)
        assert snapshot.poll(node, command_id) == base.Progress()
    snapshot.stop(node, command_id)
    snapshot.stop({**node, 'agent_url': None}, command_id)


def test_refused_order(ramdisk, snapshot):
    with pytest.raises(errors.AgentRefused) as caught:
        snapshot.start(ramdisk.node(), {'refuse': f'mars?x={TOKEN}'})
    assert 'nobody sends to mars?x=***' in str(caught.value)
    assert 'HTTP 400' in str(caught.value)
    assert not caught.value.transient
    assert ramdisk.streams == 0


def test_agent_without_the_extension(ramdisk, snapshot):
    ramdisk.commands._extensions.clear()
    with pytest.raises(errors.AgentRefused, match='HTTP 404'):
        snapshot.start(ramdisk.node(), ORDER)


def test_busy(ramdisk, snapshot):
    node = ramdisk.node()
    snapshot.start(node, ORDER)
    with pytest.raises(errors.AgentBusy, match='stream_image') as caught:
        snapshot.start(node, ORDER)
    assert caught.value.transient
    assert ramdisk.streams == 1


def test_wrong_token(ramdisk, snapshot):
    with pytest.raises(errors.AgentDenied) as caught:
        snapshot.start(ramdisk.node(agent_token='guessed'), ORDER)
    assert 'guessed' not in str(caught.value)


@pytest.mark.parametrize('missing', ['agent_url', 'agent_token'])
def test_no_heartbeat_yet(ramdisk, snapshot, missing):
    with pytest.raises(errors.AgentNotKnown):
        snapshot.start(ramdisk.node(**{missing: None}), ORDER)


def test_another_certificate_gets_nothing(secure, snapshot, tmp_path):
    (tmp_path / 'other').mkdir()
    with Ramdisk().serving(tmp_path / 'other') as other:
        node = secure.node(agent_verify_ca=other.pem)
        with pytest.raises(errors.AgentNotGenuine):
            snapshot.start(node, ORDER)
    with pytest.raises(errors.AgentNotGenuine):
        snapshot.start(secure.node(agent_verify_ca='no certificate'), ORDER)
    # One of the system's authorities would be needed.
    with pytest.raises(errors.AgentNotGenuine):
        snapshot.start(secure.node(agent_verify_ca=None), ORDER)
    assert secure.commands.results() == []


def test_another_address_than_that_of_the_certificate(secure, snapshot):
    """The address may have been translated; the certificate counts."""
    node = secure.node(agent_url=f'https://localhost:{secure.port}')
    assert snapshot.start(node, ORDER)


def test_a_start_without_an_answer_is_looked_up(ramdisk, snapshot):
    """The connection breaks while the agent begins."""
    with Relay() as relay:
        relay.point_at(ramdisk.port)
        node = ramdisk.node(port=relay.port)
        ramdisk.arriving = lambda: relay.point_at(ramdisk.port)
        command_id = snapshot.start(node, ORDER)
    # It is found as soon as it is listed, and may not run yet.
    assert ramdisk.started.wait(30)
    assert ramdisk.streams == 1
    [result] = ramdisk.commands.results()
    assert result.id == command_id


def test_a_slow_start_is_looked_up(ramdisk, snapshot, conf):
    """The answer comes after we have given up on it."""
    conf.set_override('command_timeout', 1.0, group='agent')
    conf.set_override('attempts', 50, group='agent')
    first, arrived = threading.Event(), threading.Event()

    def arriving():
        # The first request alone is slow.
        if not arrived.is_set():
            arrived.set()
            first.wait(2.5)

    ramdisk.arriving = arriving
    command_id = snapshot.start(ramdisk.node(), ORDER)
    assert ramdisk.started.wait(20)
    assert ramdisk.streams == 1
    assert command_id in [one.id for one in ramdisk.commands.results()]


def test_a_start_that_did_not_arrive_is_sent_again(ramdisk, snapshot):
    """The list of commands is had; then the agent is gone for a moment."""
    with Relay() as relay:
        relay.point_at(ramdisk.port)
        node = ramdisk.node(port=relay.port)
        listed, serve = [], ramdisk.app.answer

        def answer(method, target, *rest):
            if method == 'GET':
                listed.append(target)
            elif len(listed) == 1:
                # Before the order was even read.
                relay.point_at(ramdisk.port)
                raise ConnectionResetError
            return serve(method, target, *rest)

        ramdisk.app.answer = answer
        snapshot.start(node, ORDER)
    assert len(listed) == 2
    assert ramdisk.streams == 1


def test_an_agent_that_is_gone(ramdisk, snapshot, conf):
    with Relay() as relay, pytest.raises(errors.AgentUnreachable) as caught:
        snapshot.start(ramdisk.node(port=relay.port), ORDER)
    assert caught.value.transient
    assert TOKEN not in str(caught.value)


@pytest.mark.parametrize('name', bad_server.RUBBISH)
def test_rubbish(snapshot, name):
    with bad_server.BadServer(bad_server.RUBBISH[name]) as server:
        node = make_node(agent_url=server.url, agent_token=TOKEN)
        with pytest.raises(errors.AgentUnintelligible) as caught:
            snapshot.poll(node, 'x')
    assert TOKEN not in str(caught.value)
    assert not caught.value.transient


@pytest.mark.parametrize('behaviour', [
    bad_server.hang, bad_server.reset, bad_server.hang_up,
    bad_server.trickle(b'HTTP/1.1 200 OK\r\n', b'X: y\r\n'),
    bad_server.trickle(bad_server.OK + b'\r\n', b' '),
    bad_server.say(bad_server.OK, b'Content-Length: 5\r\n\r\n{')],
    ids=['hang', 'reset', 'hang up', 'slow head', 'slow body', 'cut off'])
def test_no_answer(snapshot, conf, behaviour):
    conf.set_override('command_timeout', 0.3, group='agent')
    conf.set_override('attempts', 2, group='agent')
    with bad_server.BadServer(behaviour) as server:
        node = make_node(agent_url=server.url, agent_token=TOKEN)
        begin = time.monotonic()
        with pytest.raises(errors.AgentUnreachable):
            snapshot.poll(node, 'x')
        assert time.monotonic() - begin < 10
        wait_until(lambda: len(server.requests) == 2, 10,
                   'both requests to be seen')


def test_an_answer_without_end(snapshot, conf):
    with bad_server.BadServer(bad_server.flood) as server:
        node = make_node(agent_url=server.url, agent_token=TOKEN)
        with pytest.raises(errors.AgentUnintelligible, match='no end'):
            snapshot.poll(node, 'x')


@pytest.mark.parametrize('result', [None, 'done', {'version': 2}])
def test_a_result_that_is_none(ramdisk, snapshot, result):
    ramdisk.result = result
    ramdisk.go_on.set()
    node = ramdisk.node()
    with pytest.raises(errors.AgentUnintelligible, match='version 1'):
        finished(snapshot, node, snapshot.start(node, ORDER))


@pytest.mark.parametrize('result', [
    {'version': 1, 'notes': ['x' * (5 << 20)]},
    {'version': 1, 'notes': functools.reduce(
        lambda inside, _: [inside], range(300), [])}],
    ids=['long', 'deep'])
def test_a_result_without_end(ramdisk, snapshot, result):
    ramdisk.result = result
    ramdisk.go_on.set()
    node = ramdisk.node()
    with pytest.raises(errors.AgentUnintelligible, match='no end'):
        finished(snapshot, node, snapshot.start(node, ORDER))


@pytest.mark.parametrize('number', ['nan', 'inf', '-inf'])
def test_a_result_that_is_no_json(ramdisk, snapshot, number):
    ramdisk.result = {'version': 1, 'notes': [float(number)]}
    ramdisk.go_on.set()
    node = ramdisk.node()
    with pytest.raises(errors.AgentUnintelligible, match='a number'):
        finished(snapshot, node, snapshot.start(node, ORDER))


def test_what_an_agent_says_is_made_fit_for_a_database(conf):
    agent = client.Agent(conf, make_node(agent_url='https://192.0.2.1',
                                         agent_token=TOKEN))
    assert agent.scrub(f'a\0b\n\ud800c {TOKEN}') == 'a b c ***'


@pytest.mark.parametrize('url', [
    'http://', 'http://127.0.0.1:99999', 'http://127.0.0.1/\r\nX: y'])
def test_an_address_that_is_none(snapshot, url):
    node = make_node(agent_url=url, agent_token=TOKEN)
    with pytest.raises(errors.AgentError) as caught:
        snapshot.poll(node, 'x')
    assert TOKEN not in str(caught.value)


def test_no_token_in_any_log(ramdisk, snapshot, caplog):
    caplog.set_level(logging.DEBUG)
    with Relay() as relay:
        for port in (ramdisk.port, relay.port):
            try:
                snapshot.start(ramdisk.node(port=port), ORDER)
            except errors.AgentError:
                logging.getLogger('test').exception('as expected')
    assert 'as expected' in caplog.text
    assert TOKEN not in caplog.text
    assert 'thirty-two' not in caplog.text
