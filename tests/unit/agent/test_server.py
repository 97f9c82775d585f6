# SPDX-License-Identifier: Apache-2.0
"""The command API, called over real connections."""

import http.client
import json
import logging
import socket
import ssl
import threading

import pytest

from stillframe.agent import certificate
from stillframe.agent import commands
from stillframe.agent import routes
from stillframe.agent import server
from tests.lab.processes import wait_until

TOKEN = 'tokentokentokentokentokentokentokentoken'


class Bench:
    """A server with two commands."""

    def __init__(self):
        self.go = threading.Event()
        self.orders = commands.Commands({'try': {
            'echo': commands.Command(lambda what: what),
            'long': commands.Command(self.long, background=True),
        }}, ended=lambda: None)
        self.app = routes.App(self.orders, started_at=12.5)
        self.app.token = TOKEN
        self.server = server.Server(self.app, '127.0.0.1', 0)
        self.context = None

    def long(self):
        assert self.go.wait(60)
        return 'long'

    def connect(self):
        if self.context:
            return http.client.HTTPSConnection(
                '127.0.0.1', self.server.port, timeout=60,
                context=self.context)
        return http.client.HTTPConnection('127.0.0.1', self.server.port,
                                          timeout=60)

    def ask(self, method, path, body=None, headers=()):
        connection = self.connect()
        try:
            if isinstance(body, dict | list):
                body = json.dumps(body)
            connection.request(method, path, body, dict(headers))
            answer = connection.getresponse()
            text = answer.read()
            assert answer.getheader('Content-Type') == 'application/json'
            return (answer.status, json.loads(text) if text else None,
                    answer.headers)
        finally:
            connection.close()

    def order(self, name, wait='false', **params):
        return self.ask(
            'POST', f'/v1/commands/?wait={wait}&agent_token={TOKEN}',
            {'name': name, 'params': params})

    def raw(self, text, more=False):
        """Send bytes, give all that comes back.

        :param more: leave open that there will be more.
        """
        with socket.create_connection(('127.0.0.1', self.server.port),
                                      60) as sock:
            sock.sendall(text)
            if not more:
                sock.shutdown(socket.SHUT_WR)
            return b''.join(iter(lambda: sock.recv(65536), b''))


@pytest.fixture
def bench():
    one = Bench()
    one.server.start()
    yield one
    one.go.set()
    one.server.stop()


@pytest.fixture
def secured(bench, tmp_path):
    made = certificate.make('127.0.0.1')
    both = tmp_path / 'both.pem'
    both.write_text(made.pem + made.key_pem)
    bench.server.use_tls(str(both))
    bench.context = ssl.create_default_context(cadata=made.pem)
    return bench


@pytest.mark.parametrize('method, path, body, status, says', [
    ('GET', '/', None, 200, 'versions'),
    ('GET', '/v1', None, 200, 'commands'),
    ('GET', '/v1/', None, 200, 'commands'),
    ('GET', '/v1/status', None, 200, 'started_at'),
    ('GET', '/status', None, 200, 'started_at'),
    ('GET', '/v2/', None, 404, 'no such page'),
    ('GET', '/v1/v1/status', None, 404, 'no such page'),
    ('GET', '/v1/commands/x/y?agent_token=' + TOKEN, None, 404, 'no such'),
    ('PUT', '/v1/status', None, 405, 'takes GET'),
    ('DELETE', '/v1/commands/?agent_token=' + TOKEN, None, 405,
     'takes GET and POST'),
    ('GET', '/v1/commands/', None, 401, 'Token invalid'),
    ('GET', '/v1/commands/?agent_token=', None, 401, 'Token invalid'),
    ('GET', '/v1/commands/?agent_token=x', None, 401, 'Token invalid'),
    ('GET', '/v1/commands/x?agent_token=%C3%A9', None, 401, 'Token invalid'),
    ('POST', '/v1/commands/', '{', 401, 'Token invalid'),
    ('GET', '/v1/commands/x?agent_token=' + TOKEN, None, 404,
     'Command Result with id x'),
    ('POST', '/v1/commands?agent_token=' + TOKEN, '{', 400, 'no JSON'),
    ('POST', '/v1/commands?agent_token=' + TOKEN, '', 400, 'no JSON'),
    ('POST', '/v1/commands?agent_token=' + TOKEN, '[' * 50000, 400,
     'no JSON'),
    ('POST', '/v1/commands?agent_token=' + TOKEN, '[]', 400, 'name or'),
    ('POST', '/v1/commands?agent_token=' + TOKEN, '{"name": "a.b"}', 400,
     'name or params'),
    ('POST', '/v1/commands?agent_token=' + TOKEN,
     '{"name": "a.b", "params": []}', 400, 'name or params'),
    ('POST', '/v1/commands?agent_token=' + TOKEN,
     '{"name": 5, "params": {}}', 400, 'name or params'),
    ('POST', '/v1/commands?agent_token=' + TOKEN,
     '{"name": "a.b", "params": {}}', 404, 'Extension with id a'),
    ('POST', '/v1/commands?agent_token=' + TOKEN,
     '{"name": "try.b", "params": {}}', 400, 'Unknown command: b'),
    ('POST', '/v1/commands?agent_token=' + TOKEN,
     '{"name": "try", "params": {}}', 400, '<extension>.<name>'),
])
@pytest.mark.parametrize('tls', [False, True])
def test_requests(request, bench, method, path, body, status, says, tls):
    if tls:
        request.getfixturevalue('secured')
    got, content, headers = bench.ask(method, path, body)
    assert got == status
    assert headers['Connection'] == 'close'
    assert says in json.dumps(content)
    if status >= 400:
        assert set(content) == {'faultcode', 'faultstring'}
        assert content['faultcode'] == 'Client'
    if status == 405:
        assert headers['Allow'].startswith('GET')


def test_links_are_those_that_the_server_was_called_by(secured):
    _, content, _ = secured.ask('GET', '/', headers={'Host': 'me:1'})
    assert content['versions'][0]['links'][0]['href'] == 'https://me:1/v1/'


def test_nobody_is_let_in_where_there_is_no_token(bench):
    bench.app.token = None
    for token in ('', 'None', TOKEN):
        assert bench.ask(
            'GET', f'/v1/commands/?agent_token={token}')[0] == 401


def test_a_command(bench):
    status, told, _ = bench.order('try.echo', what={'é': [1]})
    assert (status, told['command_status']) == (200, 'SUCCEEDED')
    assert told['command_result'] == {'é': [1]}
    assert bench.ask('GET', f'/v1/commands/{told["id"]}?agent_token={TOKEN}'
                     )[1] == told
    assert bench.ask('GET', f'/commands/?agent_token={TOKEN}'
                     )[1] == {'commands': [told]}


def test_a_failure_is_no_error_of_http(bench):
    status, told, _ = bench.order('try.echo')
    assert (status, told['command_status']) == (200, 'FAILED')
    assert set(told['command_error']) == {
        'type', 'code', 'message', 'details'}


def test_busy(bench):
    running = bench.order('try.long')[1]
    assert running['command_status'] == 'RUNNING'
    status, content, _ = bench.order('try.echo', what=1)
    assert (status, content['faultstring']) == (
        409, 'Agent is busy: executing command long')
    bench.go.set()
    ended = bench.ask('GET', f'/v1/commands/{running["id"]}?wait=true'
                      f'&agent_token={TOKEN}')[1]
    assert ended['command_result'] == 'long'


def test_waiting_has_a_bound(bench, monkeypatch):
    monkeypatch.setattr(routes, '_LONGEST_WAIT', 0.05)
    assert bench.order('try.long', wait='True')[1][
        'command_status'] == 'RUNNING'


def test_waiting_for_the_end(bench):
    threading.Timer(0.1, bench.go.set).start()
    assert bench.order('try.long', wait='true')[1][
        'command_status'] == 'SUCCEEDED'


def test_what_cannot_be_shown_is_an_error_of_ours(bench):
    bench.orders._extensions['try']['odd'] = commands.Command(
        lambda: object())
    status, content, _ = bench.order('try.odd')
    assert (status, content['faultcode']) == (500, 'Server')


@pytest.mark.parametrize('text, status', [
    (b'nonsense\r\n\r\n', 400),
    (b'GET / HTTP/9.9\r\n\r\n', 505),
    (b'BREW / HTTP/1.1\r\n\r\n', 501),
    (b'GET /' + b'x' * 70000 + b' HTTP/1.1\r\n\r\n', 414),
    (b'GET / HTTP/1.1\r\n' + b'A: b\r\n' * 200 + b'\r\n', 431),
    (f'POST /v1/commands?agent_token={TOKEN} HTTP/1.1\r\n'
     'Content-Length: 1048577\r\n\r\n'.encode(), 413),
    (f'POST /v1/commands?agent_token={TOKEN} HTTP/1.1\r\n'
     'Content-Length: -1\r\n\r\n'.encode(), 400),
    (f'POST /v1/commands?agent_token={TOKEN} HTTP/1.1\r\n'
     'Transfer-Encoding: chunked\r\n\r\n'.encode(), 411),
])
def test_malformed(bench, text, status):
    answer = bench.raw(text)
    assert answer.split()[1] == str(status).encode()
    head, _, body = answer.partition(b'\r\n\r\n')
    assert json.loads(body)['faultcode'] in ('Client', 'Server')
    assert b'stillframe-agent' in head
    assert b'Python' not in head


def test_head(bench):
    answer = bench.raw(b'HEAD /v1/status HTTP/1.1\r\n\r\n')
    assert answer.startswith(b'HTTP/1.1 405 ')


def test_one_that_says_nothing_is_cut(bench, monkeypatch):
    monkeypatch.setattr(server, '_LONGEST_CONNECTION', 0.2)
    assert bench.raw(b'GET / HTTP/1.1\r\n', more=True) == b''


def test_one_that_shakes_no_hands_is_cut(secured, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(server, '_LONGEST_CONNECTION', 0.2)
        assert secured.raw(b'\x16\x03\x01', more=True) == b''
    assert secured.ask('GET', '/')[0] == 200


def test_plain_http_is_not_taken_where_tls_is(secured):
    try:
        answer = secured.raw(b'GET / HTTP/1.1\r\n\r\n')
    except ConnectionError:
        answer = b''
    assert b'HTTP' not in answer


@pytest.mark.filterwarnings('ignore:ssl.TLSVersion.TLSv1_1 is deprecated')
def test_old_tls_is_not_taken(secured):
    secured.context.set_ciphers('ALL:@SECLEVEL=0')
    secured.context.maximum_version = ssl.TLSVersion.TLSv1_1
    secured.context.minimum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises(OSError, match='(?i)protocol|alert'):
        secured.ask('GET', '/')


def idle(bench, text=b'GET / HTTP/1.1\r\n'):
    """A connection whose request does not end."""
    one = socket.create_connection(('127.0.0.1', bench.server.port), 60)
    one.sendall(text)
    return one


@pytest.mark.parametrize('tls', [False, True])
def test_strangers_make_room_for_others(request, bench, tls):
    if tls:
        request.getfixturevalue('secured')
    strangers = [idle(bench, b'\x16\x03' if tls else b'GET /')
                 for _ in range(server._MOST_CONNECTIONS * 3)]
    # Whoever comes is heard, and the first of them are gone.
    assert bench.ask('GET', '/')[0] == 200
    assert strangers[0].recv(1) == b''
    assert bench.ask('GET', f'/v1/commands/?agent_token={TOKEN}')[0] == 200
    for one in strangers:
        one.close()


def test_who_has_the_token_makes_room_for_nobody(bench, monkeypatch):
    running = bench.order('try.long')[1]['id']
    wait_until(lambda: bench.server._connections == 0, 60, 'it to go')
    trusted = []
    trust = bench.server.trust
    monkeypatch.setattr(bench.server, 'trust', lambda connection: (
        trust(connection), trusted.append(connection)))
    path = f'/v1/commands/{running}?wait=true&agent_token={TOKEN}'
    waiting = [idle(bench, f'GET {path} HTTP/1.1\r\n\r\n'.encode())
               for _ in range(server._MOST_CONNECTIONS)]
    wait_until(lambda: len(trusted) == len(waiting), 60, 'the token')
    with pytest.raises((ConnectionError, http.client.HTTPException)):
        bench.ask('GET', '/')
    bench.go.set()
    for one in waiting:
        assert one.recv(12) == b'HTTP/1.1 200'
        one.close()
    wait_until(lambda: bench.server._connections == 0, 60, 'them to go')
    assert bench.ask('GET', '/')[0] == 200


def test_the_token_is_in_no_log(bench, caplog):
    with caplog.at_level(logging.DEBUG):
        bench.order('try.echo', what='secretsecret')
        bench.order('try.echo')
        bench.raw(f'GET /v1/x?agent_token={TOKEN} HTTP/1.1\r\n\r\n'.encode())
        bench.raw(f'POST /v1/commands?agent_token={TOKEN} HTTP/1.1\r\n'
                  'Content-Length: 5\r\n\r\n{'.encode()[:-1])
    assert caplog.text
    assert TOKEN not in caplog.text
    assert 'secretsecret' not in caplog.text


@pytest.mark.parametrize('host, family', [
    ('127.0.0.1', socket.AF_INET), ('::1', socket.AF_INET6),
    (None, socket.AF_INET6)])
def test_where_it_listens(host, family):
    if family == socket.AF_INET6 and not socket.has_dualstack_ipv6():
        family, host = socket.AF_INET, '127.0.0.1'
    one = server.Server(routes.App(commands.Commands({}, print), 0), host, 0)
    one.start()
    try:
        assert one.socket.family == family
        for address in ('127.0.0.1', '::1'):
            if host in (None, address):
                socket.create_connection((address, one.port), 60).close()
    finally:
        one.stop()


def test_a_port_that_is_taken(bench):
    with pytest.raises(OSError, match='in use'):
        server.Server(bench.app, '127.0.0.1', bench.server.port)
