# SPDX-License-Identifier: Apache-2.0
"""What WebDAV clients do: by hand, and by davfs2."""

import contextlib
import os
import re
import subprocess
import urllib.parse

import pytest

from stillframe.states.transfers import State
from tests.integration.receiver.depot import authorization
from tests.integration.receiver.depot import connect
from tests.integration.receiver.depot import put
from tests.integration.receiver.depot import request
from tests.integration.receiver.depot import result
from tests.lab import fuse
from tests.lab.processes import state_dir
from tests.lab.processes import wait_until

LOCK = (b'<?xml version="1.0"?><lockinfo xmlns="DAV:"><lockscope><exclusive/>'
        b'</lockscope><locktype><write/></locktype></lockinfo>')


def sizes(ticket, depth='1'):
    """What a client sees in the folder: sizes by address."""
    status, _, text = request(ticket, 'PROPFIND', '/transfers/', Depth=depth)
    assert status == 207
    found = re.findall(rb'href>([^<]+)<.*?(?:getcontentlength>(\d+)<|'
                       rb'collection)', text, re.DOTALL)
    return {name.decode(): int(size) if size else None
            for name, size in found}


def test_a_client_sees_its_own_image_alone(depot):
    _, ticket = depot.open()
    _, other = depot.open()
    put(other, b'abcdef')
    assert sizes(ticket) == {'/transfers/': None}
    put(ticket, b'abc')
    path = urllib.parse.urlsplit(ticket.url).path
    assert sizes(ticket) == {'/transfers/': None, path: 3}
    for method in ('GET', 'HEAD', 'PROPFIND', 'DELETE', 'LOCK'):
        status = request(ticket, method, f'/transfers/{other.username}',
                         LOCK if method == 'LOCK' else None)[0]
        assert status in (403, 404), method
    assert request(other, 'GET')[2] == b'abcdef'


def test_options(depot):
    _, ticket = depot.open()
    for path in ('/', '/transfers/', None):
        status, headers, _ = request(ticket, 'OPTIONS', path)
        assert (status, headers['DAV']) == (200, '1,2')
        assert 'MOVE' not in headers['Allow']


@pytest.mark.parametrize('method', [
    'MKCOL', 'MOVE', 'COPY', 'PROPPATCH', 'POST', 'PATCH', 'TRACE', 'X'])
def test_what_is_not_offered(depot, method):
    _, ticket = depot.open()
    put(ticket, b'abc')
    status, headers, _ = request(ticket, method, Destination='/transfers/x')
    assert status == 405
    assert 'PUT' in headers['Allow']


def test_reading_back(depot):
    _, ticket = depot.open()
    data = os.urandom(3 << 20)
    put(ticket, data)
    status, headers, read = request(ticket, 'GET')
    assert (status, read) == (200, data)
    assert headers['Content-Length'] == str(len(data))
    tag = headers['ETag']
    assert request(ticket, 'HEAD')[1]['ETag'] == tag
    status, _, read = request(ticket, 'GET', Range='bytes=5-9')
    assert (status, read) == (206, data[5:10])
    put(ticket, b'abc')
    assert request(ticket, 'HEAD')[1]['ETag'] != tag


def test_deleting(depot):
    snapshot, ticket = depot.open()
    put(ticket, b'abc')
    assert request(ticket, 'DELETE')[0] == 204
    assert depot.files() == []
    assert depot.receiver.progress(snapshot).state is State.WAITING
    assert request(ticket, 'GET')[0] == 404
    assert request(ticket, 'DELETE')[0] == 404
    assert put(ticket, b'abc')[0] == 201


@pytest.mark.parametrize('path', ['/', '/transfers', '/transfers/'])
def test_folders_are_neither_deleted_nor_locked(depot, path):
    _, ticket = depot.open()
    put(ticket, b'abc')
    assert request(ticket, 'DELETE', path)[0] == 403
    assert request(ticket, 'LOCK', path, body=LOCK,
                   Depth='infinity')[0] == 403
    assert request(ticket, 'GET')[2] == b'abc'
    assert request(ticket, 'DELETE')[0] == 204


def test_conditions(depot):
    _, ticket = depot.open()
    assert put(ticket, b'abc', If_Match='*')[0] == 412
    assert put(ticket, b'abc', If_None_Match='*')[0] == 201
    tag = request(ticket, 'HEAD')[1]['ETag']
    assert put(ticket, b'abcd', If_None_Match='*')[0] == 412
    assert put(ticket, b'abcd', If_None_Match=tag)[0] == 412
    assert put(ticket, b'abcd', If_Match='"other"')[0] == 412
    assert put(ticket, b'abcd', If_Match=f'W/{tag}')[0] == 204


def lock(ticket):
    return request(ticket, 'LOCK', body=LOCK, Depth='0',
                   Timeout='Second-1800')


def test_locking(depot):
    """A client that locked, and crashed, may lock again."""
    snapshot, ticket = depot.open()
    status, headers, _ = lock(ticket)
    assert status == 201
    token = headers['Lock-Token']
    assert request(ticket, 'HEAD')[1]['Content-Length'] == '0'
    assert depot.receiver.progress(snapshot).state is State.WAITING
    assert put(ticket, b'abc', If=f'({token})')[0] == 201
    status, headers, _ = lock(ticket)
    assert status == 200
    assert headers['Lock-Token'] != token
    assert request(ticket, 'UNLOCK',
                   Lock_Token=headers['Lock-Token'])[0] == 204
    assert depot.receiver.finish(snapshot, result(b'abc')).size == 3


@pytest.mark.parametrize('method', ['PROPFIND', 'LOCK'])
@pytest.mark.parametrize('body', [
    b'<', b'<a/>', b'<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">'
    b']><propfind xmlns="DAV:">&b;</propfind>'])
def test_xml_that_is_none(depot, method, body):
    _, ticket = depot.open()
    put(ticket, b'abc')
    status, _, text = request(ticket, method, body=body)
    assert status == 400
    assert b'root:' not in text


def test_too_much_xml(depot):
    _, ticket = depot.open()
    assert request(ticket, 'PROPFIND', body=b' ' * 20000)[0] == 413
    assert request(ticket, 'PROPFIND', body=iter([b' ']),
                   Transfer_Encoding='chunked')[0] == 413


def test_several_requests_on_one_connection(depot):
    _, ticket = depot.open()
    put(ticket, b'abc')
    line = connect(ticket)
    for _ in range(5):
        line.request('GET', urllib.parse.urlsplit(ticket.url).path,
                     headers={'Authorization': authorization(ticket)})
        used = line.sock
        assert line.getresponse().read() == b'abc'
    assert line.sock is used
    line.close()


# --- davfs2 -----------------------------------------------------------------

BY_DAVFS2 = pytest.mark.skipif(bool(fuse.why_no_davfs()),
                               reason=fuse.why_no_davfs())


@contextlib.contextmanager
def mounted(ticket, **settings):
    """Mount the folder that a ticket names; give the path of its image."""
    base = ticket.url.rpartition('/')[0] + '/'
    # Below /tmp itself: davfs2 works as a user of its own.
    with state_dir('davfs') as path:
        mount, cache = path / 'mount', path / 'cache'
        mount.mkdir()
        cache.mkdir()
        cache.chmod(0o777)
        secrets = path / 'secrets'
        secrets.write_text(f'{base} {ticket.username} {ticket.password}\n')
        secrets.chmod(0o600)
        (path / 'ca.pem').write_text(ticket.ca)
        settings = {'ask_auth': 0, 'delay_upload': 0, 'cache_dir': cache,
                    'trust_ca_cert': path / 'ca.pem',
                    'secrets': secrets} | settings
        config = path / 'davfs2.conf'
        config.write_text(''.join(
            f'{key} {value}\n' for key, value in settings.items()))
        subprocess.run(
            ['mount', '-t', 'davfs', '-o', f'conf={config}', base, mount],
            check=True, stdin=subprocess.DEVNULL, timeout=60)
        try:
            yield mount / ticket.username
        finally:
            subprocess.run(['umount', mount], check=True, timeout=120,
                           stdout=subprocess.DEVNULL)


@BY_DAVFS2
@pytest.mark.parametrize('use_locks', [0, 1])
def test_davfs2_carries_what_qemu_img_writes(depot, tmp_path, use_locks):
    """It sends a torso first; what counts is what is there at the end."""
    raw = tmp_path / 'raw'
    raw.write_bytes(os.urandom(5 << 20) + bytes(3 << 20))
    snapshot, ticket = depot.open()
    with mounted(ticket, use_locks=use_locks) as path:
        subprocess.run(['qemu-img', 'convert', '-f', 'raw', '-O', 'qcow2',
                        raw, path], check=True, timeout=120)
        size = path.stat().st_size
    found = depot.receiver.progress(snapshot)
    assert (found.bytes, found.state) == (size, State.ARRIVED)
    sent = request(ticket, 'GET')[2]
    arrival = depot.receiver.finish(snapshot, result(sent))
    subprocess.run(['qemu-img', 'compare', '-f', 'raw', '-F', 'qcow2', raw,
                    arrival.path], check=True, timeout=60)


@BY_DAVFS2
def test_davfs2_may_come_again(depot):
    snapshot, ticket = depot.open()
    for number, data in enumerate((b'first', b'second')):
        with mounted(ticket) as path:
            if number:
                assert path.read_bytes() == b'first'
            path.write_bytes(data)
    assert depot.receiver.finish(snapshot, result(b'second')).size == 6


@BY_DAVFS2
def test_davfs2_is_not_let_in_after_the_end(depot):
    snapshot, ticket = depot.open()
    depot.receiver.close(snapshot)
    with (pytest.raises(subprocess.CalledProcessError),
          mounted(ticket)):
        pass


@BY_DAVFS2
def test_what_davfs2_does_not_tell_is_seen_here(depot, monkeypatch):
    """It reports success for a file that was refused."""
    snapshot, ticket = depot.open()
    monkeypatch.setattr(depot.receiver._folder, '_reserve', 1 << 60)
    with mounted(ticket) as path:
        path.write_bytes(bytes(40 << 20))
    wait_until(lambda: not depot.receiver.progress(snapshot).receiving, 30,
               'the end')
    found = depot.receiver.progress(snapshot)
    assert found.state is State.WAITING
