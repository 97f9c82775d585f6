# SPDX-License-Identifier: Apache-2.0
"""A guest that means harm: it makes its raw volume look like qcow2.

Whoever looks at the bytes of the volume to find out its format is led to a
file of the host (OSSA-2014-033, OSSA-2024-001).
"""

from pathlib import Path
import struct

from tests.integration.volume_snapshots.scene import Scene

WORD = b'SECRET OF THE HOST '
#: How a header can name another file.
BACKING, DATA = 'backing', 'data'
_VERSION_2 = struct.Struct('>4sIQIIQIIQQIIQ')
_VERSION_3 = struct.Struct('>QQQII')
_EXTERNAL_DATA = 1 << 2
_DATA_NAME = 0x44415441
_CLUSTER_BITS = 16
_SIZE = 1 << 30


def secret(folder: Path) -> Path:
    """Make a file of the host that no guest may see."""
    path = folder / 'secret'
    path.write_bytes(WORD * 4096)
    return path


def header(kind: str, path: Path) -> bytes:
    """Make the begin of a qcow2 image that leads to a file.

    :param kind: ``backing``: as its backing file; ``data``: as the file
        that holds its data.
    """
    name = str(path).encode()
    if kind == BACKING:
        begin = _VERSION_2.size
        return _VERSION_2.pack(
            b'QFI\xfb', 2, begin + 8, len(name), _CLUSTER_BITS, _SIZE, 0, 2,
            0x30000, 0x10000, 1, 0, 0) + bytes(8) + name
    length = _VERSION_2.size + _VERSION_3.size
    extension = struct.pack('>II', _DATA_NAME, len(name)) + name.ljust(
        -(-len(name) // 8) * 8, b'\0')
    return _VERSION_2.pack(
        b'QFI\xfb', 3, 0, 0, _CLUSTER_BITS, _SIZE, 0, 2, 0x30000, 0x10000,
        1, 0, 0) + _VERSION_3.pack(
            _EXTERNAL_DATA, 0, 0, 4, length) + extension + bytes(8)


def plant(scene: Scene, begin: bytes) -> None:
    """Have the guest write over the begin of its disk.

    There, an ext4 has room for a boot sector, so it stays whole.
    """
    assert len(begin) <= 1024
    octal = ''.join(f'\\{byte:03o}' for byte in begin)
    scene.guest.run('umount /data/vda')
    scene.guest.run(
        f"printf '{octal}' >/tmp/header; dd if=/tmp/header of=/dev/vda "
        'conv=notrunc 2>/dev/null; sync')
    path = scene.volumes.path(scene.volume)
    with path.open('rb') as file:
        assert file.read(len(begin)) == begin


def check_guest(scene: Scene) -> None:
    """Make sure that the guest reads what it wrote, and nothing else."""
    seen = scene.guest.run('dd if=/dev/vda bs=64k count=4 2>/dev/null | '
                           'busybox grep -c SECRET || true')
    assert seen.strip() == '0'
    begins = scene.guest.run('dd if=/dev/vda bs=3 count=1 2>/dev/null; echo')
    assert begins.strip() == 'QFI'


def check_raw(scene: Scene, switched: bool) -> None:
    """Make sure that the volume is raw for the hypervisor.

    :param switched: the disk is on an overlay by now.
    """
    assert [form for _, form in scene.formats()] == (
        ['qcow2', 'raw'] if switched else ['raw'])
