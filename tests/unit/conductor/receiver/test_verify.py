# SPDX-License-Identifier: Apache-2.0
"""Verifying images with the real qemu-img: good ones and hostile ones."""

import itertools
import os
import struct
import subprocess
import time

import pytest

from stillframe.conductor.receiver import errors
from stillframe.conductor.receiver import verify

MIB = 1 << 20
SIZE = 16 * MIB


def run(*words):
    subprocess.run(list(map(str, words)), check=True, capture_output=True,
                   timeout=60)


@pytest.fixture
def path(tmp_path):
    """A qcow2 file with some data in it."""
    raw, made = tmp_path / 'raw', tmp_path / 'image'
    raw.write_bytes(os.urandom(MIB) + bytes(SIZE - MIB))
    run('qemu-img', 'convert', '-f', 'raw', '-O', 'qcow2', raw, made)
    return made


def refused(conf, path, virtual_size=SIZE, disk_format='qcow2'):
    """Give the reason why a file is not taken."""
    with pytest.raises(errors.BadImage) as caught:
        verify.verify(path, disk_format, virtual_size, conf=conf)
    assert str(path) not in caught.value.message
    assert str(path.parent) not in caught.value.message
    return caught.value.message


def poke(path, offset, form, *values):
    with path.open('r+b') as file:
        file.seek(offset)
        file.write(struct.pack(form, *values))


def test_a_good_one(conf, path):
    before = path.read_bytes()
    verify.verify(path, 'qcow2', SIZE, conf=conf)
    assert path.read_bytes() == before


def test_a_compressed_one(conf, path):
    small = path.with_name('small')
    run('qemu-img', 'convert', '-f', 'qcow2', '-O', 'qcow2', '-c', '-o',
        'compression_type=zstd', path, small)
    verify.verify(small, 'qcow2', SIZE, conf=conf)


def test_raw_is_not_looked_into(conf, tmp_path, path):
    """A disk may begin like a qcow2 file that names a file of ours."""
    hostile = tmp_path / 'raw.img'
    run('qemu-img', 'create', '-f', 'qcow2', '-b', '/etc/passwd', '-F',
        'raw', hostile, '1M')
    with hostile.open('r+b') as file:
        file.truncate(MIB)
    verify.verify(hostile, 'raw', MIB, conf=conf)
    assert f'has {MIB} bytes, and its disk {MIB + 512}' in refused(
        conf, hostile, MIB + 512, 'raw')


def test_another_size(conf, path):
    assert 'a disk of 16777216 bytes, and the disk of the node has 17' in (
        refused(conf, path, 17 * MIB))


def test_it_names_a_file_of_the_host(conf, path):
    run('qemu-img', 'rebase', '-u', '-f', 'qcow2', '-b', '/etc/passwd', '-F',
        'raw', path)
    assert 'backing file' in refused(conf, path)


def test_its_data_lies_elsewhere(conf, path, tmp_path):
    made = tmp_path / 'outside'
    run('qemu-img', 'create', '-f', 'qcow2', '-o',
        f'data_file={tmp_path}/secret,data_file_raw=on', made, '16M')
    assert 'in another file' in refused(conf, made)


def test_encrypted(conf, path):
    poke(path, 32, '>I', 2)
    assert 'encrypted' in refused(conf, path)


def test_marked_as_damaged(conf, path):
    poke(path, 72, '>Q', 2)
    assert 'damaged' in refused(conf, path)


def test_snapshots_inside(conf, path):
    run('qemu-img', 'snapshot', '-c', 'one', path)
    assert 'snapshots inside' in refused(conf, path)


def test_no_qcow2_at_all(conf, path):
    poke(path, 0, '>I', 0)
    assert 'does not begin like a qcow2' in refused(conf, path)


def test_a_symbolic_link(conf, path):
    link = path.with_name('link')
    link.symlink_to(path)
    with pytest.raises(verify.CannotVerify):
        verify.verify(link, 'qcow2', SIZE, conf=conf)


def test_truncated(conf, path):
    with path.open('r+b') as file:
        file.truncate(MIB // 2)
    assert 'corruptions' in refused(conf, path)


def test_cut_within_its_tables(conf, path):
    l1 = struct.unpack('>Q', path.read_bytes()[40:48])[0]
    with path.open('r+b') as file:
        file.truncate(l1)
    assert 'before its L1 table does' in refused(conf, path)


def test_a_table_points_into_nowhere(conf, path):
    l1 = struct.unpack('>Q', path.read_bytes()[40:48])[0]
    poke(path, l1, '>Q', 1 << 63 | 1 << 40)
    assert 'qemu-img check' in refused(conf, path)


@pytest.mark.parametrize('clusters', [1 << 10, 1 << 16, (1 << 32) - 1])
def test_a_huge_table_of_refcounts(conf, path, clusters):
    poke(path, 56, '>I', clusters)
    begun = time.monotonic()
    refused(conf, path)
    assert time.monotonic() - begun < 60


def test_it_wants_too_much_memory(conf, tmp_path):
    """A file that claims to be large, and is: but of holes."""
    conf.set_override('verify_memory', 256, 'receiver')
    path = tmp_path / 'image'
    run('qemu-img', 'create', '-f', 'qcow2', path, '16M')
    with path.open('r+b') as file:
        file.truncate(12 << 40)
    reason = refused(conf, path)
    assert 'verify_memory' in reason or 'corruptions' in reason


def test_too_much_is_printed(conf, path, monkeypatch):
    monkeypatch.setattr(verify, '_SAID_MAX', 64)
    assert 'printed more' in refused(conf, path)


def test_it_takes_too_long(conf, path):
    clock = itertools.count(step=conf.receiver.verify_timeout * 2)
    with pytest.raises(verify.CannotVerify) as caught:
        verify.verify(path, 'qcow2', SIZE, conf=conf,
                      clock=lambda: next(clock))
    assert 'verify_timeout' in caught.value.message


def test_it_is_stopped(conf, path):
    with pytest.raises(verify.CannotVerify) as caught:
        verify.verify(path, 'qcow2', SIZE, lambda: 'enough')
    assert 'enough' in caught.value.message


def test_qemu_img_is_not_here(conf, path, monkeypatch, tmp_path):
    for name in ('prlimit', 'setpriv'):
        found = subprocess.run(['which', name], check=True, text=True,
                               capture_output=True).stdout.strip()
        (tmp_path / name).symlink_to(found)
    monkeypatch.setenv('PATH', str(tmp_path))
    with pytest.raises(verify.CannotVerify) as caught:
        verify.verify(path, 'qcow2', SIZE, conf=conf)
    assert 'cannot be run here' in caught.value.message


def test_another_format(conf, path):
    assert 'vmdk' in refused(conf, path, SIZE, 'vmdk')
