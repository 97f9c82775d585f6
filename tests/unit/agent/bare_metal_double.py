# SPDX-License-Identifier: Apache-2.0
"""A bare-metal API that answers what a test tells it to.

For faults that a real one cannot be made to have. Strict in what it takes:
a request that is not as the API's reference has it is remembered, and fails
the test at its end.
"""

import collections
import contextlib
import dataclasses
import http.server
import json
import re
import threading
from typing import Any
from urllib import parse

NODE = '11111111-2222-3333-4444-555555555555'
TOKEN = 'tokentokentokentokentokentokentokentoken'


@dataclasses.dataclass
class Answer:
    """One answer.

    :ivar body: JSON if it is no text.
    """

    status: int = 200
    body: Any = ''
    headers: dict = dataclasses.field(default_factory=dict)


def root(version='1.116'):
    return Answer(body={'default_version': {'version': version}})


def found(token=TOKEN, timeout=300.0, **config):
    return Answer(body={
        'node': {'uuid': NODE, 'properties': {}, 'instance_info': {}},
        'config': {'heartbeat_timeout': timeout, 'agent_token': token,
                   **config}})


def error(status, text):
    """The doubly encoded error of the API."""
    return Answer(status, {'error_message': json.dumps(
        {'faultcode': 'Client', 'faultstring': text, 'debuginfo': None})})


class BareMetal:
    """The double; a context manager.

    :ivar lookups, heartbeats: what is answered, one after the other; the
        last for ever.
    :ivar asked: queries of the lookups; ``told``: bodies of heartbeats.
    :ivar wrong: requests that are not as they have to be.
    """

    def __init__(self, context=None):
        self.root = root()
        self.lookups = [found()]
        self.heartbeats = [Answer(202)]
        self.asked = []
        self.told = []
        self.versions = collections.defaultdict(list)
        self.wrong = []
        self._lock = threading.Condition()
        double = self

        class Handler(http.server.BaseHTTPRequestHandler):
            timeout = 20

            def do_GET(self):
                double.get(self)

            def do_POST(self):
                double.post(self)

            def log_message(self, *_args):
                pass

        self._server = http.server.ThreadingHTTPServer(
            ('127.0.0.1', 0), Handler)
        self._server.daemon_threads = True
        scheme = 'http'
        if context:
            scheme = 'https'
            self._server.socket = context.wrap_socket(
                self._server.socket, server_side=True,
                do_handshake_on_connect=False)
        self.url = f'{scheme}://127.0.0.1:{self._server.server_port}'
        self._thread = threading.Thread(target=self._server.serve_forever,
                                        args=(0.01,))

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_exc):
        self._server.shutdown()
        self._thread.join(20)
        self._server.server_close()
        assert not self.wrong

    def get(self, request):
        parts = parse.urlsplit(request.path)
        if parts.path == '/':
            self.answer(request, self.root)
        elif parts.path == '/v1/lookup':
            query = dict(parse.parse_qsl(parts.query))
            self.check(request, set(query) == {'addresses'})
            self.check(request, re.fullmatch(
                r'[0-9a-f:]{17}(,[0-9a-f:]{17})*',
                query.get('addresses', '')))
            self.note('lookup', request, self.asked, query, self.lookups)
        else:
            self.check(request, False)
            self.answer(request, Answer(404))

    def post(self, request):
        body = json.loads(
            request.rfile.read(int(request.headers['Content-Length'])))
        self.check(request, request.path == f'/v1/heartbeat/{NODE}')
        self.check(request,
                   request.headers['Content-Type'] == 'application/json')
        self.note('heartbeat', request, self.told, body, self.heartbeats)

    def note(self, kind, request, record, what, answers):
        self.versions[kind].append(
            request.headers['X-OpenStack-Ironic-API-Version'])
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        with self._lock:
            record.append(what)
            self._lock.notify_all()
        self.answer(request, answer)

    def check(self, request, good):
        if not good:
            self.wrong.append(f'{request.command} {request.path}')

    def answer(self, request, answer):
        body = (answer.body if isinstance(answer.body, str)
                else json.dumps(answer.body)).encode()
        # Who asked may have been told to end.
        with contextlib.suppress(ConnectionError):
            request.send_response_only(answer.status)
            for name, value in answer.headers.items():
                request.send_header(name, value)
            request.send_header('Content-Length', str(len(body)))
            request.end_headers()
            request.wfile.write(body)

    def wait_for(self, heartbeats, seconds=60):
        """Wait until so many heartbeats were taken."""
        with self._lock:
            assert self._lock.wait_for(
                lambda: len(self.told) >= heartbeats, seconds)
        return self.told[heartbeats - 1]
