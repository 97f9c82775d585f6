# SPDX-License-Identifier: Apache-2.0
"""The transport davfs: real davfs2, real qemu-img, our receiver."""

import os
import pathlib
import shutil
import struct
import threading

import pytest

from stillframe.agent import davfs
from stillframe.agent import failures
from tests.lab import fuse

MIB = 1 << 20


pytestmark = [
    pytest.mark.skipif(bool(fuse.why_no_davfs()), reason=fuse.why_no_davfs()),
    pytest.mark.usefixtures('nothing_left')]


@pytest.fixture
def programs(tmp_path, monkeypatch):
    """Put programs of the test's before those of the system."""
    folder = tmp_path / 'bin'
    folder.mkdir()
    monkeypatch.setenv('PATH', f'{folder}:{os.environ["PATH"]}')

    def add(name, *lines):
        path = folder / name
        path.write_text('\n'.join(('#!/bin/sh', *lines, '')))
        path.chmod(0o700)
    return add


def send(sending, **more):
    order = sending.order(transport='davfs', **more)
    return davfs.Transfer(order).run(sending.disk)


@pytest.mark.parametrize('more', [
    {}, {'compress': 'zstd'}, {'disk_format': 'raw'}])
def test_it_arrives(sending, more):
    result = send(sending, **more)
    arrived = sending.judge(result)
    assert (result.size, result.sha256) == (arrived.size, arrived.sha256)
    assert result.transport == 'davfs'
    assert result.virtual_size == sending.disk.size
    assert result.zero_bytes > 60 * MIB
    assert result.notes == []


def test_a_disk_that_poses_as_an_image(sending, tmp_path):
    """Whatever its first sector says, it is a disk."""
    secret = tmp_path / 'host-file'
    secret.write_bytes(b'of the host' * 1000)
    name = os.fsencode(secret)
    header = struct.pack('>4sIQIIQIIQQIIQ', b'QFI\xfb', 2, 72, len(name),
                         16, 96 * MIB, 0, 1, 65536, 131072, 1, 0, 0) + name
    with sending.path.open('r+b') as file:
        file.write(header)
    arrived = sending.judge(send(sending))
    assert b'of the host' not in arrived.path.read_bytes()


def test_certificates_that_are_none(sending):
    """Said before the disk is read."""
    with pytest.raises(failures.BadOrder, match='holds no certificate'):
        send(sending, ca='of nobody')


def test_no_room_for_the_cache(sending, monkeypatch):
    monkeypatch.setattr(davfs, '_available', lambda: 80 * MIB)
    with pytest.raises(failures.SendFailed, match=(
            r'3\d MiB are needed and 16 MiB are free.*webdav needs none')):
        send(sending)


def test_a_receiver_that_does_not_take_it(sending, monkeypatch):
    """davfs2 gets 507 for the PUT, and reports success."""
    order = sending.order(transport='davfs')
    monkeypatch.setattr(sending.receiver._folder, '_reserve', 1 << 60)
    with pytest.raises(failures.SendFailed, match='has not arrived'):
        davfs.Transfer(order).run(sending.disk)
    assert sending.has_nothing_whole()


def test_a_revoked_password(sending):
    order = sending.order(transport='davfs')
    sending.receiver.close(sending.snapshot)
    with pytest.raises(failures.SendFailed, match='mount failed') as caught:
        davfs.Transfer(order).run(sending.disk)
    assert order.password not in str(caught.value)
    assert order.username not in str(caught.value)


def test_a_receiver_that_is_not_trusted(sending):
    other = pathlib.Path('/etc/ssl/certs/ca-certificates.crt').read_text()
    first = other.partition('-----END')[0] + '-----END CERTIFICATE-----\n'
    with pytest.raises(failures.SendFailed, match='mount failed'):
        send(sending, ca=first)


def test_a_receiver_that_falls_silent(sending, stalling):
    with pytest.raises(failures.SendFailed, match=(
            'did nothing for|has not arrived|is not known')):
        send(sending, timeout=3.0)
    assert stalling.stalled.is_set()
    assert sending.has_nothing_whole()


def test_stopped_while_it_uploads(sending, stalling):
    transfer = davfs.Transfer(sending.order(transport='davfs',
                                            timeout=3600.0))
    stopper = threading.Thread(
        target=lambda: stalling.stalled.wait(60) and transfer.stop())
    stopper.start()
    with pytest.raises(failures.Stopped):
        transfer.run(sending.disk)
    stopper.join(60)
    assert sending.has_nothing_whole()


def test_stopped_while_it_copies(sending, programs, tmp_path):
    os.mkfifo(tmp_path / 'copying')
    programs('qemu-img', f'echo >{tmp_path}/copying', 'exec sleep 600')
    transfer = davfs.Transfer(sending.order(transport='davfs'))

    def stop():
        (tmp_path / 'copying').read_text()
        transfer.stop()

    stopper = threading.Thread(target=stop)
    stopper.start()
    with pytest.raises(failures.Stopped):
        transfer.run(sending.disk)
    stopper.join(60)


def test_a_copy_that_hangs(sending, programs):
    programs('qemu-img', 'exec sleep 600')
    with pytest.raises(failures.SendFailed,
                       match='qemu-img did nothing for 1 s'):
        send(sending, timeout=1.0)


def test_a_copy_that_fails_in_the_middle(sending, programs):
    """Its torso is a valid image by its header; nobody shall get it."""
    real = shutil.which('qemu-img')
    programs('qemu-img', f'{real} "$@"',
             'echo "${10}: Input/output error" >&2', 'exit 1')
    with pytest.raises(failures.SendFailed) as caught:
        send(sending)
    assert str(caught.value) == (
        'qemu-img failed (1): ...: Input/output error.')
    received = sending.receiver.progress(sending.snapshot)
    assert (received.bytes, received.state.value) == (0, 'waiting')


@pytest.mark.parametrize('name', ['qemu-img', 'mount.davfs'])
def test_a_ramdisk_that_lacks_something(sending, monkeypatch, name):
    which = shutil.which
    monkeypatch.setattr(
        shutil, 'which', lambda asked, **more:
        None if asked == name else which(asked, **more))
    with pytest.raises(failures.BadOrder, match=f'has no {name}'):
        send(sending)


@pytest.mark.parametrize('more', [
    {'skip_free_space': True}, {'on_read_error': 'zero'},
    {'bandwidth': 1000}])
def test_what_it_cannot_do_is_refused(sending, more):
    with pytest.raises(failures.BadOrder, match='transport webdav has it'):
        send(sending, **more)
