# SPDX-License-Identifier: Apache-2.0
"""What is recognised, and that what survives from before is told too."""

import subprocess

import pytest

from stillframe.agent import signatures

MIB = 1 << 20
UUID = '8d2f6f0e-6b9c-4c2b-9a51-3d1f0c7e5a42'


def found(data):
    data = bytes(data)
    return signatures.read(lambda at, size: data[at:at + size], 0,
                           len(data))


def made(tmp_path, *command, mib=32):
    path = tmp_path / 'disk'
    with path.open('wb') as file:
        file.truncate(mib * MIB)
    subprocess.run([*command, path], check=True, capture_output=True)
    return bytearray(path.read_bytes())


def test_nothing():
    assert found(bytes(MIB)) == signatures.Found((), ())


def test_tiny():
    for size in (512, 4096, 65536):
        assert found(bytes(size)).kinds == ()


def test_ext(tmp_path):
    data = made(tmp_path, 'mkfs.ext4', '-q', '-F', '-U', UUID)
    assert found(data) == signatures.Found(('ext',), (UUID,))


@pytest.mark.parametrize('kind, place, magic', [
    ('LVM', 512, b'LABELONE'),
    ('md', 4096, b'\xfc\x4e\x2b\xa9'),
    ('md', -8192, b'\xfc\x4e\x2b\xa9'),
    # 0.90: at the last but one border of 64 KiB of a disk that has more.
    ('md', 32 * MIB - 65536, b'\xfc\x4e\x2b\xa9'),
    ('ZFS', 128 << 10, b'\x0c\xb1\xba\0\0\0\0\0'),
    ('ZFS', 32 * MIB - (128 << 10) + 3072, b'\0\0\0\0\0\xba\xb1\x0c'),
    ('swap', 4086, b'SWAPSPACE2'), ('bcache', 4120, bytes.fromhex(
        'c68573f64e1a45ca8265f57f48ba6d81')),
])
def test_what_lies_over_an_old_file_system(tmp_path, kind, place, magic):
    data = made(tmp_path, 'mkfs.ext4', '-q', '-F')
    place %= len(data)
    data[place:place + len(magic)] = magic
    assert set(found(data).kinds) == {'ext', kind}


def test_luks():
    data = bytearray(MIB)
    data[:6] = b'LUKS\xba\xbe'
    data[168:168 + 36] = UUID.encode()
    assert found(data) == signatures.Found(('LUKS',), (UUID,))
