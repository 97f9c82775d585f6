# SPDX-License-Identifier: Apache-2.0
"""Who may send an image, and under which name."""

import dataclasses
import urllib.parse

import pytest

from tests.integration.receiver import depot as depots
from tests.integration.receiver.depot import put
from tests.integration.receiver.depot import request


def wrong(ticket, **changes):
    return dataclasses.replace(ticket, **changes)


def test_wrong_credentials(depot, data):
    _, ticket = depot.open()
    _, other = depot.open()
    for bad in (wrong(ticket, password='x'), wrong(ticket, username='x'),
                wrong(ticket, username=other.username),
                wrong(ticket, password=''), wrong(ticket, username='')):
        status, headers, text = put(bad, data)
        assert status == 401
        assert headers['WWW-Authenticate'].startswith('Basic')
        assert ticket.password not in text
    assert depot.files() == []


@pytest.mark.parametrize('header', [
    None, 'Basic', 'Basic !!', 'Basic ' + 'QQ' * 3000, 'Bearer abc',
    'Basic w7w=', 'Digest username="a"'])
def test_malformed_credentials(depot, header):
    _, ticket = depot.open()
    line = depots.connect(ticket)
    line.request('PUT', urllib.parse.urlsplit(ticket.url).path, b'a',
                 {} if header is None else {'Authorization': header})
    assert line.getresponse().status == 401
    line.close()


def test_another_name(depot, data):
    """One credential, one name."""
    _, ticket = depot.open()
    _, other = depot.open()
    for url in (other.url, ticket.url + 'x', ticket.url + '/x',
                ticket.url.replace('/transfers/', '/'),
                ticket.url.replace('/transfers/', '/transfers/../')):
        assert put(wrong(ticket, url=url), data)[0] == 403, url
    assert request(ticket, 'GET', f'/transfers/{other.username}')[0] == 404
    assert depot.files() == []


def test_it_dies_with_the_transfer(depot, data):
    snapshot, ticket = depot.open()
    assert put(ticket, data)[0] == 201
    depot.receiver.close(snapshot)
    assert put(ticket, data)[0] == 401
    assert request(ticket, 'GET')[0] == 401
    assert depot.files() == []


def test_a_second_ticket_ends_the_first(depot, data):
    snapshot, ticket = depot.open()
    assert put(ticket, data)[0] == 201
    second = depot.receiver.open(snapshot)
    assert depot.files() == []
    assert put(ticket, data)[0] == 401
    assert put(second, data)[0] == 201


def test_the_password_is_nowhere(depot, data, database, caplog):
    _, ticket = depot.open()
    put(ticket, data)
    put(ticket, data, Content_Range='bytes 0-1/2')
    assert ticket.password not in repr(ticket)
    assert ticket.password not in caplog.text
    secret = ticket.password.encode()
    for path in (*depot.path.iterdir(),
                 *depot.path.parent.glob('test.sqlite*')):
        assert secret not in path.read_bytes()
