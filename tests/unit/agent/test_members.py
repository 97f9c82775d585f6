# SPDX-License-Identifier: Apache-2.0
"""What an image may need beside it is said."""

import struct

import pytest

from stillframe.agent import failures
from stillframe.agent import members
from stillframe.agent import source

MIB = 1 << 20


def notes(path, content):
    path.write_bytes(bytes(content))
    with source.Source(str(path)) as opened:
        return members.notes(opened)


def test_nothing(tmp_path):
    assert notes(tmp_path / 'disk', bytes(MIB)) == []


def test_a_whole_disk(tmp_path):
    content = bytearray(4 * MIB)
    content[512:520] = b'LABELONE'
    found = notes(tmp_path / 'disk', content)
    assert len(found) == 1
    assert found[0].startswith('The disk belongs to a volume group of LVM')


@pytest.mark.parametrize('place', [4096, MIB - 8192])
def test_a_partition(tmp_path, place):
    content = bytearray(4 * MIB)
    content[440:444] = b'\x34\x12\xfe\xca'
    content[446:462] = struct.pack('<4xB3xII', 0xfd, 2048, 2048)
    content[510:512] = b'\x55\xaa'
    content[MIB + place:MIB + place + 4] = b'\xfc\x4e\x2b\xa9'
    found = notes(tmp_path / 'disk', content)
    assert len(found) == 1
    assert found[0].startswith('Partition cafe1234-01 belongs to an array')


def test_a_disk_that_cannot_be_read(tmp_path, monkeypatch):
    def fail(*_):
        raise failures.ReadFailed('x')

    monkeypatch.setattr(source.Source, 'read', fail)
    assert 'read errors' in notes(tmp_path / 'disk', bytes(MIB))[0]
