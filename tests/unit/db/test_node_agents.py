# SPDX-License-Identifier: Apache-2.0
"""What is kept of a node's agent: no token, and only what is its own."""

import concurrent.futures

import pytest

from stillframe.db import node_agents
from stillframe.db import nodes
from tests.unit.db import node_scenes as scenes

pytestmark = pytest.mark.usefixtures('database')

URL = 'https://192.0.2.1:9999'


def test_a_token_is_given_once_and_not_kept():
    node = scenes.waiting()
    token = node_agents.give_token(node['uuid'])
    assert len(token) >= 32
    assert node_agents.give_token(node['uuid']) is None
    row = nodes.get(node['uuid'])
    assert token not in str(dict(row))
    assert node_agents.token_matches(row, token)
    assert not node_agents.token_matches(row, token + 'x')
    assert not node_agents.token_matches(node, token)


def test_nobody_gets_a_token_of_a_node_that_does_not_wait():
    for node in (scenes.node('active'), scenes.snapshotting(),
                 scenes.write(scenes.waiting(), reservation='c2')):
        assert node_agents.give_token(node['uuid']) is None
        assert nodes.get(node['uuid'])['agent_token_hash'] is None


def test_of_many_that_ask_one_gets_the_token():
    node = scenes.waiting()
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        given = list(pool.map(lambda _: node_agents.give_token(node['uuid']),
                              range(8)))
    assert len([one for one in given if one]) == 1


def test_heartbeats():
    node = scenes.waiting()
    token = node_agents.give_token(node['uuid'])

    def heard(token=token, url=URL, ca='PEM'):
        return node_agents.heard(node['uuid'], token, url, '1', ca)

    assert not heard(token='x')
    assert nodes.get(node['uuid'])['agent_url'] is None
    assert heard()
    row = nodes.get(node['uuid'])
    assert (row['agent_url'], row['agent_verify_ca'], row['agent_version']
            ) == (URL, 'PEM', '1')
    first = row['agent_last_heartbeat']
    assert heard()
    assert nodes.get(node['uuid'])['agent_last_heartbeat'] > first
    assert not heard(url='https://192.0.2.2:9999')
    assert not heard(ca='OTHER')
    assert not heard(ca=None)
    assert not heard(token='x')
    assert nodes.get(node['uuid'])['agent_url'] == URL


def test_a_certificate_that_comes_later_is_another_one():
    node = scenes.waiting()
    token = node_agents.give_token(node['uuid'])
    url = 'http://192.0.2.1:9999'
    assert node_agents.heard(node['uuid'], token, url, '1', None)
    assert node_agents.heard(node['uuid'], token, url, '1', None)
    assert not node_agents.heard(node['uuid'], token, url, '1', 'PEM')


def test_an_agent_that_is_wiped_is_unknown():
    node = scenes.waiting()
    token = node_agents.give_token(node['uuid'])
    assert node_agents.heard(node['uuid'], token, URL, '1', None)
    scenes.write(node, **node_agents.UNKNOWN)
    assert not node_agents.heard(node['uuid'], token, URL, '1', None)
    assert node_agents.give_token(node['uuid']) != token
