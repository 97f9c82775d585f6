# SPDX-License-Identifier: Apache-2.0
"""What on a disk may be a part of something that has other disks too.

An image of one disk is of no use alone when a volume group, an array or a
pool needs the others. Whether it has others cannot be seen from one disk,
so it is said, and left to whoever knows.
"""

from stillframe.agent import failures
from stillframe.agent import partitions
from stillframe.agent import signatures
from stillframe.agent import source

_KINDS = {'LVM': 'a volume group of LVM', 'md': 'an array of md',
          'ZFS': 'a pool of ZFS', 'bcache': 'a bcache set',
          'bcachefs': 'a bcachefs', 'DRBD': 'a DRBD resource',
          'Stratis': 'a pool of Stratis'}


def notes(opened: source.Source) -> list[str]:
    """Give a sentence for each part that may need another disk."""
    found = []
    try:
        for part in partitions.parts(opened.read, opened.size):
            kinds = signatures.read(opened.read, part.offset,
                                    part.length).kinds
            found += [
                f'{part} belongs to {_KINDS[kind]}; if that has other '
                'disks, this image is of no use without them.'
                for kind in kinds if kind in _KINDS]
    except failures.ReadFailed:
        found.append('It could not be seen what the disk belongs to: '
                     'it has read errors.')
    return found
