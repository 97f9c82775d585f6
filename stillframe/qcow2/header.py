# SPDX-License-Identifier: Apache-2.0
"""What the header of a qcow2 file says: a strict reader.

For files of which it is known from elsewhere that they are qcow2. Reading a
header to find out *whether* a file is qcow2 would be probing: a guest that
owns a raw disk can write any header into it. So a file that is not a clean
qcow2 is an error here, never an answer.

Reads are bounded and nothing that is named in a header is opened. The
layout is that of QEMU's docs/interop/qcow2.txt.
"""

import dataclasses
import os
import stat
import struct

MAGIC = b'QFI\xfb'

_FIXED = struct.Struct('>4sIQIIQIIQQIIQ')
_VERSION_3 = struct.Struct('>QQQII')
_EXTENSION = struct.Struct('>II')

_END_OF_EXTENSIONS = 0
_BACKING_FORMAT = 0xe2792aca
_DATA_FILE = 0x44415441
_ENCRYPTION = 0x0537be77

_DIRTY = 1 << 0
_CORRUPT = 1 << 1
_EXTERNAL_DATA = 1 << 2
_COMPRESSION_TYPE = 1 << 3
_EXTENDED_L2 = 1 << 4
_KNOWN_INCOMPATIBLE = (_DIRTY | _CORRUPT | _EXTERNAL_DATA
                       | _COMPRESSION_TYPE | _EXTENDED_L2)

# Limits of QEMU itself: what is beyond them no guest could have used.
_LONGEST_NAME = 1023
_CLUSTER_BITS = range(9, 22)
_MOST_L1_BYTES = 32 << 20


class BadHeader(Exception):
    """The file is not a qcow2 that could be used; the text says why."""


@dataclasses.dataclass(frozen=True)
class Header:
    """A qcow2 file as its header describes it.

    :ivar size: bytes of the disk that the guest sees.
    :ivar backing_file: name of the file below, exactly as written; None
        for a file that stands alone.
    :ivar backing_format: its format as written; None where the header
        leaves it to probing.
    :ivar data_file: whether the data lies in another file.
    :ivar encrypted: whether the data is encrypted.
    :ivar corrupt: whether QEMU marked it as damaged.
    :ivar snapshots: number of snapshots inside the file.
    :ivar l1_offset: where the table of the allocated parts begins, bytes.
    :ivar l1_entries: number of entries of that table.
    """

    version: int
    size: int
    cluster_bits: int
    backing_file: str | None
    backing_format: str | None
    data_file: bool
    encrypted: bool
    corrupt: bool
    snapshots: int
    l1_offset: int
    l1_entries: int


def parse(blob: bytes) -> Header:
    """Read a header from the first cluster of a file.

    :param blob: the file's first cluster, or all of a shorter file.
    :raises BadHeader: it is no header, or not one of a usable file.
    """
    fields = _fixed(blob)
    version, cluster_bits = fields[1], fields[4]
    incompatible, length = 0, _FIXED.size
    if version == 3:
        incompatible, length = _version_3(blob)
    cluster = blob[:1 << cluster_bits]
    extensions = _extensions(cluster, length)
    backing_format = extensions.get(_BACKING_FORMAT)
    return Header(
        version=version, size=fields[5], cluster_bits=cluster_bits,
        backing_file=_backing_file(cluster, fields[2], fields[3], length),
        backing_format=(None if backing_format is None
                        else _text(backing_format, 'backing format')),
        data_file=(bool(incompatible & _EXTERNAL_DATA)
                   or _DATA_FILE in extensions),
        encrypted=fields[6] != 0 or _ENCRYPTION in extensions,
        corrupt=bool(incompatible & _CORRUPT),
        snapshots=fields[11], l1_offset=fields[8], l1_entries=fields[7])


def _fixed(blob: bytes) -> tuple:
    if blob[:4] != MAGIC:
        raise BadHeader('it does not begin like a qcow2 file')
    if len(blob) < _FIXED.size:
        raise BadHeader('it is shorter than a qcow2 header')
    fields = _FIXED.unpack_from(blob)
    if fields[1] not in (2, 3):
        raise BadHeader(f'qcow2 version {fields[1]} is not known')
    if fields[4] not in _CLUSTER_BITS:
        raise BadHeader(f'a cluster size of 2^{fields[4]} is not allowed')
    if fields[7] * 8 > _MOST_L1_BYTES:
        raise BadHeader('its L1 table is larger than any may be')
    return fields


def _version_3(blob: bytes) -> tuple[int, int]:
    """Give the incompatible features and the length of the header."""
    if len(blob) < _FIXED.size + _VERSION_3.size:
        raise BadHeader('it is shorter than a qcow2 header')
    incompatible, _, _, _, length = _VERSION_3.unpack_from(
        blob, _FIXED.size)
    if incompatible & ~_KNOWN_INCOMPATIBLE:
        raise BadHeader('it uses features that are not known')
    if length % 8 or not _FIXED.size + _VERSION_3.size <= length <= len(blob):
        raise BadHeader(f'a header length of {length} is not allowed')
    return incompatible, length


def _extensions(cluster: bytes, offset: int) -> dict[int, bytes]:
    """Collect the header's extensions by their type."""
    found: dict[int, bytes] = {}
    while offset + _EXTENSION.size <= len(cluster):
        kind, length = _EXTENSION.unpack_from(cluster, offset)
        if kind == _END_OF_EXTENSIONS:
            return found
        offset += _EXTENSION.size
        if length > len(cluster) - offset:
            raise BadHeader('a header extension is longer than a cluster')
        if kind in found:
            raise BadHeader('a header extension is there twice')
        found[kind] = cluster[offset:offset + length]
        offset += (length + 7) // 8 * 8
    raise BadHeader('its header extensions do not end')


def _backing_file(cluster: bytes, offset: int, length: int,
                  least: int) -> str | None:
    if not offset:
        return None
    if not 0 < length <= _LONGEST_NAME:
        raise BadHeader(f'a backing file name of {length} bytes is not '
                        'allowed')
    if offset < least or offset + length > len(cluster):
        raise BadHeader('its backing file name lies outside of the header')
    return _text(cluster[offset:offset + length], 'backing file name')


def _text(data: bytes, what: str) -> str:
    try:
        text = data.decode('utf-8')
    except UnicodeDecodeError:
        raise BadHeader(f'its {what} is not UTF-8') from None
    if not text or not text.isprintable():
        raise BadHeader(f'its {what} holds what no name may hold')
    return text


def read(path: str | os.PathLike, empty: bool = False) -> Header:
    """Read the header of a file.

    :param empty: also make sure that no data is allocated in it.
    :raises BadHeader: it is not a usable qcow2 file, or not empty.
    :raises OSError: it cannot be read; a symbolic link is not followed.
    """
    # Not waiting, for a named pipe would hold us for ever.
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
                     | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise BadHeader('it is not a regular file')
        bits = _fixed(os.pread(handle, _FIXED.size, 0))[4]
        header = parse(os.pread(handle, 1 << bits, 0))
        if empty and _allocated(handle, header):
            raise BadHeader('it holds data already')
        return header
    finally:
        os.close(handle)


def _allocated(handle: int, header: Header) -> bool:
    """Tell whether any part of the disk has data in this file."""
    left, offset = header.l1_entries * 8, header.l1_offset
    while left:
        table = os.pread(handle, min(left, 1 << 20), offset)
        if not table:
            raise BadHeader('it ends before its L1 table does')
        if table.count(0) != len(table):
            return True
        left -= len(table)
        offset += len(table)
    return False
