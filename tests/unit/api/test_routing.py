# SPDX-License-Identifier: Apache-2.0
"""From paths to handlers."""

import pytest

from stillframe import exceptions
from stillframe.api import errors
from stillframe.api import routing

TABLE = routing.Table((
    ('GET', 'servers', 'list'),
    ('POST', 'servers', 'create'),
    ('GET', 'servers/detail', 'detail'),
    ('GET', 'servers/{}', 'show'),
    ('GET', 'servers/{}/things/{}', 'thing'),
))


@pytest.mark.parametrize(('method', 'path', 'found'), [
    ('GET', 'servers', ('list', [])),
    ('HEAD', 'servers', ('list', [])),
    ('POST', 'servers', ('create', [])),
    ('GET', 'servers/detail', ('detail', [])),
    ('GET', 'servers/x', ('show', ['x'])),
    ('GET', 'servers/{}', ('show', ['{}'])),
    ('GET', 'servers/x/things/y', ('thing', ['x', 'y'])),
])
def test_found(method, path, found):
    assert TABLE.find(method, path.split('/')) == found


@pytest.mark.parametrize('path', [
    'server', 'servers/x/things', 'servers/x/things/y/z', 'servers/x/',
    'servers//things/y', '', '{}'])
def test_not_found(path):
    with pytest.raises(exceptions.NotFound):
        TABLE.find('GET', path.split('/'))


def test_wrong_method():
    with pytest.raises(errors.NoSuchMethod) as caught:
        TABLE.find('PUT', ['servers'])
    assert caught.value.headers == {'Allow': 'GET, POST'}


@pytest.mark.parametrize(('path', 'parts'), [
    ('/v2.1/servers', ('v2.1', None, ['servers'])),
    ('/v2.1/servers/', ('v2.1', None, ['servers'])),
    ('/v2.1/p/servers', ('v2.1', 'p', ['servers'])),
    ('/v2/p/servers/x/action', ('v2', 'p', ['servers', 'x', 'action'])),
    ('/v2.1/servers/servers', ('v2.1', None, ['servers', 'servers'])),
    ('/v2.1/p/os-services', ('v2.1', 'p', ['os-services'])),
    ('/v2.1/p', ('v2.1', None, ['p'])),
    ('/v2.1/p/nonsense', ('v2.1', None, ['p', 'nonsense'])),
    ('/v2.1//servers', ('v2.1', '', ['servers'])),
])
def test_split(path, parts):
    assert routing.split(path) == parts


@pytest.mark.parametrize(('path', 'segments'), [
    ('/v1', []), ('/v1/', []), ('/v1/nodes', ['nodes']),
    ('/v1/nodes/', ['nodes']), ('/v1//nodes', ['', 'nodes']),
    ('/v1/nodes/x/states', ['nodes', 'x', 'states'])])
def test_segments(path, segments):
    assert routing.segments(path) == segments


@pytest.mark.parametrize('path', [
    '', '/', '//', '/v2.1', '/v2.1/', '/v2.1//', '/v2', '/v2/', '/servers',
    '/v2.10/servers', '//v2.1/servers', '/V2.1/servers', '/healthcheck',
    '/v1', '/v1/', '/v1/lookup', '/v1/heartbeat/x', '/v10/nodes',
    '/boot/ipxe/x'])
def test_public(path):
    assert routing.is_public(path)
    assert routing.project_in(path) is None


@pytest.mark.parametrize('path', [
    '/v2.1/servers', '/v2/p/servers', '/v2.1/nonsense', '/v2.1//servers',
    '/v2.1/../', '/v2.1/%2e', '/v1/nodes', '/v1//nodes', '/v1/lookups',
    '/v1/./lookup', '/v1/nodes/lookup'])
def test_not_public(path):
    assert not routing.is_public(path)
