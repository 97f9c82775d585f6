# SPDX-License-Identifier: Apache-2.0
"""One bit that is wrong in what a file system says: nothing is skipped."""

import pathlib
import random
import subprocess

import pytest

from stillframe.agent import source
from stillframe.agent.freespace import btrfs
from stillframe.agent.freespace import ext4
from stillframe.agent.freespace import unusual
from stillframe.agent.freespace import xfs

MIB = 1 << 20
KINDS = {
    'ext4': (ext4.free, ['mkfs.ext4', '-q', '-F', '-d']),
    'btrfs': (btrfs.free, ['mkfs.btrfs', '-q', '-f', '--rootdir']),
    'xfs': (xfs.free, ['mkfs.xfs', '-q', '-f', '-p']),
}


def make(kind: str, folder: pathlib.Path) -> pathlib.Path:
    """Make a file system with some files in it, without mounting it."""
    files, image = folder / 'files', folder / 'image'
    files.mkdir()
    chance = random.Random(1)
    for number in range(50):
        (files / str(number)).write_bytes(
            chance.randbytes(chance.randrange(200_000)))
    with image.open('wb') as file:
        file.truncate(320 * MIB)
    command = KINDS[kind][1]
    if kind == 'xfs':
        listed = folder / 'listed'
        listed.write_text('/\n0 0\nd--755 0 0\n' + ''.join(
            f'{one.name} ---644 0 0 {one}\n' for one in files.iterdir())
            + '$\n')
        files = listed
    subprocess.run([*command, files, image], check=True,
                   capture_output=True, timeout=60)
    return image


@pytest.mark.parametrize('kind', KINDS)
def test_a_wrong_bit(kind, tmp_path):
    image = make(kind, tmp_path)
    free = KINDS[kind][0]
    asked: list[tuple[int, int]] = []
    wrong: tuple[int, int] | None = None
    with source.Source(str(image)) as opened:

        def read(offset: int, length: int) -> bytes:
            data = bytearray(opened.read(offset, length))
            if wrong is None:
                asked.append((offset, length))
            elif offset <= wrong[0] < offset + length:
                data[wrong[0] - offset] ^= wrong[1]
            return bytes(data)

        expected = list(free(read, opened.size))
        assert sum(length for _, length in expected) > 10 * MIB
        # All but the log of XFS, which is looked through each time and
        # has no more to say than whether it is clean.
        small = [one for one in asked if one[1] <= 65536]
        refused = 0
        chance = random.Random(2)
        for _ in range(15 if kind == 'xfs' else 60):
            # All reads alike, as the largest say the least.
            offset, length = chance.choice(small)
            wrong = (offset + chance.randrange(length),
                     1 << chance.randrange(8))
            try:
                found = list(free(read, opened.size))
            except unusual.Unusual:
                refused += 1
            else:
                # A bit that says nothing about what is free.
                assert found == expected, wrong
    assert refused > 3
