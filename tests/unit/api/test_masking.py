# SPDX-License-Identifier: Apache-2.0
"""Secrets out of the documents of nodes."""

import pytest

from stillframe.api.views.baremetal import masking


@pytest.mark.parametrize('key', [
    'password', 'redfish_password', 'ipmi_Password', 'agent_secret_token',
    'snmp_community', 'PrivateKey', 'ssh_private_key', 'auth_key',
    'apikey', 'API_KEY', 'passphrase', 'credentials', 'configdrive',
    'image_tempurl', 'rescue_passwd'])
def test_secret_keys(key):
    assert masking.is_secret(key)
    assert masking.masked({key: 'x'}) == {key: '******'}
    assert masking.masked([{'a': {key: ['x']}}]) == [{'a': {key: '******'}}]


@pytest.mark.parametrize('key', [
    'redfish_username', 'redfish_address', 'image_source', 'kernel',
    'root_device', 'keys', 'author', 'pass', 'monkey'])
def test_other_keys(key):
    assert masking.masked({key: 'x'}) == {key: 'x'}


def test_what_is_not_set_is_no_secret():
    document = {'password': None, 'token': ''}
    assert masking.masked(document) == document


@pytest.mark.parametrize(('url', 'shown'), [
    ('https://root:secret@bmc/x', 'https://******@bmc/x'),
    ('https://root@bmc', 'https://******@bmc'),
    ('see https://a:b@c and https://d:e@f',
     'see https://******@c and https://******@f'),
    ('https://bmc/a@b', 'https://bmc/a@b'),
    ('https://bmc/?q=a@b', 'https://bmc/?q=a@b'),
    ('somebody@example.org', 'somebody@example.org'),
])
def test_urls(url, shown):
    assert masking.masked({'address': [url]}) == {'address': [shown]}


def test_nothing_is_changed_in_place():
    document = {'a': {'password': 'x'}, 'n': 5, 'b': True}
    assert masking.masked(document) == {
        'a': {'password': '******'}, 'n': 5, 'b': True}
    assert document == {'a': {'password': 'x'}, 'n': 5, 'b': True}
