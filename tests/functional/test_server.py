# SPDX-License-Identifier: Apache-2.0
"""The API's own WSGI server, and clients that do not behave."""

import contextlib
import http.client
import json
import socket
import time
from typing import NamedTuple

import pytest

from stillframe.api import server
from stillframe.conf import CONF
from tests.functional import environment
from tests.functional import population
from tools.bench import load

_GET = b'GET /v2.1/servers HTTP/1.1\r\nHost: a\r\n'
_ACTION = (f'POST /v2.1/servers/{population.WEB}/action HTTP/1.1\r\n'
           'Host: a\r\nContent-Type: application/json\r\n').encode()


class Address(NamedTuple):
    """Where the API listens."""

    host: str
    port: int

    def connect(self):
        """Make a connection."""
        return socket.create_connection(self, timeout=15)

    def ask(self, *parts):
        """Send a request in parts; give status and body of the answer."""
        with self.connect() as client:
            for part in parts:
                client.sendall(part)
            return _answer(client)


@pytest.fixture(scope='module')
def address():
    with environment.environment() as api:
        CONF.set_override('port', 0, 'api')
        listening = server.ApiServer(CONF, api.app)
        listening.start()
        try:
            host, port = listening.url.removeprefix('http://').split(':')
            yield Address(host, int(port))
        finally:
            listening.stop()
            CONF.clear_override('port', 'api')


def _answer(client):
    text = b''
    with contextlib.suppress(ConnectionResetError):
        while more := client.recv(65536):
            text += more
    head, _, body = text.partition(b'\r\n\r\n')
    return int(head.split()[1]), body


def _closing(head):
    return head + b'Connection: close\r\n\r\n'


@pytest.mark.parametrize('said', [
    b'', _GET, _ACTION + b'Content-Length: 5000\r\n\r\n{',
    _ACTION + b'Transfer-Encoding: chunked\r\n\r\n1f\r\n'])
def test_clients_that_never_finish_keep_nobody_out(address, said):
    with contextlib.ExitStack() as stack:
        for _ in range(600):
            client = stack.enter_context(address.connect())
            client.sendall(said)
        begun = time.monotonic()
        status, _body = address.ask(_closing(_GET))
        assert status == 200
        assert time.monotonic() - begun < 3


def test_requests_that_arrive_at_once_are_all_answered(
        address, monkeypatch):
    # From a process of its own, so that they really come at once.
    monkeypatch.setattr(server, '_MOST_WAITING', 64)
    answers = load.run(load.Job(
        address.port, 'GET', ['/v2.1/servers'] * 600, {}, clients=120,
        fresh=True, again=False, warm_up=0, seconds=60))
    assert answers.asked == 600


def test_a_request_in_small_pieces(address):
    text = (_closing(_ACTION + b'Content-Length: 7\r\n') + b'{"a":1}')
    status, body = address.ask(*(bytes((one,)) for one in text))
    assert status == 400
    assert 'no such action' in json.loads(body)['badRequest']['message']


def test_the_largest_body_in_pieces(address):
    body = b'{"a":1}' + b' ' * (CONF.api.max_request_body - 7)
    head = _closing(_ACTION + b'Content-Length: %d\r\n' % len(body))
    status, _body = address.ask(head, body[:40_000], body[40_000:])
    assert status == 400


def test_a_client_that_waits_to_be_asked_for_the_body(address):
    with address.connect() as client:
        client.sendall(_closing(
            _ACTION + b'Expect: 100-continue\r\nContent-Length: 7\r\n'))
        asked = b'HTTP/1.1 100 '
        assert client.recv(len(asked), socket.MSG_WAITALL) == asked
        client.sendall(b'{"a":1}')
        text = b''
        while more := client.recv(65536):
            text += more
        assert b'HTTP/1.1 400 ' in text


def test_two_requests_on_one_connection(address):
    client = http.client.HTTPConnection(*address, timeout=15)
    with contextlib.closing(client):
        used = set()
        for _ in range(2):
            client.request('GET', '/v2.1/servers')
            used.add(client.sock)
            answer = client.getresponse()
            assert answer.status == 200
            assert 'servers' in json.loads(answer.read())
        assert len(used) == 1


@pytest.mark.parametrize(('status', 'request_'), [
    (400, _ACTION + b'Transfer-Encoding: chunked\r\n\r\nZZZ\r\n'),
    (413, _ACTION + b'Transfer-Encoding: chunked\r\n\r\nFFFFFFFF\r\n'),
    (413, _ACTION + b'Content-Length: 99999999999\r\n\r\n'),
    (400, _ACTION + b'Content-Length: -1\r\n\r\n'),
    (400, b'\x00\x01\x02\r\n'),
    (431, _GET + b'X: ' + b'a' * 200_000)])
def test_what_is_refused_unread(address, status, request_):
    """The answer arrives although the client still sends."""
    found, body = address.ask(request_, b'a' * 300_000)
    assert found == status
    (error,) = json.loads(body).values()
    assert error['code'] == status
    assert error['message'].endswith('.')
