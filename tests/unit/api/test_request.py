# SPDX-License-Identifier: Apache-2.0
"""Decoding bodies strictly."""

import json

from hypothesis import given
from hypothesis import strategies as st
import pytest

from stillframe import exceptions
from stillframe.api import request

documents = st.recursive(
    st.none() | st.booleans() | st.integers(-10**38, 10**38)
    | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: (st.lists(inner, max_size=4)
                   | st.dictionaries(st.text(), inner, max_size=4)),
    max_leaves=20)


@given(documents)
def test_json_comes_through(document):
    assert request.decode(json.dumps(document).encode()) == document


@given(st.binary())
def test_bytes_are_json_or_refused(body):
    try:
        expected = json.loads(body.decode('utf-8'))
    except ValueError:
        with pytest.raises(exceptions.BadRequest):
            request.decode(body)
    else:
        try:
            assert request.decode(body) == expected
        except exceptions.BadRequest as exc:
            # What Python takes though RFC 8259 does not.
            assert 'number' in exc.message or 'twice' in exc.message


@pytest.mark.parametrize('depth', [31, 32])
def test_deepest_that_is_taken(depth):
    body = b'[' * (depth - 1) + b']' * (depth - 1)
    assert request.decode(body) is not None


@pytest.mark.parametrize('depth', [33, 100, 1000, 100_000])
@pytest.mark.parametrize('pair', [(b'[', b']'), (b'{"a":', b'}')])
def test_too_deep(depth, pair):
    opening, closing = pair
    filler = b'1' if opening != b'[' else b''
    body = opening * depth + filler + closing * depth
    with pytest.raises(exceptions.BadRequest) as caught:
        request.decode(body)
    assert 'nested too deeply' in caught.value.message


@pytest.mark.parametrize('number', [
    'NaN', 'Infinity', '-Infinity', '1e999', '-1e999', '1' * 41,
    '-' + '1' * 40, '1' * 5000])
def test_no_number_of_ours(number):
    with pytest.raises(exceptions.BadRequest) as caught:
        request.decode(f'[{number}]'.encode())
    assert 'number' in caught.value.message


def test_equal_keys():
    with pytest.raises(exceptions.BadRequest) as caught:
        request.decode(b'{"a": {"b": 1, "b": 1}}')
    assert 'twice' in caught.value.message
