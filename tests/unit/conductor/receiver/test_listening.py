# SPDX-License-Identifier: Apache-2.0
"""The port that the receiver listens on, and keeps."""

import threading

import pytest

from stillframe.conductor.receiver import errors
from stillframe.conductor.receiver import listening


def application(environ, start_response):
    start_response('204 No Content', [])
    return []


def accepting():
    return [one for one in threading.enumerate()
            if one.name == 'receiver-accept']


@pytest.fixture
def listen(conf, tmp_path):
    """Listen in a folder; what listens is stopped at the end."""
    conf.set_override('host', '127.0.0.1', 'receiver')
    conf.set_override('tls', False, 'receiver')
    made = []

    def begin():
        made.append(listening.listen(conf, tmp_path, application))
        return made[-1]

    yield begin
    for one in made:
        one.server.stop_serving()


def test_it_is_the_same_again(listen, tmp_path):
    first = listen()
    first.server.stop_serving()
    assert first.url.endswith(':' + (tmp_path / '.port').read_text())
    assert listen().url == first.url


def test_a_disk_that_takes_no_note(listen, tmp_path, caplog):
    """It listens all the same, on one port."""
    (tmp_path / '.port').mkdir()
    before = len(accepting())
    assert listen().url.startswith('http://127.0.0.1:')
    assert len(accepting()) == before + 1
    assert 'cannot be kept: Is a directory' in caplog.text


def test_a_port_that_is_taken(listen, conf):
    taken = listen()
    conf.set_override('port', int(taken.url.rpartition(':')[2]), 'receiver')
    with pytest.raises(errors.CannotReceive, match='cannot listen'):
        listen()
