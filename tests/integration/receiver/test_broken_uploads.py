# SPDX-License-Identifier: Apache-2.0
"""Uploads that break off leave nothing."""

import contextlib
import socket
import struct
import time

import pytest

from stillframe.conductor.receiver import errors
from stillframe.conductor.receiver import storing
from stillframe.states.transfers import State
from tests.integration.receiver.depot import answer
from tests.integration.receiver.depot import begin
from tests.integration.receiver.depot import put
from tests.integration.receiver.depot import request
from tests.integration.receiver.depot import result
from tests.lab.processes import wait_until

MIB = 1 << 20


def nothing_left(depot, snapshot):
    wait_until(lambda: not depot.progress(snapshot).receiving, 30,
               'the upload to end')
    found = depot.progress(snapshot)
    assert (found.bytes, found.state) == (0, State.WAITING)
    assert depot.files() == []
    return found.reason


def reset(line):
    """End a connection by RST."""
    line.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                         struct.pack('ii', 1, 0))
    line.sock.close()


@pytest.mark.parametrize('how', ['reset', 'close', 'half'])
@pytest.mark.parametrize('chunked', [False, True])
@pytest.mark.parametrize('tls', [False, True])
def test_truncated(new_depot, how, chunked, tls):
    depot = new_depot(tls=tls)
    snapshot, ticket = depot.open()
    if chunked:
        line = begin(ticket, X_Stillframe_Limit=str(9 * MIB))
        line.send(b'%x\r\n' % MIB + bytes(MIB) + b'\r\n')
    else:
        line = begin(ticket, 9 * MIB)
        line.send(bytes(MIB))
    wait_until(lambda: depot.progress(snapshot).bytes == MIB, 30,
               'all of the beginning')
    if how == 'reset':
        reset(line)
    elif how == 'close':
        line.close()
    else:
        socket.socket.shutdown(line.sock, socket.SHUT_WR)
        with contextlib.suppress(OSError):
            assert answer(line)[0] == 400
    reason = nothing_left(depot, snapshot)
    assert f'broke off after {MIB} bytes' in reason
    assert request(ticket, 'GET')[0] == 404
    with pytest.raises(errors.NotArrived, match='broke off'):
        depot.receiver.finish(snapshot, result(bytes(9 * MIB)))
    # The agent may begin again.
    assert put(ticket, b'abc')[0] == 201
    line.close()


def test_the_old_one_is_gone_when_a_new_one_breaks_off(depot, data):
    snapshot, ticket = depot.open()
    assert put(ticket, data)[0] == 201
    line = begin(ticket, 9 * MIB)
    line.send(bytes(MIB))
    reset(line)
    wait_until(lambda: depot.progress(snapshot).reason, 30, 'the end')
    nothing_left(depot, snapshot)
    assert put(ticket, data)[0] == 201
    assert put(ticket, data)[0] == 204


def test_it_fills_up_in_the_middle(small_store, new_depot, monkeypatch):
    """Somebody else writes there too."""
    monkeypatch.setattr(storing.Incoming, 'allocate',
                        lambda self, size: None)
    depot = new_depot(small_store, compressed_share=0.1)
    snapshot, ticket = depot.open()
    status, _, text = put(ticket, bytes(80 * MIB), MIB)
    assert status == 507
    assert 'no room' in nothing_left(depot, snapshot)
    assert put(ticket, b'abc')[0] == 201


def test_silence(new_depot):
    depot = new_depot(silence_timeout=1.0)
    snapshot, ticket = depot.open()
    line = begin(ticket, 9 * MIB)
    line.send(bytes(MIB))
    assert answer(line)[0] == 400
    assert 'silent for too long' in nothing_left(depot, snapshot)


@pytest.mark.parametrize('sent', [
    b'x\r\n', b'5\r\nabcdefgh\r\n0\r\n\r\n', b'FFFFFFFFFFFFFFFFFFFF\r\n'])
def test_malformed_chunks(depot, sent):
    snapshot, ticket = depot.open()
    line = begin(ticket, X_Stillframe_Limit='1000')
    line.send(sent)
    assert answer(line)[0] == 400
    assert 'malformed' in nothing_left(depot, snapshot)


def test_more_than_the_limit_that_it_gave(depot):
    snapshot, ticket = depot.open()
    status, _, text = put(ticket, bytes(3 * MIB), MIB,
                          X_Stillframe_Limit=str(2 * MIB))
    assert status == 413, text
    nothing_left(depot, snapshot)


def test_closing_cuts_an_upload(depot):
    snapshot, ticket = depot.open()
    line = begin(ticket, 9 * MIB)
    line.send(bytes(MIB))
    wait_until(lambda: depot.progress(snapshot).bytes, 30, 'a beginning')
    begun = time.monotonic()
    depot.receiver.close(snapshot)
    assert time.monotonic() - begun < 10
    assert depot.files() == []
    with pytest.raises(OSError):
        while True:
            line.send(bytes(MIB))
    line.close()


def test_a_machine_that_is_gone_does_not_block_its_successor(depot, data):
    """No FIN, no RST: the agent was reset, and begins again."""
    snapshot, ticket = depot.open()
    line = begin(ticket, len(data))
    line.send(data[:1000])
    wait_until(lambda: depot.progress(snapshot).bytes, 30, 'a beginning')

    def again():
        return put(ticket, data)[0] != 409

    wait_until(again, 30, 'the successor to be taken', 0.5)
    depot.receiver.finish(snapshot, result(data))
    line.close()
