# SPDX-License-Identifier: Apache-2.0
"""The clients ask well-formed questions and refuse wrong answers."""

from collections.abc import Iterator
import http.server
import threading

import pytest

from tools.bench import load


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'

    def do_GET(self):
        body = self.path.encode()
        self.send_response(404 if self.path == '/missing' else 200)
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        size = int(self.headers['Content-Length'])
        self.server.bodies.append(self.rfile.read(size))
        self.send_response(202)
        self.send_header('Content-Length', '0')
        self.end_headers()

    def log_message(self, *_arguments):
        """Print nothing."""


@pytest.fixture
def server() -> Iterator[http.server.ThreadingHTTPServer]:
    one = http.server.ThreadingHTTPServer(('127.0.0.1', 0), _Handler)
    one.daemon_threads = True
    one.bodies = []
    thread = threading.Thread(target=one.serve_forever, daemon=True)
    thread.start()
    yield one
    one.shutdown()
    one.server_close()
    thread.join(5)


def _job(server, **more):
    return load.Job(port=server.server_port, headers={},
                    **{'method': 'GET', 'paths': ['/a'], 'clients': 2,
                       'seconds': 0.2, 'warm_up': 0.05, **more})


def test_answers_are_counted_from_after_the_warm_up(server):
    answers = load.run(_job(server))
    assert 0 < len(answers.times) < answers.asked
    assert answers.rate == pytest.approx(
        len(answers.times) / answers.seconds)
    assert 0 < max(answers.times) <= answers.seconds + 0.05


def test_each_path_is_asked_for_once_where_wished(server):
    answers = load.run(_job(
        server, method='POST', paths=['/a', '/b', '/c'], body='{"x": 1}',
        expected=202, again=False, warm_up=0.0))
    assert answers.asked == 3
    assert server.bodies == [b'{"x": 1}'] * 3


def test_each_path_has_its_own_body_where_there_are_some(server):
    answers = load.run(_job(
        server, method='POST', paths=['/a', '/b'], bodies=['1', '22'],
        expected=202, again=False, warm_up=0.0, fresh=True))
    assert answers.asked == 2
    assert sorted(server.bodies) == [b'1', b'22']


def test_refusals_are_counted_where_wished(server):
    answers = load.run(_job(server, paths=['/a', '/missing', '/b'],
                            lenient=True, again=False, warm_up=0.0))
    assert (answers.asked, answers.refused) == (2, 1)
    assert '404' in answers.refusal


def test_another_status_is_an_error(server):
    with pytest.raises(load.Unexpected, match='404'):
        load.run(_job(server, paths=['/missing']))


def test_nobody_there_is_an_error(server):
    # Its thread first: one that still accepts would reset, not refuse.
    server.shutdown()
    server.server_close()
    with pytest.raises(load.Unexpected, match='Refused'):
        load.run(_job(server))


@pytest.mark.parametrize(('text', 'found'), [
    (b'HTTP/1.1 200 OK\r\nContent-Length: 12', (200, 12)),
    (b'HTTP/1.1 202 Accepted\r\nX: y\r\ncontent-length:0', (202, 0)),
    (b'HTTP/1.1 204 No Content', (204, 0)),
])
def test_heads_of_answers(text, found):
    assert load.frame(text) == found


def test_an_answer_without_a_length_is_refused():
    with pytest.raises(load.Unexpected):
        load.frame(b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked')


def test_headers_are_found_in_any_case():
    answer = load.Answer(200, b'HTTP/1.1 200 OK\r\nX-Openstack-Request-Id: '
                              b'req-1\r\nVary: a:b', b'')
    assert answer.header('x-openstack-request-id') == 'req-1'
    assert answer.header('VARY') == 'a:b'
    assert answer.header('http/1.1 200 ok') is None
