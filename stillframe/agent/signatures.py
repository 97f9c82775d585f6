# SPDX-License-Identifier: Apache-2.0
"""What a disk or partition holds, by the signatures that it carries.

For two questions only: is this the disk that the node was deployed to, and
does a file system here know what is free. Never for how an image is read:
it is a run of bytes. As old signatures often survive, what is asked for is
all of them, and whoever relies on one has to see that it is alone.
"""

import dataclasses
import uuid

from stillframe.agent import partitions

_KIB = 1 << 10
# Kind, places (offsets in bytes; negative ones from the end), bytes.
_MAGIC: tuple[tuple[str, tuple[int, ...], bytes], ...] = (
    ('ext', (1080,), b'\x53\xef'),
    ('xfs', (0,), b'XFSB'),
    ('btrfs', (64 * _KIB + 64,), b'_BHRfS_M'),
    ('LUKS', (0,), b'LUKS\xba\xbe'),
    ('LVM', (0, 512, 1024, 1536), b'LABELONE'),
    ('md', (0, 4 * _KIB, -8 * _KIB), b'\xfc\x4e\x2b\xa9'),
    ('swap', (4086, 8182, 16374, 65526), b'SWAPSPACE2'),
    ('swap', (4086, 8182, 16374, 65526), b'SWAP-SPACE'),
    ('FAT', (54,), b'FAT'),
    ('FAT', (82,), b'FAT32'),
    ('exFAT', (3,), b'EXFAT   '),
    ('NTFS', (3,), b'NTFS    '),
    ('BitLocker', (3,), b'-FVE-FS-'),
    ('ISO 9660', (32 * _KIB + 1,), b'CD001'),
    ('f2fs', (1024,), b'\x10\x20\xf5\xf2'),
    ('reiserfs', (64 * _KIB + 52, 8 * _KIB + 52), b'ReIsEr'),
    ('jfs', (32 * _KIB,), b'JFS1'),
    ('nilfs', (1030,), b'\x34\x34'),
    ('bcache', (4120,), b'\xc6\x85\x73\xf6\x4e\x1a\x45\xca'
                        b'\x82\x65\xf5\x7f\x48\xba\x6d\x81'),
    ('bcachefs', (4120,), b'\xc6\x85\x73\xf6\x66\xce\x90\xa9'
                          b'\xd9\x6a\x60\xcf\x80\x3d\xf7\xef'),
    ('bluestore', (0,), b'bluestore block device'),
    ('Stratis', (528,), b'!Stra0tis\x86\xff\x02^\x41rh'),
    ('VDO', (0,), b'dmvdo001'),
    ('DRBD', (-4 * _KIB + 60,), b'\x83\x74\x02\x6b'),
    ('DRBD', (-4 * _KIB + 60,), b'\x83\x74\x02\x6c'),
    ('DRBD', (-4 * _KIB + 60,), b'\x83\x74\x02\x6d'),
    ('squashfs', (0,), b'hsqs'),
    ('erofs', (1024,), b'\xe2\xe1\xf5\xe0'),
    ('gfs2 or ocfs2', (64 * _KIB,), b'\x01\x16\x19\x70'),
    ('ocfs2', (1024, 2048, 4096, 8192), b'OCFSV2'),
)
# ZFS writes its labels in a ring, in the machine's byte order.
_ZFS_LABEL = 256 * _KIB
_ZFS_RING = 128 * _KIB
_ZFS_MAGIC = (b'\x0c\xb1\xba\x00\x00\x00\x00\x00',
              b'\x00\x00\x00\x00\x00\xba\xb1\x0c')
_HEAD = 68 * _KIB
_TAIL = 132 * _KIB
# Where the UUID lies behind the beginning, for those that a root file
# system may be.
_UUIDS = {'ext': 1024 + 104, 'xfs': 32, 'btrfs': 64 * _KIB + 32}
_LUKS_UUID = 168
# md's oldest superblock: at the last but one 64 KiB border.
_MD_090 = 64 * _KIB


@dataclasses.dataclass(frozen=True)
class Found:
    """What signatures there are.

    :ivar kinds: their names, without repetition.
    :ivar uuids: of the file systems among them, in lower case.
    """

    kinds: tuple[str, ...]
    uuids: tuple[str, ...]


def read(disk: partitions.Read, offset: int, length: int) -> Found:
    """Look for signatures in a part of a disk.

    :param disk: reads it.
    :param offset: of the part, bytes.
    :param length: of the part, bytes.
    """
    head = disk(offset, min(_HEAD, length))
    tail_at = max(0, length - _TAIL)
    tail = disk(offset + tail_at, length - tail_at)

    def at(place: int, size: int) -> bytes:
        if place >= 0:
            return head[place:place + size]
        place += length - tail_at
        return tail[place:place + size] if place >= 0 else b''

    kinds = dict.fromkeys(
        kind for kind, places, magic in _MAGIC
        if any(at(place, len(magic)) == magic for place in places))
    if _has_old_md(at, length):
        kinds['md'] = None
    if _has_zfs(disk, offset, length):
        kinds['ZFS'] = None
    found = [str(uuid.UUID(bytes=at(_UUIDS[kind], 16)))
             for kind in kinds if kind in _UUIDS and len(head) == _HEAD]
    if 'LUKS' in kinds:
        text = at(_LUKS_UUID, 40).rstrip(b'\0').decode('ascii', 'replace')
        found.append(text.lower())
    return Found(tuple(kinds), tuple(found))


def _has_old_md(at, length: int) -> bool:
    """Look for md's superblock 0.90."""
    place = length // _MD_090 * _MD_090 - _MD_090 - length
    return at(place, 4) in (b'\xfc\x4e\x2b\xa9', b'\xa9\x2b\x4e\xfc')


def _has_zfs(disk: partitions.Read, offset: int, length: int) -> bool:
    """Look for an uberblock in ZFS's labels at both ends."""
    last = (length // _ZFS_LABEL - 1) * _ZFS_LABEL
    for label in (0, _ZFS_LABEL, last - _ZFS_LABEL, last):
        if 0 <= label <= length - _ZFS_LABEL:
            ring = disk(offset + label + _ZFS_RING, _ZFS_RING)
            if any(ring[place:place + 8] in _ZFS_MAGIC
                   for place in range(0, _ZFS_RING, _KIB)):
                return True
    return False
