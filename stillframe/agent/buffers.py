# SPDX-License-Identifier: Apache-2.0
"""Memory that a disk can write into by itself."""

import ctypes

#: What the memory and the place of such a read have to be multiples of: the
#: largest sector of any disk.
ALIGN = 4096


def aligned(count: int) -> int:
    """Give the next multiple of :data:`ALIGN`."""
    return -(-count // ALIGN) * ALIGN


class Buffer:
    """One piece of it, which can be searched as a bytearray.

    :ivar memory: all of it.
    :ivar start: where the aligned part begins.
    :ivar address: of the aligned part.
    :ivar view: the aligned part.
    """

    def __init__(self, size: int):
        """Allocate.

        :param size: bytes; a multiple of 4096.
        """
        self.memory = bytearray(size + ALIGN)
        base = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        self.start = -base % ALIGN
        self.address = base + self.start
        self.view = memoryview(self.memory)[self.start:self.start + size]
