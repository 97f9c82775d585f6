# SPDX-License-Identifier: Apache-2.0
"""The checksum of file systems, by known answers."""

import pytest

from stillframe.agent.freespace import crc32c


@pytest.mark.parametrize('data, wanted', [
    (b'', 0), (b'12345678', 0x6087809A),
    # RFC 3720, B.4.
    (bytes(32), 0x8A9136AA), (b'\xff' * 32, 0x62A8AB43),
    (bytes(range(32)), 0x46DD794E), (bytes(range(31, -1, -1)), 0x113FDB5C),
])
def test_known_answers(data, wanted):
    assert crc32c.checksum(data) == wanted


def test_in_parts():
    whole = crc32c.update(b'abcdefgh')
    assert crc32c.update(b'efgh', crc32c.update(b'abcd')) == whole
