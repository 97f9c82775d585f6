# SPDX-License-Identifier: Apache-2.0
"""A real receiver, disks, and a look at what an agent leaves behind."""

import contextlib
import os
import pathlib
import socket
import subprocess
import threading
import urllib.parse

import pytest

from stillframe.agent import disks
from stillframe.agent import orders
from stillframe.conductor.receiver import receiver as receiving
from stillframe.conf import CONF
from stillframe.db import base
from stillframe.db import migration

MIB = 1 << 20


@pytest.fixture
def receiver(tmp_path):
    """A receiver over TLS, with a database of its own."""
    base.configure(CONF)
    overrides = [('connection', f'sqlite:///{tmp_path}/db', 'database'),
                 ('path', str(tmp_path / 'transfers'), 'receiver'),
                 ('host', '127.0.0.1', 'receiver'),
                 ('min_free', 0, 'receiver')]
    for name, value, group in overrides:
        CONF.set_override(name, value, group)
    migration.upgrade()
    one = receiving.Receiver(CONF)
    one.start()
    yield one
    one.stop()
    base.dispose()
    for name, _value, group in overrides:
        CONF.clear_override(name, group)


class Sending:
    """A receiver, the disk to send to it, and the order to do so."""

    snapshot = '0f5ee0de-6f7e-4a5c-9b0c-6a6d5a4b3c2d'

    def __init__(self, receiver, path):
        self.receiver = receiver
        self.path = path
        self.disk = disks.Disk(str(path), path.stat().st_size)
        self.port = None

    def order(self, **more):
        """Open a transfer, and order what fits it."""
        ticket = self.receiver.open(self.snapshot)
        url = ticket.url
        if self.port:
            parts = urllib.parse.urlsplit(url)
            url = parts._replace(netloc=f'127.0.0.1:{self.port}').geturl()
        return orders.Order(**{
            'url': url, 'username': ticket.username,
            'password': ticket.password, 'ca': ticket.ca, 'timeout': 30.0,
            **more})

    def judge(self, result):
        """See that the image is the disk, by what the receiver has."""
        arrived = self.receiver.finish(self.snapshot, result.document())
        subprocess.run(
            ['qemu-img', 'compare', '-f', 'raw', '-F', result.disk_format,
             self.disk.name, arrived.path], check=True, capture_output=True)
        return arrived

    def has_nothing_whole(self):
        """Say whether the receiver would refuse to call it an image."""
        received = self.receiver.progress(self.snapshot)
        return received.state.value != 'arrived'


@pytest.fixture
def disk_file(tmp_path):
    """A disk of 96 MiB, a third of it data."""
    path = tmp_path / 'disk.raw'
    with path.open('wb') as file:
        file.truncate(96 * MIB)
        for at in (0, 40, 80):
            file.seek(at * MIB + 4096)
            file.write(os.urandom(11 * MIB))
    return path


@pytest.fixture
def sending(receiver, disk_file):
    return Sending(receiver, disk_file)


def _traces():
    """What a transfer may leave: mounts, folders, processes, pid files."""
    mounts = {line.split()[1] for line in
              pathlib.Path('/proc/self/mounts').read_text().splitlines()}
    folders = set(pathlib.Path('/run').glob('stillframe-*'))
    pids = set(pathlib.Path('/run/mount.davfs').glob('*.pid'))
    running = set()
    for process in pathlib.Path('/proc').glob('[0-9]*'):
        with contextlib.suppress(OSError):
            command = (process / 'cmdline').read_bytes()
            if b'/run/stillframe-' in command:
                running.add(command)
    return {str(one) for one in mounts | folders | pids | running
            if 'stillframe-' in str(one)}


@pytest.fixture
def nothing_left():
    """After the test there is nothing that was not there before."""
    before = _traces()
    yield
    assert not _traces() - before


class Stalling:
    """Passes connections on, and holds them after so many bytes.

    :ivar limit: bytes from the client that are passed on in all; None for
        no limit.
    :ivar stalled: set when the limit was reached.
    """

    def __init__(self, port, limit=None):
        self.limit = limit
        self.stalled = threading.Event()
        self._target = port
        self._passed = 0
        self._end = threading.Event()
        self._listener = socket.create_server(('127.0.0.1', 0))
        self.port = self._listener.getsockname()[1]
        self._sockets = [self._listener]
        self._threads = []
        self._start(self._accept)

    def _start(self, target, *args):
        thread = threading.Thread(target=target, args=args)
        self._threads.append(thread)
        thread.start()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                far = socket.create_connection(
                    ('127.0.0.1', self._target), 60)
                self._sockets += [near, far]
                self._start(self._pump, near, far, True)
                self._start(self._pump, far, near, False)

    def _pump(self, source, sink, counted):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if counted:
                    self._passed += len(data)
                    if self.limit and self._passed > self.limit:
                        self.stalled.set()
                        self._end.wait(120)
                        return
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)

    def close(self):
        self._end.set()
        for one in self._sockets:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        for thread in self._threads:
            thread.join(60)


@pytest.fixture
def stalling(sending):
    """Put a relay between agent and receiver that holds after 4 MiB."""
    ticket = sending.receiver.open(sending.snapshot)
    one = Stalling(urllib.parse.urlsplit(ticket.url).port, 4 * MIB)
    sending.port = one.port
    yield one
    one.close()
