# SPDX-License-Identifier: Apache-2.0
"""Reading driver_info."""

import pytest

from stillframe.drivers import driver_info
from stillframe.drivers import errors
from stillframe.drivers.driver_info import Property
from stillframe.drivers.redfish import access
from tests.unit.drivers.nodes import make_node

THREE = (Property('a', 'First.', required=True),
         Property('b', 'Second.', required=True), Property('c', 'Third.'))


def test_all_that_is_missing_is_named():
    driver_info.require('n', {'a': 0, 'b': 'x'}, THREE)
    with pytest.raises(errors.MissingDriverInfo) as caught:
        driver_info.require('n', {'a': '', 'b': None}, THREE)
    assert str(caught.value) == (
        'driver_info of node n lacks a, b: First. Second.')
    assert caught.value.http_status == 400


@pytest.mark.parametrize('value', [
    'http://a/b.iso', 'https://[2001:db8::1]:8443/x?y=z', 'http://a:80'])
def test_addresses(value):
    assert driver_info.url('n', {'k': value}, 'k') == value


@pytest.mark.parametrize(('value', 'reason'), [
    (5, 'has to be a string'), (None, 'has to be a string'),
    ('/etc/passwd', 'has to begin with http:// or https://'.replace(
        'http:// or', 'http or')),
    ('file:///etc/passwd', 'has to begin with'),
    ('http://', 'names no host'), ('http://[', 'is no URL'),
    ('http://a:x/', 'is no URL'), ('http://a:99999/', 'is no URL'),
    ('http://a/b c', 'spaces or control'),
    ('http://a/b\nboot', 'spaces or control'),
    ('http://a/\x1b[2J', 'spaces or control')])
def test_what_is_no_address(value, reason):
    with pytest.raises(errors.InvalidDriverInfo, match=reason):
        driver_info.url('n', {'k': value}, 'k')


@pytest.mark.parametrize(('value', 'meaning'), [
    (True, True), ('true', True), ('Yes', True), ('1', True),
    (False, False), ('FALSE', False), ('off', False), ('0', False)])
def test_yes_and_no(value, meaning):
    assert driver_info.boolean('n', {'k': value}, 'k', True) is meaning


def test_neither_yes_nor_no():
    assert driver_info.boolean('n', {}, 'k', True) is True
    with pytest.raises(errors.InvalidDriverInfo, match='true or false'):
        driver_info.boolean('n', {'k': 'perhaps'}, 'k', True)


def read(**info):
    return access.read(make_node(driver_info={
        'redfish_address': 'bmc.example.org', **info}))


def test_access_in_short():
    found, system = read()
    assert found == access.Access('https://bmc.example.org', None, None,
                                  True, 'auto')
    assert system is None


def test_access_in_full(tmp_path):
    found, system = read(
        redfish_address='http://192.0.2.1:8000/', redfish_username='u',
        redfish_password='geheim', redfish_system_id='437XR',
        redfish_verify_ca=str(tmp_path), redfish_auth_type='basic')
    assert found == access.Access('http://192.0.2.1:8000', 'u', 'geheim',
                                  str(tmp_path), 'basic')
    assert system == '/redfish/v1/Systems/437XR'
    assert 'geheim' not in repr(found)


def test_a_whole_path_of_a_system():
    assert read(redfish_system_id='/redfish/v1/Systems/1')[1] == (
        '/redfish/v1/Systems/1')


@pytest.mark.parametrize('info', [
    {'redfish_address': 'ftp://bmc'},
    {'redfish_address': 'https://root:calvin@bmc'},
    {'redfish_address': 'https://bmc/redfish/v1/Systems/1'},
    {'redfish_address': 'https://bmc/?x'},
    {'redfish_address': 17},
    {'redfish_username': 17},
    {'redfish_password': ['x']},
    {'redfish_system_id': '1?x=y'},
    {'redfish_system_id': '1 2'},
    {'redfish_verify_ca': '/does/not/exist'},
    {'redfish_verify_ca': 'maybe'},
    {'redfish_auth_type': 'kerberos'},
])
def test_nonsense_is_refused_by_name(info):
    with pytest.raises(errors.InvalidDriverInfo) as caught:
        read(**info)
    [(key, value)] = info.items()
    assert f'driver_info {key} of node' in str(caught.value)
    # It may have been a password in the wrong place.
    assert str(value) not in str(caught.value)


def test_an_address_is_needed():
    with pytest.raises(errors.MissingDriverInfo, match='redfish_address'):
        access.read(make_node())
