# SPDX-License-Identifier: Apache-2.0
"""The disk whose image is sent: 6 GiB, 2.5 GiB of data, half of it deleted.

Made of what this machine has below /usr, so that it compresses as the disks
of real machines do, in files of 2 MiB. Every other one is deleted again,
without its blocks being cleared. Needs no rights of root.
"""

from collections.abc import Iterator
import pathlib
import shutil
import subprocess

MIB = 1 << 20
SIZE = 6 << 30
_SECTOR = 512
_FIRST = 65 * MIB
_FILE = 2 * MIB
_FILES = 1260
_SOURCES = ('/usr/lib', '/usr/share', '/usr/bin')


def make(path: pathlib.Path, files: int = _FILES) -> None:
    """Make the disk.

    :param path: of the file to make; its directory has room for 6 GiB.
    :param files: of 2 MiB, half of which will be deleted.
    """
    staged = path.with_suffix('.staged')
    staged.mkdir()
    try:
        names = _stage(staged, files)
        with path.open('wb') as disk:
            disk.truncate(SIZE)
        end = SIZE - MIB
        subprocess.run(
            ['mkfs.ext4', '-q', '-F', '-L', 'root', '-d', staged, '-E',
             f'offset={_FIRST},nodiscard', path,
             f'{(end - _FIRST) // 1024}k'], check=True)
        subprocess.run(
            ['debugfs', '-w', '-f', '-', f'{path}?offset={_FIRST}'],
            input=''.join(f'rm {name}\n' for name in names[1::2]),
            text=True, check=True, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL)
        subprocess.run(
            ['sgdisk', '--new', f'1:{MIB // _SECTOR}:{_FIRST // _SECTOR - 1}',
             '--typecode', '1:ef00',
             '--new', f'2:{_FIRST // _SECTOR}:{end // _SECTOR - 1}',
             '--typecode', '2:8300', path],
            check=True, stdout=subprocess.DEVNULL)
    finally:
        shutil.rmtree(staged)


def _stage(staged: pathlib.Path, files: int) -> list[str]:
    content = _content()
    names = [f'{number:04}' for number in range(files)]
    for name in names:
        (staged / name).write_bytes(next(content))
    return names


def _content() -> Iterator[bytes]:
    """Give what is in this machine's files, 2 MiB at a time, for ever."""
    gathered = bytearray()
    while True:
        for source in _SOURCES:
            for path in sorted(pathlib.Path(source).rglob('*')):
                if path.is_symlink() or not path.is_file():
                    continue
                gathered += path.read_bytes()
                while len(gathered) >= _FILE:
                    yield bytes(gathered[:_FILE])
                    del gathered[:_FILE]
