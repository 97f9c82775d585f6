# SPDX-License-Identifier: Apache-2.0
"""What is refused before the first byte of an image."""

import contextlib
import urllib.parse

import pytest

from stillframe.conductor.receiver import errors
from stillframe.conductor.receiver import storing
from tests.integration.receiver import depot as depots
from tests.integration.receiver.depot import answer
from tests.integration.receiver.depot import begin
from tests.integration.receiver.depot import put
from tests.integration.receiver.depot import result
from tests.lab.processes import wait_until

MIB = 1 << 20


def refused(ticket, length, **headers):
    """Announce an image, and give the refusal; nothing is sent."""
    line = begin(ticket, length, Expect='100-continue', **headers)
    status, _, text = answer(line)
    return status, text


def test_the_client_is_invited(depot):
    snapshot, ticket = depot.open()
    line = begin(ticket, 3, Expect='100-continue')
    file = line.sock.makefile('rb')
    assert file.readline() == b'HTTP/1.1 100 Continue\r\n'
    assert file.readline() == b'\r\n'
    line.send(b'abc')
    assert answer(line)[0] == 201
    depot.receiver.finish(snapshot, result(b'abc'))


def test_a_disk_larger_than_the_store(depot):
    _, ticket = depot.open()
    for limit in ({}, {'X_Stillframe_Limit': str(1 << 59)}):
        length = None if limit else 1 << 59
        status, text = refused(ticket, length, **limit)
        assert status == 507
        assert str(1 << 59) in text[:200]
        assert 'are free' in text[:200]
    assert depot.files() == []


def test_compressed_images_may_be_let_in_on_less(new_depot):
    depot = new_depot(compressed_share=1e-9)
    _, ticket = depot.open()
    status, _, _ = put(ticket, b'abc', 3,
                       X_Stillframe_Limit=str(1 << 45))
    assert status == 201


@pytest.mark.parametrize('allocates', [True, False])
def test_what_others_were_promised_is_not_free(
        small_store, new_depot, monkeypatch, allocates):
    if not allocates:
        monkeypatch.setattr(storing.Incoming, 'allocate',
                            lambda self, size: None)
    depot = new_depot(small_store)
    (_, first), (_, second) = depot.open(), depot.open()
    line = begin(first, 40 * MIB)
    line.send(b'a')
    wait_until(lambda: len(depot.files()) == 1, 30, 'the first to begin')
    status, text = refused(second, 40 * MIB)
    assert status == 507
    assert f'needs {40 * MIB} bytes' in text
    line.close()
    wait_until(lambda: depot.files() == [], 30, 'the first to end')
    assert put(second, bytes(40 * MIB))[0] == 201


def test_the_reserve_is_used_up(new_depot):
    depot = new_depot(min_free=1 << 40)
    with pytest.raises(errors.StoreFull):
        depot.open()


@pytest.mark.parametrize(('headers', 'status'), [
    ({'X_Stillframe_Limit': 'many'}, 400),
    ({'X_Stillframe_Limit': '-5'}, 400),
    ({'X_Stillframe_Limit': '9' * 30}, 400),
    ({}, 411)])
def test_no_size(depot, headers, status):
    _, ticket = depot.open()
    assert refused(ticket, None, **headers)[0] == status


@pytest.mark.parametrize('headers', [
    {'Content_Range': 'bytes 0-2/9'}, {'Content_Encoding': 'gzip'}])
def test_an_image_is_sent_whole(depot, headers):
    _, ticket = depot.open()
    assert refused(ticket, 3, **headers)[0] == 400


def test_a_length_that_is_none(depot):
    _, ticket = depot.open()
    for length in ('+5', '5_0', '-1', 'five'):
        assert refused(ticket, length)[0] == 400


def test_a_length_and_chunks(depot):
    _, ticket = depot.open()
    assert refused(ticket, 5, Transfer_Encoding='chunked')[0] == 400


def sent_as_it_is(ticket, version, *lines, data=b''):
    """Send a PUT with a head of one's own; give the answer."""
    line = depots.connect(ticket)
    path = urllib.parse.urlsplit(ticket.url).path
    line.send('\r\n'.join((f'PUT {path} HTTP/{version}', *lines, '', '')
                          ).encode() + data)
    return answer(line)


@pytest.mark.parametrize('lines', [
    ('Content-Length: 5', 'Content-Length: 3'),
    ('Content-Length: 3', 'content-length : 3'),
    ('Content-Length: 5', ' 3'),
    ('Transfer-Encoding: chunked', 'X-Stillframe-Limit: 9',
     'X-Stillframe-Limit: 3'),
    ('Host: b', 'Content-Length: 3'),
    ('Authorization: Basic eDp5', 'Content-Length: 3')])
def test_a_header_that_comes_twice(depot, lines):
    snapshot, ticket = depot.open()
    status, _, text = sent_as_it_is(
        ticket, '1.1', 'Host: a',
        f'Authorization: {depots.authorization(ticket)}', *lines)
    assert (status, 'is there twice' in text) == (400, True)
    assert depot.progress(snapshot).reason is None


def test_a_header_that_looks_like_another(depot):
    snapshot, ticket = depot.open()
    status, headers, _ = sent_as_it_is(
        ticket, '1.1', 'Host: a',
        f'Authorization: {depots.authorization(ticket)}',
        'Content-Length: 3', 'Content_Length: 5', data=b'abc')
    assert (status, headers['X-Stillframe-Size']) == (201, '3')
    assert depot.progress(snapshot).total == 3


def test_a_head_that_begins_with_a_blank(depot):
    _, ticket = depot.open()
    status, _, text = sent_as_it_is(ticket, '1.1', ' Host: a')
    assert (status, 'begins with a blank' in text) == (400, True)


@pytest.mark.parametrize('lines', [(), ('Content-Length: 3',)])
def test_chunks_in_a_version_that_has_none(depot, lines):
    _, ticket = depot.open()
    status, _, text = sent_as_it_is(
        ticket, '1.0', f'Authorization: {depots.authorization(ticket)}',
        'Transfer-Encoding: chunked', *lines)
    assert (status, 'not clear' in text) == (400, True)


def test_a_client_that_sends_all_the_same_gets_the_answer(
        depot, monkeypatch):
    """Without Expect; the refusal is not lost in a reset."""
    _, ticket = depot.open()
    monkeypatch.setattr(depot.receiver._folder, '_reserve', 1 << 60)
    line = begin(ticket, 40 * MIB)
    with contextlib.suppress(OSError):
        for _ in range(40):
            line.send(bytes(MIB))
    status, _, text = answer(line)
    assert status == 507, text
