# SPDX-License-Identifier: Apache-2.0
"""Runs the table of malformed requests."""

import pathlib
import re

import pytest
import yaml

from tests.functional import population
from tests.functional import wsgi

TABLE = yaml.safe_load(
    pathlib.Path(__file__).with_name('malformed.yaml').read_text())

ACTION = f'/v2.1/servers/{population.WEB}/action'


@pytest.mark.parametrize('row', TABLE, ids=lambda row: row['name'])
def test_request(shared_api, row):
    if 'bytes' in row:
        body = bytes.fromhex(row['bytes'])
    else:
        body = row.get('body', '').encode()
    answer = wsgi.call(
        shared_api.app, row.get('method', 'POST'), row.get('path', ACTION),
        body, {'OpenStack-API-Version': 'compute 2.89',
               **row.get('headers', {})},
        row.get('type', 'application/json'))
    assert answer.status == row['status'], answer.body
    assert re.search(row['says'], answer.message), answer.message
    assert answer.headers['content-type'] == 'application/json'
    (inner,) = answer.json().values()
    assert inner['code'] == row['status']
    assert not shared_api.recorder.casts


def test_deep_nesting(shared_api):
    for depth in (40, 5000, 30000):
        body = b'{"quiesce": ' + b'[' * depth + b']' * depth + b'}'
        answer = wsgi.call(shared_api.app, 'POST', ACTION, body)
        assert answer.status == 400
        assert 'nested too deeply' in answer.message


def test_too_many_mountpoints(shared_api):
    for mountpoints in ([f'/{one}' for one in range(65)],
                        ['/' + 'a' * 4095]):
        answer = wsgi.act(shared_api.app, population.WEB,
                          {'quiesce': {'mountpoints': mountpoints}})
        assert answer.status == 400
        assert len(answer.message) < 500


def test_body_that_is_too_large(shared_api):
    body = b'{"quiesce": null}' + b' ' * 65536
    answer = wsgi.call(shared_api.app, 'POST', ACTION, body)
    assert answer.status == 413
    assert answer.json()['overLimit']['retryAfter'] == 0


def test_unknown_types_are_told_shortened(shared_api):
    answer = wsgi.call(shared_api.app, 'POST', ACTION, b'{}',
                       content_type='x' * 10000)
    assert answer.status == 415
    assert len(answer.message) < 200


def test_nothing_was_begun(shared_api):
    """Runs last of the module's."""
    answer = wsgi.call(shared_api.app, 'GET',
                       f'/v2.1/servers/{population.WEB}')
    assert answer.json()['server']['OS-EXT-STS:task_state'] is None
