# SPDX-License-Identifier: Apache-2.0
"""Clients that do not want anything good keep nobody out."""

import contextlib
import dataclasses
import socket
import ssl
import time
import urllib.parse

import pytest

from tests.integration.receiver import depot as depots
from tests.integration.receiver.depot import answer
from tests.integration.receiver.depot import begin
from tests.integration.receiver.depot import put
from tests.lab.processes import wait_until

MIB = 1 << 20


def sockets(ticket, count):
    url = urllib.parse.urlsplit(ticket.url)
    return [socket.create_connection((url.hostname, url.port), 10)
            for _ in range(count)]


@pytest.mark.parametrize('tls', [False, True])
def test_many_that_say_nothing_keep_nobody_out(new_depot, data, tls):
    depot = new_depot(connections=8, tls=tls)
    snapshot, ticket = depot.open()
    line = begin(ticket, len(data))
    line.send(data[:MIB])
    wait_until(lambda: depot.progress(snapshot).bytes, 30, 'a beginning')
    idle = sockets(ticket, 60)
    for one in idle[:30]:
        with contextlib.suppress(OSError):
            one.sendall(b'PUT /transfers/')
    other, second = depot.open()
    assert put(second, data)[0] == 201
    line.send(data[MIB:])
    assert answer(line)[0] == 201
    for one in idle:
        one.close()


def test_a_slow_head_is_cut_off(new_depot):
    depot = new_depot(request_timeout=1.0, tls=False)
    _, ticket = depot.open()
    slow, = sockets(ticket, 1)
    slow.settimeout(0.2)
    begun = time.monotonic()
    with pytest.raises(OSError):
        for byte in endless_head():
            slow.sendall(byte)
            with contextlib.suppress(TimeoutError):
                if not slow.recv(100):
                    raise ConnectionError
    assert time.monotonic() - begun < 20
    slow.close()


def endless_head():
    """Give the bytes of a head that never ends."""
    yield from (bytes([one]) for one in b'PUT / HTTP/1.1\r\nX-A: ')
    while True:
        yield b'a'


def test_a_handshake_that_does_not_come_blocks_nobody(new_depot, data):
    depot = new_depot(connections=4)
    _, ticket = depot.open()
    idle = sockets(ticket, 2)
    idle[0].sendall(b'\x16\x03\x01')
    begun = time.monotonic()
    assert put(ticket, data)[0] == 201
    assert time.monotonic() - begun < 15
    for one in idle:
        one.close()


def test_plain_http_is_not_spoken_where_tls_is(depot):
    _, ticket = depot.open()
    plain = dataclasses.replace(
        ticket, url=ticket.url.replace('https', 'http'))
    with pytest.raises((OSError, depots.http.client.HTTPException)):
        put(plain, b'abc')
    with pytest.raises(ssl.SSLCertVerificationError):
        context = ssl.create_default_context()
        one, = sockets(ticket, 1)
        context.wrap_socket(one, server_hostname='127.0.0.1')
