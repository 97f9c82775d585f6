# SPDX-License-Identifier: Apache-2.0
"""By which names a disk is known from the time of its deployment.

Ironic keeps for a node the UUID of the root file system (an image of a
partition was deployed), or what identifies the disk (an image of a whole
disk). A root file system may lie in LVM, LUKS or md: where the ramdisk has
activated those, they are looked into too.
"""

from collections.abc import Iterator
import contextlib
import pathlib

from stillframe.agent import disks
from stillframe.agent import failures
from stillframe.agent import partitions
from stillframe.agent import signatures
from stillframe.agent import source

#: Of a disk to which nobody has given an identifier.
NONE = '0x00000000'


def names(disk: disks.Disk, root: pathlib.Path = pathlib.Path('/')
          ) -> set[str]:
    """Give all names of a disk, in lower case; none of what cannot be read.

    :param root: where the machine's files begin.
    """
    found = set(_own(disk.name))
    for holder in _holders(root / 'sys/class/block', disk.name):
        found |= _own(str(root / 'dev' / holder))
    return found


def _own(path: str) -> set[str]:
    """Give the names in a block device itself, as far as it can be read."""
    found: set[str] = set()
    with contextlib.suppress(failures.ReadFailed), \
            source.Source(path) as opened:
        found.update(_read(opened))
    return found


def _read(opened: source.Source) -> Iterator[str]:
    yield partitions.disk_identifier(opened.read)
    table = partitions.read(opened.read, opened.size)
    parts = [(0, opened.size)]
    if table is not None:
        yield table.uuid
        for one in table.partitions:
            yield one.uuid
            parts.append((one.offset, one.length))
    for offset, length in parts:
        yield from signatures.read(opened.read, offset, length).uuids


def _holders(blocks: pathlib.Path, name: str) -> set[str]:
    """Give what is made of a disk or of its partitions, all the way up."""
    found: set[str] = set()
    todo = [pathlib.PurePath(name).name]
    while todo:
        entry = blocks / todo.pop()
        parts = [entry, *(one.parent for one in entry.glob('*/partition'))]
        for part in parts:
            new = {one.name for one in part.glob('holders/*')} - found
            found |= new
            todo += new
    return found
