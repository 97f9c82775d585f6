# SPDX-License-Identifier: Apache-2.0
"""Runs the table of who may do what, once for each strategy."""

import base64
import contextlib
import json
import pathlib

import bcrypt
import pytest
import yaml

from tests.functional import environment
from tests.functional import keystone
from tests.functional import population
from tests.functional import wsgi

TABLE = yaml.safe_load(
    pathlib.Path(__file__).with_name('rbac.yaml').read_text())

_ALL_ROLES = ['admin', 'member', 'reader']
TOKENS = {
    'admin': {'roles': _ALL_ROLES, 'project': population.PROJECT},
    'admin-elsewhere': {'roles': _ALL_ROLES,
                        'project': population.OTHER_PROJECT},
    'service': {'roles': ['service'], 'project': 'f' * 32},
    'member': {'roles': ['member', 'reader'],
               'project': population.PROJECT},
    'reader': {'roles': ['reader'], 'project': population.PROJECT},
    'no-role': {'roles': ['guest'], 'project': population.PROJECT},
    'stranger': {'roles': ['member', 'reader'],
                 'project': population.OTHER_PROJECT},
    'manager': {'roles': ['manager', 'member', 'reader'],
                'project': population.PROJECT},
    'third': {'roles': ['manager', 'member', 'reader'],
              'project': 'd' * 32},
    'domain': {'roles': _ALL_ROLES, 'domain': True},
    'unscoped': {'roles': []},
    'system': {'roles': _ALL_ROLES, 'system': True},
}

USERS = ('admin', population.PROJECT, 'eve')

CASES = [(strategy, operation, caller, status)
         for operation in TABLE['operations']
         for strategy, row in operation['expect'].items()
         for caller, status in row.items()]


def options(strategy, folder, stack):
    """What the configuration of a strategy says."""
    if strategy == 'http_basic':
        digest = bcrypt.hashpw(b'secret', bcrypt.gensalt(4)).decode()
        users = folder / 'htpasswd'
        users.write_text(''.join(
            f'{user}:{digest}\n' for user in USERS))
        return {'http_basic__user_file': users}
    if strategy == 'keystone':
        url = stack.enter_context(keystone.keystone(TOKENS))
        return {f'keystone_authtoken__{key}': value for key, value in {
            'www_authenticate_uri': url, 'auth_url': url,
            'auth_type': 'password', 'username': 'stillframe',
            'password': 'secret', 'project_name': 'service',
            'user_domain_id': 'default',
            'project_domain_id': 'default'}.items()}
    return {}


@pytest.fixture(scope='module', params=['noauth', 'http_basic', 'keystone'])
def api(request, tmp_path_factory):
    """An API with each strategy in turn, and the strategy's name."""
    strategy = request.param
    folder = tmp_path_factory.mktemp('rbac')
    with contextlib.ExitStack() as stack:
        made = stack.enter_context(environment.environment(
            nodes=True, api__auth_strategy=strategy,
            **options(strategy, folder, stack)))
        yield strategy, made


def headers_of(strategy, caller):
    """The headers by which a caller is known."""
    headers = dict(TABLE['callers'][strategy][caller])
    basic = headers.pop('basic', None)
    if basic is not None:
        word = base64.b64encode(basic.encode()).decode()
        headers['authorization'] = f'Basic {word}'
    return headers


def test_all(api, subtests):
    strategy, made = api
    for case_strategy, operation, caller, status in CASES:
        if case_strategy != strategy:
            continue
        with subtests.test(msg=f'{operation["name"]}, {caller}'):
            headers = headers_of(strategy, caller)
            # The compute dialect does not take notice of it.
            headers['OpenStack-API-Version'] = 'baremetal 1.116'
            if 'action' in operation:
                answer = wsgi.call(
                    made.app, 'POST',
                    f'/v2.1/servers/{population.OFF}/action',
                    json.dumps(operation['action']).encode(), headers)
            else:
                body = operation.get('body')
                answer = wsgi.call(
                    made.app, operation.get('method', 'GET'),
                    operation['path'],
                    b'' if body is None else json.dumps(body).encode(),
                    headers)
            assert answer.status == status, answer.body
            if status == 401:
                assert answer.headers['www-authenticate']
            assert answer.headers.get('x-compute-request-id') or (
                operation['path'] == '/healthcheck')


def test_the_table_is_whole():
    """Each strategy has each of its callers tried with each action."""
    for operation in TABLE['operations']:
        for strategy, row in operation['expect'].items():
            assert set(row) <= set(TABLE['callers'][strategy])
            if 'action' in operation:
                assert {'admin', 'member', 'stranger', 'nobody'} <= set(row)
