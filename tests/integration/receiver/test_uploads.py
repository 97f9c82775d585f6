# SPDX-License-Identifier: Apache-2.0
"""Sending whole images, one or several at once."""

import hashlib
import stat
import subprocess
import threading

import pytest

from stillframe.conductor.receiver import errors
from stillframe.states.transfers import State
from tests.integration.receiver.depot import answer
from tests.integration.receiver.depot import begin
from tests.integration.receiver.depot import put
from tests.integration.receiver.depot import request
from tests.integration.receiver.depot import result
from tests.lab.processes import wait_until

MIB = 1 << 20


@pytest.mark.parametrize('tls', [True, False])
@pytest.mark.parametrize('chunk', [None, 1000, 1 << 16, 3 * MIB])
def test_an_image_arrives(new_depot, data, tls, chunk):
    depot = new_depot(tls=tls)
    snapshot, ticket = depot.open()
    assert ticket.url.startswith('https:' if tls else 'http:')
    status, headers, _ = put(ticket, data, chunk)
    sha256 = hashlib.sha256(data).hexdigest()
    assert (status, headers['X-Stillframe-Size'],
            headers['X-Stillframe-Sha256']) == (201, str(len(data)), sha256)
    found = depot.progress(snapshot)
    assert (found.bytes, found.total, found.state, found.receiving,
            found.reason) == (len(data), len(data), State.ARRIVED, False,
                              None)
    arrival = depot.receiver.finish(snapshot, result(data))
    assert arrival.path.read_bytes() == data
    assert (arrival.size, arrival.sha256) == (len(data), sha256)
    assert stat.S_IMODE(arrival.path.stat().st_mode) == 0o600
    assert depot.receiver.finish(snapshot, result(data)) == arrival
    depot.receiver.close(snapshot)
    assert depot.files() == []
    depot.receiver.close(snapshot)
    with pytest.raises(errors.UnknownTransfer):
        depot.progress(snapshot)


def test_curl_sends_one(depot, data, tmp_path):
    snapshot, ticket = depot.open()
    (tmp_path / 'data').write_bytes(data)
    (tmp_path / 'ca').write_text(ticket.ca)
    subprocess.run(
        ['curl', '--silent', '--show-error', '--fail', '--cacert',
         tmp_path / 'ca', '--user', f'{ticket.username}:{ticket.password}',
         '--upload-file', tmp_path / 'data', ticket.url], check=True,
        timeout=60)
    assert depot.receiver.finish(snapshot, result(data)).size == len(data)


def test_progress_while_it_comes(depot):
    snapshot, ticket = depot.open()
    line = begin(ticket, 10 * MIB)
    line.send(bytes(MIB // 2))
    wait_until(lambda: depot.progress(snapshot).bytes == MIB // 2, 30,
               'the first half mebibyte')
    found = depot.progress(snapshot)
    assert (found.total, found.receiving) == (10 * MIB, True)
    with pytest.raises(errors.NotArrived):
        depot.receiver.finish(snapshot, result(bytes(10 * MIB)))
    assert depot.files() == [f'{ticket.username}.part']
    line.close()


def test_two_at_once(depot, data):
    """One is taken; the other one hears that it has to wait."""
    snapshot, ticket = depot.open()
    line = begin(ticket, len(data))
    line.send(data[:-1])
    wait_until(lambda: depot.progress(snapshot).bytes, 30, 'a beginning')
    status, _, text = put(ticket, data)
    assert status == 409
    assert 'being received already' in text
    line.send(data[-1:])
    assert answer(line)[0] == 201
    depot.receiver.finish(snapshot, result(data))


def test_several_names_at_once(depot, data):
    opened = [depot.open() for _ in range(5)]
    answers = []
    threads = [threading.Thread(
        target=lambda one=one: answers.append(put(one[1], data)[0]))
        for one in opened]
    for one in threads:
        one.start()
    for one in threads:
        one.join(60)
    assert answers == [201] * 5
    for snapshot, _ in opened:
        depot.receiver.finish(snapshot, result(data))


def test_tampered_with(depot, data):
    snapshot, ticket = depot.open()
    assert put(ticket, data[:-1] + b'x')[0] == 201
    with pytest.raises(errors.Differs, match='SHA-256'):
        depot.receiver.finish(snapshot, result(data))


def test_nothing_replaces_what_is_verified(depot, data):
    snapshot, ticket = depot.open()
    put(ticket, data)
    arrival = depot.receiver.finish(snapshot, result(data))
    assert put(ticket, b'evil')[0] == 409
    assert request(ticket, 'DELETE')[0] == 409
    assert arrival.path.read_bytes() == data


def test_memory_stays(new_depot):
    """An upload costs the same whatever its size."""
    depot = new_depot(tls=False)
    snapshot, ticket = depot.open()
    piece = bytes(MIB)

    def peak():
        with open('/proc/self/status') as status:
            return next(int(line.split()[1]) for line in status
                        if line.startswith('VmRSS'))

    line = begin(ticket, 400 * MIB)
    for _ in range(20):
        line.send(piece)
    before = peak()
    for _ in range(379):
        line.send(piece)
    after = peak()
    line.send(piece)
    assert answer(line)[0] == 201
    assert after - before < 8 << 10
    depot.receiver.close(snapshot)
