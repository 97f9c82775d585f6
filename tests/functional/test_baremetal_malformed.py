# SPDX-License-Identifier: Apache-2.0
"""Runs the table of malformed requests of the bare-metal dialect."""

import json
import pathlib
import re

import pytest
import yaml

from tests.functional import environment
from tests.functional import wsgi

TABLE = yaml.safe_load(pathlib.Path(__file__).with_name(
    'baremetal_malformed.yaml').read_text())

PROVISION = '/v1/nodes/active/states/provision'


@pytest.fixture(scope='module')
def api():
    """An API with nodes, which no request here may change."""
    with environment.environment(
            nodes=True, images__url_prefixes='file:///srv/images') as made:
        yield made


def sentence(answer):
    """The sentence of an error, in whichever of the forms it is."""
    inner = json.loads(answer.json()['error_message'])
    if 'faultstring' in inner:
        assert inner['faultcode'] == 'Client'
        return inner['faultstring']
    assert inner['code'] == answer.status
    return inner['description']


@pytest.mark.parametrize('row', TABLE, ids=lambda row: row['name'])
def test_request(api, row):
    if 'bytes' in row:
        body = bytes.fromhex(row['bytes'])
    else:
        body = row.get('body', '').encode()
    answer = wsgi.call(
        api.app, row.get('method', 'PUT'), row.get('path', PROVISION), body,
        {'OpenStack-API-Version': 'baremetal 1.116',
         **row.get('headers', {})}, row.get('type', 'application/json'))
    assert answer.status == row['status'], answer.body
    assert answer.headers['content-type'] == 'application/json'
    said = sentence(answer)
    assert re.search(row['says'], said), said
    assert len(said) < 600
    assert not api.baremetal.casts


@pytest.mark.parametrize('path', [
    '/v1/lookup?addresses=%ff', '/v1/lookup?%ed%a0%80=1', '/v1/nodes/%ff',
    '/v1/heartbeat/%ff', '/v2.1/servers?name=%ff', '/%ff'])
def test_no_stranger_fills_the_log(api, caplog, path):
    answer = wsgi.call(api.app, 'GET', path, b'', {}, 'application/json')
    assert answer.status in (400, 404)
    assert not [one for one in caplog.records if one.exc_info]


def test_deep_nesting(api):
    for depth in (40, 5000, 30000):
        body = (b'{"driver": "fake-hardware", "extra": {"a": '
                + b'[' * depth + b']' * depth + b'}}')
        answer = wsgi.call(
            api.app, 'POST', '/v1/nodes', body,
            {'OpenStack-API-Version': 'baremetal 1.116'})
        assert answer.status == 400
        assert 'nested too deeply' in sentence(answer)


def test_an_image_ref_that_is_too_long(api):
    answer = wsgi.call(
        api.app, 'PUT', PROVISION, json.dumps({
            'target': 'snapshot',
            'image_ref': 'file:///srv/images/' + 'a' * 2000}).encode(),
        {'OpenStack-API-Version': 'baremetal 1.116'})
    assert answer.status == 400
    assert 'longer than 1024' in sentence(answer)


def test_nothing_was_changed(api):
    """Runs last of the module's."""
    nodes = wsgi.call(api.app, 'GET', '/v1/nodes').json()['nodes']
    assert len(nodes) == 12
    assert not api.baremetal.casts
