# SPDX-License-Identifier: Apache-2.0
"""The system's zstd library, through ctypes.

The standard library has none before Python 3.14, and a ramdisk has little
else. Calls give up Python's lock.
"""

import ctypes

from stillframe.agent import failures

_LIBRARY = 'libzstd.so.1'
# Measured on disks of operating systems: 3 takes a third more time for a
# thirtieth less data.
_LEVEL = 1


def load() -> ctypes.CDLL:
    """Load the library.

    :raises BadOrder: this ramdisk has none.
    """
    try:
        library = ctypes.CDLL(_LIBRARY)
    except OSError as exc:
        raise failures.BadOrder(
            f'This ramdisk has no {_LIBRARY}, so nothing can be compressed '
            'with zstd.') from exc
    library.ZSTD_createCCtx.restype = ctypes.c_void_p
    library.ZSTD_freeCCtx.argtypes = [ctypes.c_void_p]
    library.ZSTD_compressCCtx.restype = ctypes.c_size_t
    library.ZSTD_compressCCtx.argtypes = [
        ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p,
        ctypes.c_size_t, ctypes.c_int]
    library.ZSTD_isError.argtypes = [ctypes.c_size_t]
    library.ZSTD_isError.restype = ctypes.c_uint
    return library


class Compressor:
    """Compresses into frames of their own; for one thread at a time."""

    def __init__(self, library: ctypes.CDLL):
        """Prepare.

        :param library: as :func:`load` gives it.
        :raises MemoryError: there is none left.
        """
        self._library = library
        self._context = library.ZSTD_createCCtx()
        if not self._context:
            raise MemoryError('zstd has no memory for its work')

    def close(self) -> None:
        """Give its memory back."""
        self._library.ZSTD_freeCCtx(self._context)
        self._context = None

    def compress(self, source: int, length: int, target: int,
                 room: int) -> int:
        """Compress some memory.

        :param source: address of it.
        :param length: its bytes.
        :param target: address of where the frame goes.
        :param room: bytes that the frame may have at most.
        :return: bytes of the frame; 0 when it would have more.
        """
        # The one thing that can go wrong is that the room is not enough.
        size = self._library.ZSTD_compressCCtx(
            self._context, target, room, source, length, _LEVEL)
        return 0 if self._library.ZSTD_isError(size) else size
