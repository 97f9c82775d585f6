# SPDX-License-Identifier: Apache-2.0
"""The real nginx in front, with the configuration that we ship."""

import dataclasses
import getpass
import os
import pathlib
import subprocess
import time

import pytest

from stillframe.conductor.receiver import errors
from stillframe.states.transfers import State
from tests.integration.receiver.depot import answer
from tests.integration.receiver.depot import begin
from tests.integration.receiver.depot import put
from tests.integration.receiver.depot import request
from tests.integration.receiver.depot import result
from tests.lab.processes import Process
from tests.lab.processes import free_port
from tests.lab.processes import port_open
from tests.lab.processes import state_dir
from tests.lab.processes import wait_until

SHIPPED = (pathlib.Path(__file__).parents[3] / 'etc' / 'stillframe'
           / 'receiver-nginx.conf')
MIB = 1 << 20


@pytest.fixture
def site(new_depot):
    """A receiver behind nginx."""
    with state_dir('nginx') as path:
        ports = free_port(), free_port()
        subprocess.run(
            ['openssl', 'req', '-x509', '-newkey', 'ec', '-pkeyopt',
             'ec_paramgen_curve:P-256', '-nodes', '-subj', '/CN=site',
             '-addext', 'subjectAltName=IP:127.0.0.1', '-keyout',
             path / 'server.key', '-out', path / 'server.pem'], check=True,
            capture_output=True)
        text = SHIPPED.read_text()
        for ours, here in (
                ('user stillframe;', f'user {getpass.getuser()};'),
                ('/run/stillframe-receiver-nginx.pid', f'{path}/pid'),
                ('syslog:server=unix:/dev/log', f'{path}/error.log'),
                ('/etc/stillframe/receiver', str(path)),
                ('/var/lib/stillframe/transfers', f'{path}/transfers'),
                ('listen 8443', f'listen 127.0.0.1:{ports[0]}'),
                ('127.0.0.1:6390', f'127.0.0.1:{ports[1]}')):
            assert ours in text
            text = text.replace(ours, here)
        # What nginx needs besides, and has compiled in elsewhere.
        text = text.replace('http {', 'http {\n' + ''.join(
            f'    {kind}_temp_path {path}/{kind};\n'
            for kind in ('proxy', 'fastcgi', 'uwsgi', 'scgi')))
        (path / 'nginx.conf').write_text(text)
        depot = new_depot(
            path, web_server=True, tls=False, port=ports[1],
            public_url=f'https://127.0.0.1:{ports[0]}',
            ca=str(path / 'server.pem'))
        nginx = Process('nginx', ['nginx', '-c', path / 'nginx.conf', '-g',
                                  'daemon off;'], path / 'nginx.log')
        # It needs the folder, which is made with the first transfer.
        depot.receiver.close(depot.open()[0])
        nginx.start()
        try:
            nginx.wait_ready(lambda: port_open(ports[0]))
            yield depot
        finally:
            nginx.stop()


def left(depot):
    """Name what lies below the web server's folder."""
    web = depot.path / 'web'
    return sorted(str(one.relative_to(web)) for one in web.rglob('*'))


def progress(depot, snapshot):
    return depot.receiver.progress(snapshot)


@pytest.mark.parametrize('chunk', [None, 1 << 16])
@pytest.mark.parametrize('size', [3, 5 * MIB + 4321])
def test_an_image_arrives(site, chunk, size):
    data = os.urandom(size)
    snapshot, ticket = site.open()
    assert progress(site, snapshot).state is State.WAITING
    status, _, text = put(ticket, data, chunk)
    assert status == 201, text
    found = progress(site, snapshot)
    assert (found.bytes, found.state, found.receiving) == (
        size, State.ARRIVED, False)
    arrival = site.receiver.finish(snapshot, result(data))
    assert arrival.path.read_bytes() == data
    assert arrival.path.stat().st_mode & 0o777 == 0o600
    assert site.receiver.finish(snapshot, result(data)) == arrival
    assert put(ticket, data)[0] == 409
    site.receiver.close(snapshot)
    assert site.files() == []
    assert left(site) == ['incoming']
    assert put(ticket, data)[0] == 401


def test_progress_while_it_comes(site):
    """Of several at once, each its own."""
    opened = [site.open() for _ in range(3)]
    lines = []
    for number, (snapshot, ticket) in enumerate(opened, 1):
        line = begin(ticket, 20 * MIB)
        line.send(bytes(number * 3 * MIB))
        lines.append(line)
        wait_until(lambda one=snapshot: progress(site, one).bytes, 30,
                   'the first bytes')
    for number, (snapshot, _) in enumerate(opened, 1):
        # nginx keeps some of it in memory.
        wait_until(
            lambda one=snapshot, least=number * 3 - 2: progress(
                site, one).bytes >= least * MIB, 30, 'most of it')
        found = progress(site, snapshot)
        assert found.bytes <= number * 3 * MIB
        assert (found.total, found.receiving) == (20 * MIB, True)
    for line in lines:
        line.close()


def refused(ticket, length, **headers):
    line = begin(ticket, length, Expect='100-continue', **headers)
    file = line.sock.makefile('rb')
    head = file.peek(25)
    if head.startswith(b'HTTP/1.1 100'):
        # nginx invites also where it refuses.
        assert file.readline()
        assert file.readline() == b'\r\n'
    status = int(file.readline().split()[1])
    text = file.read().partition(b'\r\n\r\n')[2].decode()
    line.close()
    return status, text


def test_refused_before_the_first_byte(site):
    _, ticket = site.open()
    status, text = refused(ticket, 1 << 59)
    assert status == 413
    assert 'client_max_body_size' in text
    status, text = refused(ticket, 1 << 43)
    assert status == 507
    assert str(1 << 43) in text
    assert refused(ticket, None)[0] == 411
    assert left(site) == sorted(['incoming'] + [
        one.name for one in (site.path / 'web').iterdir()
        if one.name != 'incoming'])


def test_credentials(site):
    _, ticket = site.open()
    _, other = site.open()
    for wrong in ({'password': 'x'}, {'username': other.username},
                  {'username': ''}):
        assert put(dataclasses.replace(ticket, **wrong), b'abc')[0] == 401
    assert put(dataclasses.replace(ticket, url=other.url), b'abc')[0] == 400
    for path in ('/', '/authorize', '/transfers/', '/transfers/x',
                 f'/transfers/{ticket.username}/image',
                 '/transfers/../web/incoming'):
        assert request(ticket, 'GET', path)[0] == 404
    for method in ('GET', 'DELETE', 'MOVE', 'PROPFIND', 'MKCOL', 'COPY'):
        assert request(ticket, method)[0] in (400, 405)


def test_truncated(site):
    snapshot, ticket = site.open()
    line = begin(ticket, 20 * MIB)
    line.send(bytes(10 * MIB))
    wait_until(lambda: progress(site, snapshot).receiving, 30, 'a beginning')
    assert put(ticket, b'abc')[0] == 409
    line.close()
    wait_until(lambda: not progress(site, snapshot).receiving, 30, 'the end')
    assert 'broke off' in progress(site, snapshot).reason
    with pytest.raises(errors.NotArrived):
        site.receiver.finish(snapshot, result(bytes(20 * MIB)))
    assert put(ticket, b'abc')[0] == 201
    assert site.receiver.finish(snapshot, result(b'abc')).size == 3


def test_one_that_ends_after_its_transfer_leaves_nothing(site):
    snapshot, ticket = site.open()
    line = begin(ticket, 20 * MIB)
    line.send(bytes(10 * MIB))
    wait_until(lambda: progress(site, snapshot).receiving, 30, 'a beginning')
    site.receiver.close(snapshot)
    line.send(bytes(10 * MIB))
    assert answer(line)[0] >= 400
    assert left(site) == ['incoming']


def test_tampered_with(site):
    snapshot, ticket = site.open()
    assert put(ticket, b'abx')[0] == 201
    with pytest.raises(errors.Differs):
        site.receiver.finish(snapshot, result(b'abc'))


def test_another_one_replaces_it(site):
    snapshot, ticket = site.open()
    assert put(ticket, b'abc')[0] == 201
    assert put(ticket, b'abcd')[0] in (201, 204)
    assert site.receiver.finish(snapshot, result(b'abcd')).size == 4


def test_more_than_it_announced(site):
    snapshot, ticket = site.open()
    assert put(ticket, bytes(3 * MIB), MIB,
               X_Stillframe_Limit=str(MIB))[0] == 201
    with pytest.raises(errors.TooLarge):
        site.receiver.finish(snapshot, result(bytes(3 * MIB)))


def test_the_conductor_is_started_again(site):
    """What arrived while it was away is there."""
    snapshot, ticket = site.open()
    assert put(ticket, b'abc')[0] == 201
    site.receiver.stop()
    assert put(ticket, b'abc')[0] == 500
    (site.path / 'web' / ('0' * 32)).mkdir()
    site.__enter__()
    assert not (site.path / 'web' / ('0' * 32)).exists()
    assert site.receiver.finish(snapshot, result(b'abc')).size == 3


def test_what_a_killed_nginx_left_is_removed(site):
    incoming = site.path / 'web' / 'incoming'
    for name, age in (('0000000001', 7200), ('0000000002', 10)):
        (incoming / name).write_bytes(b'left')
        then = time.time() - age
        os.utime(incoming / name, (then, then))
    site.receiver.sweep()
    assert left(site) == ['incoming', 'incoming/0000000002']


def test_nothing_can_be_mounted(site):
    with pytest.raises(errors.CannotReceive, match='davfs'):
        site.receiver.open('x', 'davfs')
