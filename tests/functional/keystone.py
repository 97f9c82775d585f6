# SPDX-License-Identifier: Apache-2.0
"""As much of Keystone's v3 API as keystonemiddleware asks for.

It listens on the loopback interface and knows the tokens of a table; the
real service is part of the integration tests.
"""

from collections.abc import Iterator
import contextlib
import json
import socketserver
import threading
from typing import Any
from wsgiref import simple_server

_EXPIRES = '2999-01-01T00:00:00.000000Z'
_DOMAIN = {'id': 'default', 'name': 'Default'}

#: The token that the middleware gets for itself.
OWN_TOKEN = 'token-of-the-service-itself'


class _Server(socketserver.ThreadingMixIn, simple_server.WSGIServer):
    daemon_threads = True


class _Quiet(simple_server.WSGIRequestHandler):
    def log_message(self, format, *args):
        """Write nothing."""


def _token(roles: list[str], project: str | None = None,
           system: bool = False, domain: bool = False) -> dict[str, Any]:
    token: dict[str, Any] = {
        'methods': ['password'], 'issued_at': '2026-01-01T00:00:00.000000Z',
        'expires_at': _EXPIRES, 'audit_ids': ['x'],
        'user': {'id': 'c' * 32, 'name': 'somebody', 'domain': _DOMAIN},
    }
    if roles:
        token['roles'] = [{'id': f'id-{role}', 'name': role}
                          for role in roles]
    if project:
        token['project'] = {'id': project, 'name': 'project',
                            'domain': _DOMAIN}
        token['is_domain'] = False
    if domain:
        token['domain'] = _DOMAIN
    if system:
        token['system'] = {'all': True}
    return {'token': token}


def _catalog(url: str) -> list[dict[str, Any]]:
    return [{'id': 'i', 'type': 'identity', 'name': 'keystone',
             'endpoints': [{'id': interface, 'interface': interface,
                            'region': 'one', 'region_id': 'one', 'url': url}
                           for interface in ('public', 'internal',
                                             'admin')]}]


class Keystone:
    """Answers the middleware.

    :param tokens: token → arguments of its description: ``roles``,
        ``project``, ``system``, ``domain``.
    """

    def __init__(self, tokens: dict[str, dict[str, Any]]):
        self._tokens = {name: _token(**token)
                        for name, token in tokens.items()}

    def __call__(self, environ, start_response):
        """Be a WSGI application."""
        here = f'http://{environ["HTTP_HOST"]}'
        path = environ['PATH_INFO'].rstrip('/')
        version = {'id': 'v3.14', 'status': 'stable',
                   'updated': '2020-01-01T00:00:00Z', 'media-types': [],
                   'links': [{'rel': 'self', 'href': f'{here}/v3/'}]}
        headers = [('Content-Type', 'application/json')]
        status, body = '404 Not Found', {'error': {'code': 404}}
        if path == '':
            status, body = '300 Multiple Choices', {
                'versions': {'values': [version]}}
        elif path == '/v3':
            status, body = '200 OK', {'version': version}
        elif path == '/v3/auth/tokens':
            if environ['REQUEST_METHOD'] == 'POST':
                status, body = '201 Created', _token(['service'], 'f' * 32)
                body['token']['catalog'] = _catalog(here)
                headers.append(('X-Subject-Token', OWN_TOKEN))
            else:
                known = self._tokens.get(
                    environ.get('HTTP_X_SUBJECT_TOKEN', ''))
                if known is not None:
                    status, body = '200 OK', known
        start_response(status, headers)
        return [json.dumps(body).encode()]


@contextlib.contextmanager
def keystone(tokens: dict[str, dict[str, Any]]) -> Iterator[str]:
    """Run it; gives its address."""
    with simple_server.make_server(
            '127.0.0.1', 0, Keystone(tokens), server_class=_Server,
            handler_class=_Quiet) as server:
        thread = threading.Thread(target=server.serve_forever,
                                  name='keystone', daemon=True)
        thread.start()
        try:
            yield f'http://127.0.0.1:{server.server_port}'
        finally:
            server.shutdown()
            thread.join(10)
