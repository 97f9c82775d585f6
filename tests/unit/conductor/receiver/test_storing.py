# SPDX-License-Identifier: Apache-2.0
"""The intermediate store: whole files or none."""

import hashlib
import os
import shutil
import stat
import threading

import pytest

from stillframe.conductor.receiver import body as bodies
from stillframe.conductor.receiver import errors
from stillframe.conductor.receiver import storing

MIB = 1 << 20


@pytest.fixture
def folder(tmp_path):
    made = storing.Folder(tmp_path / 'a' / 'transfers', 0)
    made.own()
    yield made
    made.release()


def body(data):
    view = memoryview(data)

    def receive(into):
        nonlocal view
        count = min(len(into), len(view), 300_000)
        into[:count] = view[:count]
        view = view[count:]
        return count

    return bodies.Body(receive, b'', len(data))


def names(folder):
    return sorted(one for one in os.listdir(folder.image('x').parent)
                  if one != '.owner')


def test_a_whole_image(folder, monkeypatch):
    monkeypatch.setattr(storing, '_SYNC_EVERY', MIB)
    data = os.urandom(5 * MIB + 17)
    incoming = folder.begin('n', len(data) + 12345)
    assert names(folder) == ['n.part']
    assert incoming.receive(body(data), len(data)) == hashlib.sha256(
        data).hexdigest()
    assert incoming.finish() == len(data)
    folder.keep('n')
    assert names(folder) == ['n.image']
    assert folder.image('n').read_bytes() == data
    found = folder.image('n').stat()
    assert stat.S_IMODE(found.st_mode) == 0o600
    # What was allocated beyond its end is given back.
    assert found.st_blocks * 512 <= len(data) + 8192
    assert stat.S_IMODE(folder.image('n').parent.stat().st_mode) == 0o700
    folder.remove('n')
    assert names(folder) == []


def test_an_empty_image(folder):
    incoming = folder.begin('n', 0)
    incoming.receive(body(b''), 0)
    assert incoming.finish() == 0


def test_more_than_was_announced(folder):
    incoming = folder.begin('n', MIB)
    with pytest.raises(errors.TooLarge):
        incoming.receive(body(bytes(3 * MIB)), MIB)
    incoming.discard()
    assert names(folder) == []


def test_it_breaks_off(folder):
    incoming = folder.begin('n', 9 * MIB)

    def receive(into):
        raise ConnectionResetError

    with pytest.raises(ConnectionResetError):
        incoming.receive(bodies.Body(receive, b'a' * MIB, 9 * MIB), 9 * MIB)
    incoming.discard()
    assert names(folder) == []
    # The helpers are gone too.
    assert not [one for one in threading.enumerate()
                if one.name.startswith('receive-')]


def test_the_disk_is_full_ahead(folder):
    with pytest.raises(errors.StoreFull):
        folder.begin('n', 1 << 60)
    assert names(folder) == []


def test_the_disk_fills_up_in_the_middle(folder, monkeypatch):
    incoming = folder.begin('n', 0)
    real = os.write

    def write(handle, data):
        if os.fstat(handle).st_size > MIB:
            raise OSError(28, os.strerror(28))
        return real(handle, data)

    monkeypatch.setattr(os, 'write', write)
    with pytest.raises(errors.StoreFull):
        incoming.receive(body(bytes(9 * MIB)), 9 * MIB)
    incoming.discard()
    assert names(folder) == []


def test_the_disk_fails_at_the_end(folder, monkeypatch):
    incoming = folder.begin('n', 0)
    incoming.receive(body(b'abc'), 3)

    def fail(handle):
        raise OSError(5, os.strerror(5))

    monkeypatch.setattr(os, 'fsync', fail)
    with pytest.raises(errors.StoreFailed) as caught:
        incoming.finish()
    assert 'Input/output error' in caught.value.message
    incoming.discard()


def test_what_a_killed_upload_left_is_replaced(folder):
    folder.begin('n', 0).close()
    incoming = folder.begin('n', 0)
    incoming.receive(body(b'abc'), 3)
    incoming.finish()
    folder.keep('n')
    assert folder.image('n').read_bytes() == b'abc'
    assert folder.names() == {'n'}


def test_a_link_in_its_place_is_not_followed(folder, tmp_path):
    other = tmp_path / 'other'
    other.write_text('precious')
    (folder.image('n').parent / 'n.part').symlink_to(other)
    incoming = folder.begin('n', 0)
    incoming.receive(body(b'abc'), 3)
    incoming.finish()
    assert other.read_text() == 'precious'


def test_the_reserve_is_not_free(folder, tmp_path):
    room = os.statvfs(tmp_path)
    used = storing.Folder(tmp_path, 1 << 62)
    assert used.free() == 0
    assert 0 < folder.free() <= room.f_blocks * room.f_frsize


def test_a_store_that_is_gone(folder, tmp_path):
    shutil.rmtree(tmp_path / 'a')
    with pytest.raises(errors.StoreFailed, match='No such file'):
        folder.free()


def test_it_is_owned_by_one(folder):
    other = storing.Folder(folder.image('x').parent, 0)
    with pytest.raises(errors.CannotReceive, match='another conductor'):
        other.own()
    folder.release()
    other.own()
    other.release()


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / 'file').write_text('')
    with pytest.raises(errors.CannotReceive, match='cannot be used'):
        storing.Folder(tmp_path / 'file' / 'transfers', 0).own()
