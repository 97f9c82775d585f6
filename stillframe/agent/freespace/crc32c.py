# SPDX-License-Identifier: Apache-2.0
"""CRC-32C, with which file systems guard what they say of themselves.

The standard library has another polynomial alone (CRC-32). Two bytes at a
time, which is as fast as plain Python gets: some 20 MB/s.
"""

import functools
import struct

#: What file systems begin with.
START = 0xFFFFFFFF
_POLYNOMIAL = 0x82F63B78                  # bits reversed


def _by_bytes() -> list[int]:
    table = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (_POLYNOMIAL if value & 1 else 0)
        table.append(value)
    return table


@functools.cache
def _by_pairs() -> list[int]:
    single = _by_bytes()
    table = []
    for pair in range(65536):
        once = single[pair & 0xFF]
        table.append(once >> 8 ^ single[(once ^ pair >> 8) & 0xFF])
    return table


def update(data: bytes, value: int = START) -> int:
    """Go on with a checksum.

    :param data: of an even number of bytes.
    :param value: what came out so far, not inverted.
    :return: likewise.
    """
    table = _by_pairs()
    for pair in struct.unpack(f'<{len(data) // 2}H', data):
        value = value >> 16 ^ table[(value ^ pair) & 0xFFFF]
    return value


def checksum(data: bytes) -> int:
    """Give the checksum of data of an even number of bytes."""
    return update(data) ^ 0xFFFFFFFF
