# SPDX-License-Identifier: Apache-2.0
"""Whether an XFS log is clean: its last record says that it was unmounted.

The log is a ring of sectors. Each record begins with a header that has a
magic number and says which round of the ring it is of; the newest is the
one of the highest round that lies furthest.
"""

from collections.abc import Iterator
import struct

from stillframe.agent import partitions
from stillframe.agent.freespace.unusual import demand

_MAGIC = b'\xfe\xed\xba\xbe'
_SECTOR = 512
_CHUNK = 4 << 20
_MOST = 4 << 30
# Bytes of a record that one sector of header describes.
_HEADER_BYTES = 32 << 10
_VERSION_2 = 2
_UUID = 304
_UNMOUNT = 0x20
_DIRTY = 'its log needs recovery, as it was not unmounted.'


def check(read: partitions.Read, offset: int, length: int, uuid: bytes
          ) -> None:
    """Make sure that a log is clean.

    :param offset: where it lies, in bytes.
    :param length: its bytes.
    :param uuid: of the file system.
    :raises Unusual: it is not clean.
    """
    demand(0 < length <= _MOST and length % _SECTOR == 0,
           'its log makes no sense.')
    newest = max(_headers(read, offset, length, uuid), default=None)
    if newest is None:
        demand(False, 'its log holds nothing.')
        return
    cycle, block, header = newest
    size, = struct.unpack_from('>I', header, 12)
    operations, = struct.unpack_from('>I', header, 40)
    blocks = length // _SECTOR
    version, = struct.unpack_from('>I', header, 8)
    described, = struct.unpack_from('>I', header, 320)
    headers = 1
    if version & _VERSION_2:
        headers = max(1, -(-described // _HEADER_BYTES))
    demand(operations == 1, _DIRTY)
    first = (block + headers) % blocks
    operation = read(offset + first * _SECTOR, _SECTOR)
    # Its first word is in the header: the round took its place.
    demand(bool(operation[9] & _UNMOUNT), _DIRTY)
    # What follows is of the round before: nothing was begun after it.
    after = (first + max(1, -(-size // _SECTOR))) % blocks
    following = read(offset + after * _SECTOR, _SECTOR)
    round_, = struct.unpack_from(
        '>I', following, 4 if following[:4] == _MAGIC else 0)
    demand(round_ != cycle + (after == 0 or after < block), _DIRTY)


def _headers(read: partitions.Read, offset: int, length: int, uuid: bytes
             ) -> Iterator[tuple[int, int, bytes]]:
    """Give round, block and content of each record's header."""
    for at in range(0, length, _CHUNK):
        data = read(offset + at, min(_CHUNK, length - at))
        place = data.find(_MAGIC)
        while place >= 0:
            if place % _SECTOR == 0:
                header = data[place:place + _SECTOR]
                block = (at + place) // _SECTOR
                cycle, = struct.unpack_from('>I', header, 4)
                if header[_UUID:_UUID + 16] == uuid and (
                        struct.unpack_from('>II', header, 16)
                        == (cycle, block)):
                    yield cycle, block, header
            place = data.find(_MAGIC, place + 4)
