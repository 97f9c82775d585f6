# SPDX-License-Identifier: Apache-2.0
"""Calling a WSGI application without a server or a client between.

An HTTP client would repair or refuse some of the requests that a test has
to send.
"""

import io
import json
from typing import Any
from typing import NamedTuple
import urllib.parse


class Answer(NamedTuple):
    """What came back."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def message(self) -> str:
        """The message of an error."""
        (inner,) = json.loads(self.body).values()
        return inner['message']

    def json(self) -> Any:
        """The body, decoded."""
        return json.loads(self.body)


def call(app: Any, method: str, url: str, body: bytes = b'',
         headers: dict[str, str] | None = None,
         content_type: str = 'application/json') -> Answer:
    """Send a request.

    :param url: path and query; percent-encoded.
    :param content_type: of the body; '' for none.
    """
    path, _, query = url.partition('?')
    environ = {
        'REQUEST_METHOD': method,
        'SCRIPT_NAME': '',
        # As WSGI has it: the bytes, each as the character of its number.
        'PATH_INFO': urllib.parse.unquote_to_bytes(path).decode('latin-1'),
        'QUERY_STRING': query,
        'SERVER_NAME': 'api.test', 'SERVER_PORT': '80',
        'HTTP_HOST': 'api.test', 'SERVER_PROTOCOL': 'HTTP/1.1',
        'REMOTE_ADDR': '127.0.0.1',
        'CONTENT_LENGTH': str(len(body)),
        'wsgi.version': (1, 0), 'wsgi.url_scheme': 'http',
        'wsgi.input': io.BytesIO(body), 'wsgi.errors': io.StringIO(),
        'wsgi.multithread': True, 'wsgi.multiprocess': True,
        'wsgi.run_once': False,
    }
    if content_type:
        environ['CONTENT_TYPE'] = content_type
    for name, value in (headers or {}).items():
        key = name.upper().replace('-', '_')
        environ[key if key == 'CONTENT_LENGTH' else f'HTTP_{key}'] = value
    seen: dict[str, Any] = {}

    def start(status, response_headers, exc_info=None):
        seen['status'] = int(status.split()[0])
        seen['headers'] = {key.lower(): value
                           for key, value in response_headers}

    iterable = app(environ, start)
    try:
        content = b''.join(iterable)
    finally:
        if hasattr(iterable, 'close'):
            iterable.close()
    return Answer(seen['status'], seen['headers'], content)


def act(app: Any, server: str, action: Any, token: str = '',
        version: str = '2.89') -> Answer:
    """Send an action to a server.

    :param action: the body, before it is written as JSON.
    """
    headers = {'OpenStack-API-Version': f'compute {version}'}
    if token:
        headers['X-Auth-Token'] = token
    return call(app, 'POST', f'/v2.1/servers/{server}/action',
                json.dumps(action).encode(), headers)
