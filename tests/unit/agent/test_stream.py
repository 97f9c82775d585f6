# SPDX-License-Identifier: Apache-2.0
"""Streams of files, judged by qemu-img; and servers that misbehave."""

import base64
import hashlib
import os
import socket
import ssl
import subprocess
import threading

import pytest

from stillframe.agent import apart
from stillframe.agent import compressing
from stillframe.agent import disks
from stillframe.agent import failures
from stillframe.agent import orders
from stillframe.agent import source
from stillframe.agent import stream
from stillframe.agent import zstd
from tests.lab import taker

MIB = 1 << 20


@pytest.fixture
def disk(tmp_path):
    """A disk of 40 MiB with data here and there."""
    path = tmp_path / 'disk.raw'
    with path.open('wb') as file:
        file.truncate(40 * MIB + 512)
        for offset, length in ((0, 70000), (5 * MIB + 77, 3 * MIB),
                               (40 * MIB, 512)):
            file.seek(offset)
            file.write(os.urandom(length))
    return disks.Disk(str(path), path.stat().st_size)


@pytest.fixture
def server(tmp_path):
    with taker.Taker(tmp_path / 'received') as running:
        yield running


def send(server, disk, progress=None, **more):
    order = orders.Order(url=server.url, username='one', password='secret',
                         **{'timeout': 20.0, **more})
    return stream.Stream(order, progress).run(disk)


def judge(disk, path):
    subprocess.run(['qemu-img', 'check', '-f', 'qcow2', path], check=True,
                   capture_output=True)
    subprocess.run(['qemu-img', 'compare', '-f', 'raw', '-F', 'qcow2',
                    disk.name, path], check=True, capture_output=True)


def test_plain_qcow2(server, disk):
    told = []
    result = send(server, disk, lambda *both: told.append(both))
    judge(disk, server.path)
    size = server.path.stat().st_size
    assert server.headers['content-length'] == str(size)
    assert server.request == 'PUT /transfers/image HTTP/1.1'
    # one:secret
    assert server.headers['authorization'] == 'Basic b25lOnNlY3JldA=='
    assert told[-1] == (size, size)
    document = result.document()
    assert document['size'] == size
    assert document['sha256'] == server.digest == hashlib.sha256(
        server.path.read_bytes()).hexdigest()
    assert document['virtual_size'] == disk.size
    assert document['patch'] is None
    assert document['read_errors'] == []
    # 2 + 49 + 1 clusters hold data, the last of them a sector.
    assert document['zero_bytes'] == disk.size - (51 * 65536 + 512)


def test_compressed_qcow2(server, disk):
    told = []
    result = send(server, disk, lambda *both: told.append(both),
                  compress='zstd')
    assert 'content-length' not in server.headers
    # The digest is of what was sent, before the header is in its place.
    content = server.path.read_bytes()
    assert result.sha256 == server.digest == hashlib.sha256(
        content).hexdigest()
    assert result.size == len(content)
    assert content[:65536] == bytes(65536)
    assert int(server.headers['x-stillframe-limit']) >= len(content)
    assert told[-1] == (len(content), None)
    assert result.patch['offset'] == 0
    with server.path.open('r+b') as file:
        file.write(base64.b64decode(result.patch['data']))
    judge(disk, server.path)
    assert result.zero_bytes == disk.size - (51 * 65536 + 512)


def test_raw(server, disk):
    result = send(server, disk, disk_format='raw')
    with open(disk.name, 'rb') as file:
        assert server.path.read_bytes() == file.read()
    assert result.size == disk.size


@pytest.mark.parametrize('manners, says', [
    ({'at_once': True, 'answer': 401}, 'HTTP 401'),
    ({'at_once': True, 'answer': 507}, 'HTTP 507'),
    ({'answer': 507, 'reason': 'no\nroom'}, 'HTTP 507: no room'),
    ({'answer_after': MIB, 'answer': 507, 'reason': 'full'},
     'HTTP 507: full|broke off after'),
    ({'cut_after': MIB}, 'broke off after'),
    ({'answer': None}, 'broke off after'),
])
@pytest.mark.parametrize('asks', [True, False])
def test_refusals(server, disk, manners, says, asks):
    server.manners = taker.Manners(asks=asks, **manners)
    with pytest.raises(failures.SendFailed, match=says) as caught:
        send(server, disk)
    assert 'secret' not in str(caught.value)


def test_nobody_listens(server, disk):
    with pytest.raises(failures.SendFailed, match='cannot be reached'):
        stream.Stream(orders.Order('http://127.0.0.1:1/x')).run(disk)


def test_silence(server, tmp_path):
    server.manners = taker.Manners(stall_after=1)
    with pytest.raises(failures.SendFailed, match='took nothing for 0.5 s'):
        send(server, _large(tmp_path), timeout=0.5, disk_format='raw')


def test_stop_of_a_stream_that_hangs(server, tmp_path):
    server.manners = taker.Manners(stall_after=1)
    order = orders.Order(server.url, timeout=100.0, disk_format='raw')
    running = stream.Stream(order)
    caught = []

    def run():
        try:
            running.run(_large(tmp_path))
        except failures.Stopped as exc:
            caught.append(exc)

    thread = threading.Thread(target=run)
    thread.start()
    assert server.stalled.wait(20)
    running.stop()
    thread.join(20)
    assert caught


@pytest.fixture(scope='module')
def certificates(tmp_path_factory):
    """Two certificates that sign themselves: files with their keys."""
    folder = tmp_path_factory.mktemp('tls')
    for name in ('one', 'other'):
        subprocess.run(
            ['openssl', 'req', '-x509', '-newkey', 'ec', '-pkeyopt',
             'ec_paramgen_curve:P-256', '-nodes', '-days', '2', '-subj',
             f'/CN={name}', '-addext', 'subjectAltName=IP:127.0.0.1',
             '-keyout', folder / f'{name}.key', '-out',
             folder / f'{name}.pem'], check=True, capture_output=True)
    return folder


@pytest.fixture
def tls_server(tmp_path, certificates):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates / 'one.pem',
                            certificates / 'one.key')
    with taker.Taker(tmp_path / 'received', tls=context) as running:
        yield running


@pytest.mark.parametrize('way', [{}, {'compress': 'zstd'}])
def test_tls(tls_server, certificates, disk, way):
    result = send(tls_server, disk, **way,
                  ca=(certificates / 'one.pem').read_text())
    assert result.sha256 == tls_server.digest


@pytest.mark.parametrize('ca', ['other.pem', None])
def test_a_certificate_that_is_not_trusted(tls_server, certificates, disk,
                                           ca):
    ca = ca and (certificates / ca).read_text()
    with pytest.raises(failures.SendFailed, match='not trusted'):
        send(tls_server, disk, ca=ca)
    assert not tls_server.request


@pytest.mark.parametrize('ca', ['', 'nonsense', '-----BEGIN CERTIFICATE-'])
def test_a_ca_that_is_none(tls_server, disk, ca):
    with pytest.raises(failures.BadOrder, match='holds no certificate'):
        send(tls_server, disk, ca=ca)


def test_tls_refused_in_the_middle(tls_server, certificates, tmp_path):
    tls_server.manners = taker.Manners(answer_after=MIB, answer=507,
                                       reason='full')
    with pytest.raises(failures.SendFailed, match='full|broke off'):
        send(tls_server, _large(tmp_path), disk_format='raw',
             ca=(certificates / 'one.pem').read_text())


def test_stop_while_hands_are_shaken(tmp_path, disk, certificates):
    """With somebody who accepts connections, and is silent."""
    with socket.create_server(('127.0.0.1', 0)) as silent:
        order = orders.Order(
            f'https://127.0.0.1:{silent.getsockname()[1]}/x', timeout=100.0,
            ca=(certificates / 'one.pem').read_text())
        running = stream.Stream(order)
        caught = []

        def run():
            try:
                running.run(disk)
            except failures.Stopped as exc:
                caught.append(exc)

        thread = threading.Thread(target=run)
        thread.start()
        silent.settimeout(20)
        with silent.accept()[0] as near:
            # The first of the handshake is here.
            near.settimeout(20)
            assert near.recv(1)
            running.stop()
            thread.join(20)
    assert caught


def test_bandwidth(server, disk):
    result = send(server, disk, bandwidth=2 * MIB)
    assert result.size > 3 * MIB
    assert result.duration > (result.size - MIB) / (2 * MIB)


@pytest.fixture
def hanging(monkeypatch):
    """Have reads from 7 MiB on hang; give events: one does, they go on."""
    hangs, goes_on = threading.Event(), threading.Event()
    real = os.preadv

    def hang(handle, views, offset):
        if offset >= 7 * MIB:
            hangs.set()
            goes_on.wait(60)
        return real(handle, views, offset)

    monkeypatch.setattr(os, 'preadv', hang)
    yield hangs, goes_on
    goes_on.set()


def test_compressing_does_not_wait_for_a_disk_that_hangs(
        disk, hanging, monkeypatch):
    hangs, goes_on = hanging
    monkeypatch.setattr(source, 'LAST_READ', 0.01)
    with source.Source(disk.name) as opened:
        pieces = compressing.pieces(
            zstd.load(), opened, ((at * MIB, MIB) for at in range(40)))
        assert next(pieces).length == MIB
        for _ in range(4):
            # Those behind are begun meanwhile.
            next(pieces)
        assert hangs.wait(20)
        closing = threading.Thread(target=pieces.close)
        closing.start()
        closing.join(20)
        ended = not closing.is_alive()
        left = [one for one in threading.enumerate()
                if one.name.startswith('compress')]
        goes_on.set()
        closing.join(20)
        for one in left:
            one.join(20)
    assert ended
    assert left
    # The process would wait for any other at its end.
    assert all(one.daemon for one in left)


@pytest.mark.parametrize('way', [
    {}, {'compress': 'zstd'}, {'disk_format': 'raw'}])
def test_stop_while_the_disk_hangs(server, disk, hanging, monkeypatch, way):
    hangs, goes_on = hanging
    monkeypatch.setattr(apart, '_LAST_MOMENT', 0.01)
    running = stream.Stream(orders.Order(server.url, **way))
    caught = []

    def run():
        try:
            running.run(disk)
        except failures.Stopped as exc:
            caught.append(exc)

    thread = threading.Thread(target=run)
    thread.start()
    assert hangs.wait(20)
    running.stop()
    thread.join(20)
    ended = not thread.is_alive()
    goes_on.set()
    assert ended
    assert caught


def test_stop_before_it_begins(server, disk):
    running = stream.Stream(orders.Order(server.url))
    running.stop()
    with pytest.raises(failures.Stopped):
        running.run(disk)
    assert not server.request


def _large(tmp_path):
    """A disk that no socket's buffers can swallow."""
    path = tmp_path / 'large.raw'
    with path.open('wb') as file:
        file.truncate(64 * MIB)
    return disks.Disk(str(path), 64 * MIB)
