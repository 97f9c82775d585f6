# SPDX-License-Identifier: Apache-2.0
"""Reading bodies: whatever pieces they come in, and however they end."""

from hypothesis import given
from hypothesis import strategies as st
import pytest

from stillframe.conductor.receiver import body as bodies
from stillframe.conductor.receiver import errors


class Wire:
    """What a connection has to give, a piece at a time; then its end."""

    def __init__(self, data, step=None):
        self.data = memoryview(data)
        self.step = step or len(data) or 1

    def __call__(self, into):
        count = min(len(into), self.step, len(self.data))
        into[:count] = self.data[:count]
        self.data = self.data[count:]
        return count


def body(data, length=None, step=None, ahead=0, invite=None):
    return bodies.Body(Wire(data[ahead:], step), data[:ahead], length,
                       invite)


def read(one, size=1000):
    """Read it to its end by pieces of some size."""
    found, piece = b'', memoryview(bytearray(size))
    while count := one.fill(piece):
        found += piece[:count]
    assert one.ended
    assert one.taken == len(found)
    return found


def chunks(data, sizes, extension=b'', trailer=b''):
    found, at = b'', 0
    for size in sizes:
        part = data[at:at + size]
        at += size
        if part:
            found += b'%X%s\r\n%s\r\n' % (len(part), extension, part)
    if rest := data[at:]:
        found += b'%x\r\n%s\r\n' % (len(rest), rest)
    return found + b'0\r\n' + trailer + b'\r\n'


@given(st.binary(max_size=5000), st.integers(1, 700), st.integers(1, 900),
       st.data())
def test_known_length(data, step, size, draw):
    ahead = draw.draw(st.integers(0, len(data)))
    assert read(body(data, len(data), step, ahead), size) == data


@given(st.binary(max_size=5000), st.lists(st.integers(1, 999), max_size=9),
       st.integers(1, 700), st.integers(1, 900), st.data())
def test_chunks(data, sizes, step, size, draw):
    sent = chunks(data, sizes)
    ahead = draw.draw(st.integers(0, len(sent)))
    one = body(sent, None, step, ahead)
    assert read(one, size) == data
    assert not one.ahead


def test_large_chunks_go_straight_into_the_buffer():
    data = bytes(range(256)) * 2048
    one = body(chunks(data, [300_000]), None, 70_000)
    assert read(one, 200_000) == data


@given(st.binary(min_size=1, max_size=2000),
       st.lists(st.integers(1, 300), max_size=9), st.data())
def test_an_end_that_comes_too_early_is_no_end(data, sizes, draw):
    chunked = draw.draw(st.booleans())
    sent = chunks(data, sizes) if chunked else data
    sent = sent[:draw.draw(st.integers(0, len(sent) - 1))]
    one = body(sent, None if chunked else len(data))
    with pytest.raises(errors.Truncated) as caught:
        read(one)
    assert not one.ended
    assert f'after {one.taken} bytes' in caught.value.message


@pytest.mark.parametrize('sent', [
    b'x\r\n', b'\r\n', b'-1\r\n', b'+1\r\nx\r\n', b'1_0\r\n', b' \r\n',
    b'0x1\r\nx\r\n', b'1\r\nxx\r\n0\r\n\r\n', b'1\r\nx\n0\r\n\r\n',
    b'1' * 2000, b'1;' + b'a' * 2000 + b'\r\n', b'F' * 16 + b'\r\n',
    b'0\r\n' + b'a: b\r\n' * 2000])
def test_malformed_chunks(sent):
    with pytest.raises((errors.Malformed, errors.Truncated)):
        read(body(sent))


def test_chunk_extensions_and_trailers_are_ignored():
    sent = chunks(b'abc', [3], b';a="b"', b'X-A: b\r\nX-C: d\r\n')
    assert read(body(sent)) == b'abc'


@pytest.mark.parametrize('length', [5, None])
def test_what_follows_is_seen(length):
    sent = chunks(b'abcde', [5]) if length is None else b'abcde'
    one = body(sent + b'GET / HTTP/1.1', length, ahead=len(sent) + 14)
    assert read(one) == b'abcde'
    assert one.ahead


def test_the_client_is_invited_once_and_before_anything_is_read():
    said = []
    one = body(b'abc', 3, invite=lambda: said.append('come'))
    assert said == []
    assert read(one) == b'abc'
    assert said == ['come']


def test_nobody_is_invited_to_send_nothing():
    said = []
    assert read(body(b'', 0, invite=lambda: said.append('come'))) == b''
    assert said == []


def test_as_a_file():
    one = body(b'abcdef', 6)
    assert [one.read(4), one.read(), one.read()] == [b'abcd', b'ef', b'']


def test_an_error_of_the_connection_goes_to_the_caller():
    def broken(into):
        raise ConnectionResetError

    with pytest.raises(ConnectionResetError):
        read(bodies.Body(broken, b'', 3))
