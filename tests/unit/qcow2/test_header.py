# SPDX-License-Identifier: Apache-2.0
"""The qcow2 header reader, against QEMU's own files and hostile ones."""

import os
import struct
import subprocess

from hypothesis import given
from hypothesis import strategies
import pytest

from stillframe.qcow2 import header


def qemu_img(*words):
    subprocess.run(['qemu-img', *map(str, words)], check=True,
                   capture_output=True, timeout=30)


@pytest.fixture
def overlay(tmp_path):
    base = tmp_path / 'base'
    base.write_bytes(b'\0' * (1 << 20))
    path = tmp_path / 'volume-1.snap'
    qemu_img('create', '-f', 'qcow2', '-b', base, '-F', 'raw', path)
    qemu_img('rebase', '-u', '-f', 'qcow2', '-b', 'base', '-F', 'raw', path)
    return path


def make(version=3, cluster_bits=16, size=1 << 20, incompatible=0,
         extensions=(), backing=None, backing_offset=None, length=104,
         crypt=0, snapshots=0, l1_entries=1, end=True, cut=None):
    """Write a header by hand."""
    parts = bytearray()
    for kind, data in extensions:
        parts += struct.pack('>II', kind, len(data))
        parts += data + b'\0' * (-len(data) % 8)
    if end:
        parts += struct.pack('>II', 0, 0)
    start = length if version == 3 else 72
    name = backing or b''
    offset = 0
    if backing is not None:
        offset = start + len(parts)
    if backing_offset is not None:
        offset = backing_offset
    blob = struct.pack('>4sIQIIQIIQQIIQ', b'QFI\xfb', version, offset,
                       len(name), cluster_bits, size, crypt, l1_entries,
                       0x30000, 0x10000, 1, snapshots, 0)
    if version == 3:
        blob += struct.pack('>QQQII', incompatible, 0, 0, 4, length)
    blob += b'\0' * (start - len(blob)) + bytes(parts) + name
    if end:
        blob += b'\0' * (4096 - len(blob))
    return blob[:cut]


def test_overlay_of_qemu(overlay):
    found = header.read(overlay, empty=True)
    assert found.version == 3
    assert found.size == 1 << 20
    assert found.backing_file == 'base'
    assert found.backing_format == 'raw'
    assert not found.data_file
    assert not found.encrypted
    assert not found.corrupt


def test_without_backing_format(overlay):
    qemu_img('create', '-f', 'qcow2', '-o', 'compat=0.10', overlay, '1M')
    found = header.read(overlay)
    assert found.version == 2
    assert found.backing_file is None
    assert found.backing_format is None


def test_external_data_file(tmp_path):
    path = tmp_path / 'a.qcow2'
    qemu_img('create', '-f', 'qcow2', '-o',
             f'data_file={tmp_path / "secret"},data_file_raw=on', path,
             '1M')
    assert header.read(path).data_file


def test_not_empty(overlay):
    subprocess.run(['qemu-io', '-f', 'qcow2', '-c', 'write -P 7 0 512',
                    overlay], check=True, capture_output=True, timeout=30)
    assert header.read(overlay).backing_file == 'base'
    with pytest.raises(header.BadHeader, match='data already'):
        header.read(overlay, empty=True)


def test_symbolic_link_is_not_followed(overlay):
    link = overlay.with_name('link')
    link.symlink_to(overlay)
    with pytest.raises(OSError, match='symbolic'):
        header.read(link)


def test_pipe_and_directory(tmp_path):
    pipe = tmp_path / 'pipe'
    os.mkfifo(pipe)
    for path in (pipe, tmp_path):
        with pytest.raises(header.BadHeader, match='regular'):
            header.read(path)


@pytest.mark.parametrize(('blob', 'says'), [
    (b'', 'begin'),
    (b'\0' * 4096, 'begin'),
    (b'QFI\xfb', 'shorter'),
    (make(version=1), 'version 1'),
    (make(version=4), 'version 4'),
    (make(cluster_bits=8), 'cluster size'),
    (make(cluster_bits=63), 'cluster size'),
    (make(l1_entries=(32 << 20) // 8 + 1), 'L1 table'),
    (make(incompatible=1 << 5), 'features'),
    (make(incompatible=1 << 63), 'features'),
    (make(length=96), 'header length'),
    (make(length=108), 'header length'),
    (make(cut=90), 'shorter'),
    (make(extensions=[(0xe2792aca, b'raw'), (0xe2792aca, b'qcow2')]),
     'twice'),
    (make(extensions=[(7, b'x' * 400)], cut=200), 'longer'),
    (make(extensions=[(7, b'x' * 8)], end=False), 'do not end'),
    (make(extensions=[(0xe2792aca, b'\xff\xfe')]), 'UTF-8'),
    (make(extensions=[(0xe2792aca, b'')]), 'no name'),
    (make(backing=b'a\0b'), 'no name'),
    (make(backing=b'a\nb'), 'no name'),
    (make(backing=b'x' * 1024), '1024 bytes'),
    (make(backing=b'', backing_offset=200), '0 bytes'),
    (make(backing=b'base', backing_offset=20), 'outside'),
    (make(backing=b'base', backing_offset=1 << 40), 'outside'),
    (make(backing=b'base', backing_offset=4094), 'outside'),
])
def test_refused(blob, says):
    with pytest.raises(header.BadHeader, match=says):
        header.parse(blob)


@pytest.mark.parametrize(('blob', 'wanted'), [
    (make(backing=b'base'), {'backing_file': 'base',
                             'backing_format': None}),
    (make(extensions=[(0xe2792aca, b'raw')], backing=b'b'),
     {'backing_file': 'b', 'backing_format': 'raw'}),
    (make(version=2, backing=b'b'), {'version': 2, 'backing_file': 'b'}),
    (make(incompatible=2), {'corrupt': True}),
    (make(incompatible=4), {'data_file': True}),
    (make(extensions=[(0x44415441, b'/etc/shadow')]), {'data_file': True}),
    (make(crypt=2), {'encrypted': True}),
    (make(extensions=[(0x0537be77, b'x' * 16)]), {'encrypted': True}),
    (make(snapshots=3), {'snapshots': 3}),
])
def test_taken(blob, wanted):
    found = header.parse(blob)
    assert {key: getattr(found, key) for key in wanted} == wanted


@given(strategies.binary(max_size=300), strategies.integers(2, 3))
def test_garbage_is_refused_or_read(tail, version):
    blob = make(version=version)[:72] + tail
    try:
        header.parse(blob)
    except header.BadHeader:
        return
    # What was taken had at least an end of its extensions.
    assert b'\0' * 8 in blob


def test_cut_l1_table(tmp_path):
    path = tmp_path / 'cut'
    path.write_bytes(make())
    with pytest.raises(header.BadHeader, match='L1 table'):
        header.read(path, empty=True)
