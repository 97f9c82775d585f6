# SPDX-License-Identifier: Apache-2.0
"""Reading exports of qemu-nbd, and of servers that break the protocol."""

import contextlib
import gc
import os
import pathlib
import select
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import time

import pytest

from stillframe.nbd import client
from stillframe.nbd import protocol
from stillframe.nbd import reading
from tests.lab.processes import wait_until

MIB = 1 << 20


@pytest.fixture
def room():
    """A folder with a short path: UNIX sockets allow 107 bytes."""
    path = tempfile.mkdtemp(prefix='sf-nbd-')
    yield pathlib.Path(path)
    shutil.rmtree(path)


@contextlib.contextmanager
def served(room: pathlib.Path, disk: pathlib.Path, form: str = 'raw'):
    """Export a disk by qemu-nbd while the block runs."""
    path, pid = room / 's', room / 'pid'
    subprocess.run(
        ['qemu-nbd', '-f', form, '-k', path, '-x', 'vda', '-r', '-t',
         '--fork', '--pid-file', pid, disk], check=True)
    number = int(pid.read_text())
    process = os.pidfd_open(number)
    try:
        yield str(path), number
    finally:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(process, signal.SIGTERM)
        # It removes its files itself.
        assert select.select([process], [], [], 10)[0]
        os.close(process)


def make_disk(path: pathlib.Path, size: int, extents) -> bytes:
    content = bytearray(size)
    with path.open('wb') as stream:
        stream.truncate(size)
        for offset, length in extents:
            content[offset:offset + length] = os.urandom(length)
            stream.seek(offset)
            stream.write(content[offset:offset + length])
    return bytes(content)


EXTENTS = [(0, 4096), (MIB, 3 * MIB + 512), (9 * MIB - 1024, 1024)]


@pytest.mark.parametrize('in_flight', (1, 3, 16))
def test_reads_what_the_disk_holds(room, in_flight):
    content = make_disk(room / 'disk', 9 * MIB, EXTENTS)
    pieces = [(offset, min(300 * 512, 9 * MIB - offset))
              for offset in range(0, 9 * MIB, 300 * 512)]
    with served(room, room / 'disk') as (path, _), client.Export(
            path, 'vda', 10) as export:
        assert export.size == 9 * MIB
        data = b''.join(bytes(view) for view in
                        export.read(iter(pieces), in_flight))
    assert data == content


@pytest.mark.parametrize('kept', (0, 2))
def test_pieces_stay_good_while_others_are_taken(room, kept):
    content = make_disk(room / 'disk', 4 * MIB, [(0, 4 * MIB)])
    pieces = [(offset, 65536) for offset in range(0, 4 * MIB, 65536)]
    with served(room, room / 'disk') as (path, _), client.Export(
            path, 'vda', 10) as export:
        seen = []
        for view in export.read(iter(pieces), 2, kept):
            seen.append(view)
            last = len(seen) - 1
            for number in range(max(0, last - kept), last + 1):
                offset = pieces[number][0]
                assert seen[number] == content[offset:offset + 65536]
        # They are used again, or memory would have no bound.
        assert len({id(view.obj) for view in seen}) <= 2 + kept + 1


@pytest.mark.parametrize('form', ('raw', 'qcow2'))
def test_tells_what_is_allocated(room, form):
    content = make_disk(room / 'raw', 9 * MIB, EXTENTS)
    subprocess.run(['qemu-img', 'convert', '-f', 'raw', '-O', form,
                    room / 'raw', room / 'disk'], check=True)
    with served(room, room / 'disk', form) as (path, _), client.Export(
            path, 'vda', 10) as export:
        ranges = list(export.allocated())
        data = bytearray(9 * MIB)
        for (offset, length), view in zip(
                ranges, export.read(ranges), strict=True):
            data[offset:offset + length] = view
    assert bytes(data) == content
    assert sum(length for _, length in ranges) < 5 * MIB


def test_a_large_hole_is_told_in_parts(room):
    make_disk(room / 'disk', MIB, [(0, 512)])
    os.truncate(room / 'disk', (5 << 30) + 512)
    with served(room, room / 'disk') as (path, _), client.Export(
            path, 'vda', 10) as export:
        ranges = list(export.allocated())
    assert ranges[0][0] == 0
    assert sum(length for _, length in ranges) <= 65536


def test_an_unknown_export_is_refused(room):
    make_disk(room / 'disk', MIB, [])
    with served(room, room / 'disk') as (path, _), pytest.raises(
            client.NBDError, match="'vdb'.*refused"):
        client.Export(path, 'vdb', 10)


def test_nobody_listens(room):
    with pytest.raises(client.NBDError, match='No such file'):
        client.Export(str(room / 'none'), 'vda', 10)


@pytest.mark.parametrize('piece', ((0, 0), (-1, 512), (MIB, 512),
                                   (0, 33 * MIB)))
def test_reads_outside_the_disk_are_refused(room, piece):
    make_disk(room / 'disk', MIB, [])
    with served(room, room / 'disk') as (path, _), client.Export(
            path, 'vda', 10) as export, pytest.raises(ValueError):
        list(export.read([piece]))


def test_the_server_dies_while_it_is_read(room):
    make_disk(room / 'disk', 64 * MIB, [(0, 64 * MIB)])
    with served(room, room / 'disk') as (path, pid), client.Export(
            path, 'vda', 10) as export:
        reads = export.read(
            (offset, MIB) for offset in range(0, 64 * MIB, MIB))
        next(reads)
        os.kill(pid, 9)
        with pytest.raises(client.NBDError, match='vda'):
            list(reads)


def test_answers_are_taken_while_nobody_uses_them(room):
    """The server is rid of every answer, and is asked for no more."""
    asked = []

    def pieces():
        for offset in range(0, 64 * MIB, MIB):
            asked.append(offset)
            yield offset, MIB

    content = make_disk(room / 'disk', 64 * MIB, [(0, 64 * MIB)])
    with served(room, room / 'disk') as (path, pid), client.Export(
            path, 'vda', 0.3) as export:
        reads = export.read(pieces(), 3, 2)
        first = next(reads)
        wait_until(lambda: len(asked) == 6, 10, 'the last to be asked for')
        wait_until(lambda: unread(path) == [0], 10, 'all to be taken')
        # Longer than an answer may take: here nobody waits for one.
        time.sleep(0.5)
        assert len(asked) == 6
        assert bytes(first) == content[:MIB]
        assert b''.join(bytes(view) for view in reads) == content[MIB:]


def unread(path):
    """Give the bytes that clients did not take of a server, by client."""
    found = subprocess.run(
        ['ss', '--no-header', '--unix', '--all', 'src', path], check=True,
        capture_output=True, text=True).stdout
    # Their columns: Netid, State, Recv-Q, Send-Q and more.
    return [int(line.split()[3]) for line in found.splitlines()
            if line.split()[1] == 'ESTAB']


def test_answers_are_not_kept_waiting_by_an_error(room):
    """Nobody will take what was asked for; the server is let go."""
    def pieces():
        yield 0, MIB
        raise OSError('no more')

    make_disk(room / 'disk', MIB, [(0, MIB)])
    with served(room, room / 'disk') as (path, _), client.Export(
            path, 'vda', 60) as export:
        with pytest.raises(OSError, match='^no more$'):
            next(export.read(pieces()))
        wait_until(lambda: not unread(path), 10, 'the server to be let go')


def test_an_error_keeps_no_buffers(room):
    make_disk(room / 'disk', MIB, [(0, MIB)])
    with served(room, room / 'disk') as (path, _):
        gc.collect()
        gc.disable()
        try:
            fail(path)
            assert not [one for one in gc.get_objects()
                        if isinstance(one, reading.Reader)]
        finally:
            gc.enable()


def fail(path):
    """Have a read refused, and give one up; keep no error."""
    with client.Export(path, 'vda', 60) as export:
        try:
            list(export.read([(0, 512), (MIB, 512)]))
        except ValueError:
            pass
        else:
            raise AssertionError('the second piece was read')
    with client.Export(path, 'vda', 60) as export:
        reads = export.read([(0, 512)] * 99)
        next(reads)
        reads.close()


def test_as_many_extents_as_qemu_tells_of(room):
    """A sparse raw file can have more of them than one answer holds."""
    page, count = 4096, (1 << 16) + 64
    with (room / 'disk').open('wb', buffering=0) as file:
        file.truncate(1 << 30)
        for index in range(count):
            os.pwrite(file.fileno(), b'x' * page, 2 * index * page)
    with served(room, room / 'disk') as (path, _), client.Export(
            path, 'vda', 60) as export:
        assert list(export.allocated()) == [
            (2 * index * page, page) for index in range(count)]


@pytest.mark.parametrize('taken', (0, 1, 5))
def test_a_read_that_is_given_up_leaves_no_thread(room, taken):
    make_disk(room / 'disk', 64 * MIB, [(0, 64 * MIB)])
    with served(room, room / 'disk') as (path, pid), client.Export(
            path, 'vda', 60) as export:
        reads = export.read(
            (offset, MIB) for offset in range(0, 64 * MIB, MIB))
        for _ in range(taken):
            next(reads)
        os.kill(pid, 19)
        try:
            begin = time.monotonic()
            export.close()
            assert time.monotonic() - begin < 5
        finally:
            os.kill(pid, 18)
        assert 'nbd-reader' not in [
            thread.name for thread in threading.enumerate()]


def test_what_pieces_raise_is_raised(room):
    def pieces():
        yield 0, 512
        raise OSError('no more')

    make_disk(room / 'disk', MIB, [(0, MIB)])
    with served(room, room / 'disk') as (path, _), client.Export(
            path, 'vda', 60) as export, pytest.raises(
                OSError, match='^no more$'):
        list(export.read(pieces()))


def test_silence_ends_a_read(room):
    make_disk(room / 'disk', MIB, [(0, MIB)])
    with served(room, room / 'disk') as (path, pid), client.Export(
            path, 'vda', 0.5) as export:
        os.kill(pid, 19)
        try:
            with pytest.raises(client.NBDError, match='timed out'):
                list(export.read([(0, 512)]))
        finally:
            os.kill(pid, 18)


# -- a server that breaks the protocol -------------------------------------

def _reply(kind: int, data: bytes = b'') -> bytes:
    return protocol.OPTION_REPLY.pack(
        protocol.OPTION_REPLY_MAGIC, 0, kind, len(data)) + data


ACK = _reply(protocol.REP_ACK)
CONTEXT = _reply(protocol.REP_META_CONTEXT,
                 struct.pack('>I', 7) + protocol.BASE_ALLOCATION)
INFO = _reply(protocol.REP_INFO, struct.pack('>HQH', 0, MIB, 0))
GREETING = protocol.GREETING.pack(b'NBDMAGIC', b'IHAVEOPT', 3)
GOOD = GREETING + ACK + CONTEXT + ACK + INFO + ACK


def chunk(kind: int, data: bytes, cookie: int = 1, done: bool = True,
          ) -> bytes:
    return protocol.MAGIC.pack(
        protocol.STRUCTURED_REPLY_MAGIC) + protocol.STRUCTURED_REPLY.pack(
            int(done), kind, cookie, len(data)) + data


@contextlib.contextmanager
def scripted(room: pathlib.Path, answer: bytes):
    """A server that sends one fixed answer, then says nothing more."""
    path = str(room / 'fake')
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(1)

    def serve() -> None:
        peer, _ = listener.accept()
        with peer, contextlib.suppress(ConnectionError):
            peer.sendall(answer)
            while peer.recv(65536):
                pass

    thread = threading.Thread(target=serve, name='scripted-nbd')
    thread.start()
    try:
        yield path
    finally:
        thread.join()
        listener.close()


@pytest.mark.parametrize('answer, message', (
    (b'HTTP/1.1 400 Bad request', 'no NBD server'),
    (GREETING[:-1] + b'\0', 'no options'),
    (GREETING + _reply(1 << 31 | 2, b'not here'), 'not here'),
    (GREETING + INFO, 'not asked for'),
    (GREETING + ACK + ACK, 'what is allocated'),
    (GREETING + ACK + CONTEXT + ACK + ACK, 'empty'),
    (GREETING + bytes(20), 'garbled'),
    (GREETING + protocol.OPTION_REPLY.pack(
        protocol.OPTION_REPLY_MAGIC, 0, 1, 1 << 30), 'garbled'),
))
def test_a_garbled_handshake(room, answer, message):
    with scripted(room, answer) as path, pytest.raises(
            client.NBDError, match=message):
        client.Export(path, 'vda', 1)


@pytest.mark.parametrize('answer, message', (
    # Less than was asked: what the buffer held before must not pass.
    (chunk(1, bytes(8) + b'x' * 500), '12 bytes'),
    (chunk(0, b''), '512 bytes'),
    (chunk(1, bytes(8) + b'x' * 513), 'not asked for'),
    # Half of it twice, and the other half never.
    (2 * chunk(1, bytes(8) + b'x' * 256, done=False), 'came twice'),
    (chunk(1, struct.pack('>Q', 256) + b'x' * 256, done=False)
     + chunk(2, struct.pack('>QI', 100, 200)), 'came twice'),
    (chunk(1, bytes(8) + b'x' * 300, done=False)
     + chunk(1, struct.pack('>Q', 299) + b'x' * 213), 'came twice'),
    (chunk(1, struct.pack('>Q', 512) + b'x' * 512), 'not asked for'),
    (chunk(2, struct.pack('>QI', 0, 1024)), 'not asked for'),
    (chunk(1, bytes(8) + b'x' * 512, cookie=9), 'not asked for'),
    (chunk(1, b'x'), '512 bytes'),
    (chunk(32769, b'x'), 'garbled'),
    (chunk(32769, struct.pack('>IH', 5, 3) + b'bad'), 'EIO bad'),
    (protocol.MAGIC.pack(protocol.SIMPLE_REPLY_MAGIC) + bytes(20),
     'garbled'),
    (chunk(1, bytes(8) + b'x' * 256, done=False), 'timed out'),
))
def test_garbled_reads(room, answer, message):
    with scripted(room, GOOD + answer) as path, client.Export(
            path, 'vda', 0.5) as export, pytest.raises(
                client.NBDError, match=message):
        list(export.read([(0, 512)]))


def test_chunks_in_any_order(room):
    answer = (
        chunk(1, struct.pack('>Q', 512) + b'c' * 512, cookie=2, done=False)
        + chunk(2, struct.pack('>QI', 256, 256), done=False)
        + chunk(1, struct.pack('>Q', 0) + b'a' * 256, done=False)
        + chunk(0, b'', cookie=2) + chunk(0, b'', cookie=1))
    with scripted(room, GOOD + answer) as path, client.Export(
            path, 'vda', 5) as export:
        data = [bytes(view) for view in
                export.read([(0, 512), (512, 512)], 2)]
    assert data == [b'a' * 256 + bytes(256), b'c' * 512]


@pytest.mark.parametrize('answer', (
    chunk(0, b''), chunk(5, struct.pack('>I', 7)),
    chunk(5, struct.pack('>III', 7, 0, 0)),
    chunk(5, struct.pack('>III', 7, 512, 0), cookie=3)))
def test_garbled_status(room, answer):
    with scripted(room, GOOD + answer) as path, client.Export(
            path, 'vda', 5) as export, pytest.raises(client.NBDError):
        list(export.allocated())
