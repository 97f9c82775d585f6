# SPDX-License-Identifier: Apache-2.0
"""The transport nfs: real mounts and real qemu-img.

A kernel that runs tests need not have NFS, so what is mounted here is a
folder of this machine: ``mount`` is given another kind and no options. All
else is as it is, and what is said to mount is looked at. test_nfs_machine
has the real thing.
"""

from concurrent import futures
import os
import pathlib
import subprocess
import threading

import pytest

from stillframe.agent import apart
from stillframe.agent import children
from stillframe.agent import disks
from stillframe.agent import failures
from stillframe.agent import nfs
from stillframe.agent import orders
from stillframe.conductor.receiver import share as sharing

SNAPSHOT = '0f5ee0de-6f7e-4a5c-9b0c-6a6d5a4b3c2e'

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason='mounting needs root'),
    pytest.mark.usefixtures('nothing_left')]


@pytest.fixture
def share(tmp_path):
    """The folder that a server would export."""
    folder = tmp_path / 'share'
    folder.mkdir()
    return folder


@pytest.fixture
def disk(disk_file):
    return disks.Disk(str(disk_file), disk_file.stat().st_size)


class Local(nfs.Transfer):
    """The transfer, with a folder of this machine as the share."""

    kind = 'none'
    options = 'bind'

    def _check(self):
        pass

    def _share(self):
        share, name = super()._share()
        return share.partition(':')[2], name


def send(share, disk, name='image', **more):
    order = orders.Order(url=f'nfs://server{share}/{name}', transport='nfs',
                         timeout=30.0, **more)
    return Local(order).run(disk)


@pytest.mark.parametrize('more', [
    {}, {'compress': 'zstd'}, {'disk_format': 'raw'}])
def test_it_arrives(share, disk, more):
    result = send(share, disk, **more)
    path = share / 'image'
    digest = subprocess.run(['sha256sum', path], check=True, text=True,
                            capture_output=True).stdout.split()[0]
    assert (result.size, result.sha256) == (path.stat().st_size, digest)
    assert path.stat().st_mode & 0o777 == 0o600
    subprocess.run(['qemu-img', 'compare', '-f', 'raw', '-F',
                    result.disk_format, disk.name, path], check=True,
                   capture_output=True)


def test_the_receiver_takes_it_from_the_share(share, disk, receiver,
                                              monkeypatch):
    """Both ends: what the one orders, the other does, and is believed."""
    monkeypatch.setattr(receiver, '_share', sharing.Share(
        f'nfs://server{share}', share))
    ticket = receiver.open(SNAPSHOT, 'nfs')
    result = Local(orders.Order(url=ticket.url, transport='nfs')).run(disk)
    arrived = receiver.finish(SNAPSHOT, result.document())
    subprocess.run(['qemu-img', 'compare', '-f', 'raw', '-F', 'qcow2',
                    disk.name, arrived.path], check=True,
                   capture_output=True)
    receiver.close(SNAPSHOT)
    assert list(share.iterdir()) == []


def test_stop_while_the_disk_hangs(share, disk, monkeypatch):
    hangs, goes_on = threading.Event(), threading.Event()
    real = os.preadv

    def hang(handle, views, offset):
        if offset >= 40 << 20:
            hangs.set()
            goes_on.wait(60)
        return real(handle, views, offset)

    monkeypatch.setattr(os, 'preadv', hang)
    monkeypatch.setattr(apart, '_LAST_MOMENT', 0.01)
    transfer = Local(orders.Order(url=f'nfs://server{share}/image',
                                  transport='nfs'))
    with futures.ThreadPoolExecutor(1) as pool:
        running = pool.submit(transfer.run, disk)
        assert hangs.wait(20)
        transfer.stop()
        try:
            with pytest.raises(failures.Stopped):
                running.result(20)
        finally:
            goes_on.set()
    assert list(share.iterdir()) == []


def test_what_is_there_is_not_written_over(share, disk):
    (share / 'image').write_text('of somebody else')
    with pytest.raises(failures.SendFailed, match='File exists'):
        send(share, disk)
    assert (share / 'image').read_text() == 'of somebody else'


def test_a_share_that_is_not_there(share, disk):
    with pytest.raises(failures.SendFailed, match='mount failed'):
        send(share / 'nowhere', disk)


def test_a_copy_that_fails_leaves_no_torso(share, disk, tmp_path,
                                           monkeypatch):
    program = tmp_path / 'bin' / 'qemu-img'
    program.parent.mkdir()
    program.write_text('#!/bin/sh\nfor last; do :; done\n'
                       'echo half >"$last"\nexit 1\n')
    program.chmod(0o700)
    monkeypatch.setenv('PATH', f'{program.parent}:{os.environ["PATH"]}')
    with pytest.raises(failures.SendFailed, match='qemu-img failed'):
        send(share, disk)
    assert list(share.iterdir()) == []


@pytest.mark.parametrize('url, what', [
    ('nfs://host/a/b/c', ('host:/a/b', 'c')),
    ('nfs://host/c', ('host:/', 'c')),
    ('nfs://[2001:db8::1]/a/c', ('[2001:db8::1]:/a', 'c')),
    ('nfs://host/a%20b/c', ('host:/a b', 'c')),
])
def test_what_is_mounted(url, what):
    order = orders.Order(url=url, transport='nfs')
    assert nfs.Transfer(order)._share() == what


@pytest.mark.parametrize('url', [
    'nfs://host', 'nfs://host/a/', 'nfs://host/a/..', 'nfs://host/a/%2e'])
def test_a_url_that_names_no_file(url):
    with pytest.raises(failures.BadOrder, match='names no file'):
        nfs.Transfer(orders.Order(url=url, transport='nfs'))._share()


def test_the_call_of_mount(disk, tmp_path, monkeypatch):
    """What the real kind is mounted with."""
    monkeypatch.setattr(children, 'need', lambda *programs: None)
    program = tmp_path / 'bin' / 'mount'
    program.parent.mkdir()
    program.write_text(
        '#!/bin/sh\n[ "$2" = nfs ] || exec /bin/mount "$@"\n'
        f'echo "$@" >{tmp_path}/called\nexit 32\n')
    program.chmod(0o700)
    monkeypatch.setenv('PATH', f'{program.parent}:{os.environ["PATH"]}')
    order = orders.Order(url='nfs://host/a/c', transport='nfs')
    with pytest.raises(failures.SendFailed, match=r'mount failed \(32\)'):
        nfs.Transfer(order).run(disk)
    called = (tmp_path / 'called').read_text().split()
    assert called[:5] == [
        '-t', 'nfs', '-o', 'rw,soft,timeo=150,retrans=3,nosuid,nodev,noexec',
        'host:/a']
    assert pathlib.Path(called[5]).name == 'write'
