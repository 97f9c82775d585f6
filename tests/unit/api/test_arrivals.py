# SPDX-License-Identifier: Apache-2.0
"""How much of a request has arrived."""

import pytest

from stillframe.api import arrivals
from stillframe.api.arrivals import Arrival

_POST = b'POST /x HTTP/1.1\r\nHost: a\r\n'
_CHUNKED = _POST + b'Transfer-Encoding: chunked\r\n\r\n'
_MAX = 1024

_WHOLE = (
    b'GET / HTTP/1.1\r\n\r\n',
    b'GET / HTTP/1.1\r\nHost: a\r\n\r\n',
    _POST + b'content-LENGTH :  3 \r\n\r\nabc',
    _POST + b'Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc',
    _CHUNKED + b'3\r\nabc\r\n0\r\n\r\n',
    _CHUNKED + b'3;a=b\r\nabc\r\n1\r\nd\r\n00\r\nTrailer: x\r\n\r\n',
)


@pytest.mark.parametrize('request_', _WHOLE)
def test_whole_at_the_last_byte_and_not_before(request_):
    assert arrivals.judge(request_, _MAX) is Arrival.WHOLE
    for size in range(len(request_)):
        assert arrivals.judge(request_[:size], _MAX) is Arrival.PART


@pytest.mark.parametrize('request_', [
    b'GET / HTTP/1.1\nHost: a\r\n',
    b'GET / HTTP/1.1\r\nX: a\0b\r\n',
    b'GET / HTTP/1.1\r\nX: a\r\n b\r\n',
    b'GET / HTTP/1.1\r\nX: a\rContent-Length: 5\r\n\r\n',
    _POST + b'Content-Length: -1\r\n\r\n',
    _POST + b'Content-Length: 1_0\r\n\r\n',
    _POST + b'Content-Length:\r\n\r\n',
    _POST + b'Content-Length: 0\r\nContent-Length: 500\r\n\r\n',
    _POST + b'Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n',
    _CHUNKED + b'ZZZ\r\nabc\r\n',
    _CHUNKED + b'-5\r\nabc\r\n',
    _CHUNKED + b'3\r\nabcdef\r\n',
    _CHUNKED + b'1' * 300,
])
def test_malformed(request_):
    assert arrivals.judge(request_, _MAX) is Arrival.MALFORMED


@pytest.mark.parametrize('request_', [
    _POST + b'Content-Length: 1025\r\n\r\n',
    _POST + b'Content-Length: ' + b'9' * 5000 + b'\r\n\r\n',
    _CHUNKED + b'FFFFFFFFFFFFFFFF\r\na',
    _CHUNKED + b'200\r\n' + b'a' * 512 + b'\r\n201\r\n',
    _CHUNKED + b'1;' + b'x' * 100 + b'\r\na\r\n' + (
        b'1;' + b'x' * 100 + b'\r\na\r\n') * 30,
])
def test_too_large_a_body_is_known_before_it_has_come(request_):
    assert arrivals.judge(request_, _MAX) is Arrival.BODY_TOO_LARGE


def test_too_large_a_head():
    start = b'GET / HTTP/1.1\r\nX: '
    assert arrivals.judge(start + b'a' * 60_000, _MAX) is Arrival.PART
    for end in (b'', b'\r\n\r\n'):
        assert arrivals.judge(start + b'a' * 70_000 + end,
                              _MAX) is Arrival.HEAD_TOO_LARGE


def test_invited_only_with_a_whole_head():
    head = _POST + b'Expect: 100-Continue\r\nContent-Length: 3\r\n\r\n'
    assert arrivals.is_invited(head)
    assert not arrivals.is_invited(head[:-1])
    assert not arrivals.is_invited(_WHOLE[2])
