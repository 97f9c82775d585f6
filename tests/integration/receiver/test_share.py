# SPDX-License-Identifier: Apache-2.0
"""Images that come by an NFS share: here, a folder."""

import hashlib
import os
import threading

import pytest

from stillframe.conductor.receiver import errors
from stillframe.conductor.receiver import storing

MIB = 1 << 20


@pytest.fixture
def share(tmp_path):
    folder = tmp_path / 'share'
    folder.mkdir()
    return folder


@pytest.fixture
def shared(new_depot, share):
    """A receiver with a share."""
    return new_depot(share_url='nfs://host/images/', share_path=str(share))


def opened(depot):
    """Open a transfer; give snapshot and name."""
    snapshot = 'a3c1e5f7-0000-4000-8000-000000000001'
    ticket = depot.receiver.open(snapshot, 'nfs')
    assert (ticket.username, ticket.password, ticket.ca) == ('', '', None)
    base, _, name = ticket.url.rpartition('/')
    assert base == 'nfs://host/images'
    return snapshot, name


def record(data, **more):
    return {'version': 1, 'disk_format': 'raw', 'size': len(data),
            'sha256': hashlib.sha256(data).hexdigest(), **more}


def test_a_share_that_fails(shared, share):
    """Whoever asks how far an image is gets a reason, not a traceback."""
    snapshot, name = opened(shared)
    assert shared.receiver.progress(snapshot).bytes == 0
    share.rmdir()
    share.write_text('no folder any more')
    with pytest.raises(errors.StoreFailed, match='Not a directory'):
        shared.receiver.progress(snapshot)


def test_it_is_copied_and_compared(shared, share):
    snapshot, name = opened(shared)
    data = os.urandom(3 * MIB + 5)
    (share / name).write_bytes(data[:MIB])
    assert shared.receiver.progress(snapshot).bytes == MIB
    (share / name).write_bytes(data)
    arrived = shared.receiver.finish(snapshot, record(data))
    assert arrived.path.read_bytes() == data
    # What the ramdisk writes now is of no account.
    (share / name).write_bytes(b'something else')
    assert shared.receiver.finish(snapshot, record(data)) == arrived
    assert arrived.path.read_bytes() == data
    shared.receiver.close(snapshot)
    assert list(share.iterdir()) == []
    assert shared.files() == []


@pytest.mark.parametrize('wrong', [{'size': 17}, {'sha256': '0' * 64}])
def test_it_is_not_what_was_sent(shared, share, wrong):
    snapshot, name = opened(shared)
    (share / name).write_bytes(b'x' * 5000)
    with pytest.raises(errors.Differs):
        shared.receiver.finish(snapshot, record(b'x' * 5000) | wrong)


def test_nothing_was_written(shared):
    snapshot, _name = opened(shared)
    with pytest.raises(errors.NotArrived):
        shared.receiver.finish(snapshot, record(b'x'))


@pytest.mark.parametrize('kind', ['link', 'hard', 'pipe', 'folder'])
def test_it_is_no_file(shared, share, tmp_path, kind):
    snapshot, name = opened(shared)
    secret = tmp_path / 'secret'
    secret.write_text('of the conductor')
    {'link': lambda path: path.symlink_to(secret),
     'hard': lambda path: path.hardlink_to(secret),
     'pipe': os.mkfifo, 'folder': os.mkdir}[kind](share / name)
    # A pipe has no bytes, so it is nothing that was written.
    with pytest.raises((errors.NotArrived, errors.BadImage)):
        shared.receiver.finish(snapshot, record(b'of the conductor'))
    assert shared.files() == []


def test_the_store_is_full(small_store, new_depot, share):
    depot = new_depot(small_store, share_url='nfs://host/images',
                      share_path=str(share))
    snapshot, name = opened(depot)
    (share / name).touch()
    os.truncate(share / name, 100 * MIB)
    with pytest.raises(errors.StoreFull):
        depot.receiver.finish(snapshot, record(b'x'))
    assert depot.files() == []


def test_closed_while_it_is_copied(shared, share, monkeypatch):
    snapshot, name = opened(shared)
    data = os.urandom(9 * MIB)
    (share / name).write_bytes(data)
    inside, go = threading.Event(), threading.Event()
    take = storing.Incoming._take

    def slow(self, *args):
        inside.set()
        assert go.wait(60)
        take(self, *args)

    monkeypatch.setattr(storing.Incoming, '_take', slow)
    caught = []

    def finish():
        try:
            shared.receiver.finish(snapshot, record(data))
        except errors.ReceiverError as exc:
            caught.append(exc)

    finishing = threading.Thread(target=finish)
    finishing.start()
    assert inside.wait(60)
    threading.Timer(0.2, go.set).start()
    shared.receiver.close(snapshot)
    finishing.join(60)
    assert isinstance(caught[0], errors.Revoked)
    assert shared.files() == []
    assert list(share.iterdir()) == []


def test_a_receiver_that_lives_again(new_depot, share, tmp_path):
    settings = {'share_url': 'nfs://host/images', 'share_path': str(share)}
    data = b'x' * 70000
    first = new_depot(**settings)
    snapshot, name = opened(first)
    (share / name).write_bytes(data)
    first.receiver.stop()
    second = new_depot(**settings)
    assert second.receiver.progress(snapshot).bytes == len(data)
    assert second.receiver.finish(
        snapshot, record(data)).path.read_bytes() == data


@pytest.mark.parametrize('settings', [
    {}, {'share_url': 'nfs://host/images'},
    {'share_url': 'nfs://host/images', 'share_path': '/nowhere'}])
def test_no_share(new_depot, settings):
    depot = new_depot(**settings)
    with pytest.raises(errors.CannotReceive, match='share_path'):
        depot.receiver.open('a3c1e5f7-0000-4000-8000-000000000001', 'nfs')
    assert depot.files() == []
