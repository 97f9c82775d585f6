# SPDX-License-Identifier: Apache-2.0
"""Reading the body of a request."""

import json

import pytest

from stillframe.api import body


class _Broken:
    """An input that fails as those of WSGI servers do."""

    def __init__(self, error):
        self._error = error

    def read(self, _size):
        raise self._error


@pytest.mark.parametrize('error', [
    ConnectionResetError('gone'), TimeoutError('timed out'),
    ValueError('Bad chunked transfer size')])
@pytest.mark.parametrize('framing', [
    {'CONTENT_LENGTH': '5'}, {'wsgi.input_terminated': True}])
def test_a_body_that_cannot_be_read_is_the_clients_fault(error, framing):
    said = []

    def start_response(status, _headers, _exc_info=None):
        said.append(status)

    answer = body.wrap(None, 100)(
        {'REQUEST_METHOD': 'POST', 'wsgi.input': _Broken(error), **framing},
        start_response)
    assert said == ['400 Bad Request']
    assert 'cannot be read' in json.loads(
        b''.join(answer))['badRequest']['message']
