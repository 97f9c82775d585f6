# SPDX-License-Identifier: Apache-2.0
"""Reading a disk: in large pieces, past the page cache, errors and all.

A disk is a run of bytes here. Nothing looks at what the bytes are: whoever
owns the node can write the header of any format into its first sector.
"""

from collections.abc import Iterable
from collections.abc import Iterator
import errno
import fcntl
import os
import queue
import stat
import threading

from stillframe.agent import buffers
from stillframe.agent import failures

#: Bytes of one read; larger ones fall out of the processor's cache between
#: reading and digesting.
PIECE = 1 << 20
# Bytes of one read when nothing but zeroes is looked for.
_SCAN = 4 << 20
_BUFFERS = 4
_RETRY = 64 << 10
_MOST_BAD = 1000
# What a disk says of a sector that it cannot read. Anything else is a disk
# that is gone.
_BAD_SECTOR = (errno.EIO, errno.EREMOTEIO, errno.EILSEQ, errno.ENODATA,
               errno.ETIMEDOUT)
#: Seconds that a thread gets to end whose read is under way.
LAST_READ = 5.0


class Source:
    """One disk, or a file that stands for one; only ever read.

    :ivar path: of the device.
    :ivar size: bytes.
    :ivar bad: ranges (offset, length) that could not be read, ascending.
    """

    def __init__(self, path: str, sector: int = 512, fill: bool = False):
        """Open it.

        :param path: of a block device or a regular file.
        :param sector: bytes of the disk's logical sector.
        :param fill: go on after a read error, with zeroes in place of the
            sectors that cannot be read.
        :raises ReadFailed: it cannot be opened, or is neither.
        """
        self.path = path
        self.bad: list[tuple[int, int]] = []
        self.sector = sector
        self._fill = fill
        self._stopping = False
        self._noting = threading.Lock()
        self._direct = True
        try:
            self._handle = self._open(os.O_DIRECT)
        except OSError as exc:
            raise failures.ReadFailed(
                f'{path} cannot be opened: {exc.strerror}.') from exc
        try:
            mode = os.fstat(self._handle).st_mode
            if not stat.S_ISBLK(mode) and not stat.S_ISREG(mode):
                raise failures.ReadFailed(f'{path} is not a disk.')
            self._is_file = stat.S_ISREG(mode)
            self.size = os.lseek(self._handle, 0, os.SEEK_END)
            if self.size <= 0 or self.size % 512:
                raise failures.ReadFailed(
                    f'{path} has {self.size} bytes, as no disk has.')
        except BaseException:
            os.close(self._handle)
            raise

    def __enter__(self) -> 'Source':
        return self

    def __exit__(self, *_exc: object) -> None:
        os.close(self._handle)

    def _open(self, direct: int) -> int:
        # Not waiting, for a named pipe would hold us for ever.
        flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
        try:
            return os.open(self.path, flags | direct)
        except OSError as exc:
            if not direct or exc.errno != errno.EINVAL:
                raise
        # Not every file system can read past the page cache.
        self._direct = False
        return os.open(self.path, flags)

    def stop(self) -> None:
        """Have the next read raise Stopped; from another thread.

        Nothing ends a read of a disk that hangs.
        """
        self._stopping = True

    def data(self) -> Iterator[tuple[int, int]]:
        """Give the ranges (offset, length) that may hold data, ascending.

        A file's holes are left out. A block device has none.
        """
        offset = 0
        while offset < self.size:
            begin, end = offset, self.size
            if self._is_file:
                try:
                    begin = os.lseek(self._handle, offset, os.SEEK_DATA)
                    end = min(os.lseek(self._handle, begin, os.SEEK_HOLE),
                              self.size)
                except OSError as exc:
                    if exc.errno == errno.ENXIO:
                        return
                    # The file system cannot tell: all of it is data.
            yield begin, end - begin
            offset = end

    def scan(self, ranges: Iterable[tuple[int, int]]
             ) -> Iterator[tuple[int, int, buffers.Buffer]]:
        """Read ranges, in pieces, into one buffer.

        :param ranges: offsets and lengths; multiples of 4096, but for the
            disk's end.
        :return: offset, length and the buffer, which is good until the
            next is taken.
        :raises ReadFailed: the disk cannot be read there.
        :raises Stopped: :meth:`stop` was called.
        """
        buffer = buffers.Buffer(_SCAN)
        for offset, length in ranges:
            for at in range(offset, offset + length, _SCAN):
                count = min(_SCAN, offset + length - at)
                self.read_into(buffer.view[:count], at)
                yield at, count, buffer

    def fetch(self, pieces: Iterable[tuple[int, int]]
              ) -> Iterator[memoryview]:
        """Read pieces, ahead of whoever takes them.

        :param pieces: offsets and lengths, at most :data:`PIECE`; taken in
            another thread.
        :return: what was read of each; good until the next is taken.
        :raises ReadFailed, Stopped: as :meth:`scan`.
        """
        for buffer, length in self.fetch_buffers(pieces, PIECE):
            yield buffer.view[:length]

    def fetch_buffers(self, pieces: Iterable[tuple[int, int]], size: int
                      ) -> Iterator[tuple[buffers.Buffer, int]]:
        """Read pieces ahead; give the buffers themselves.

        :param size: bytes of a buffer: the longest piece.
        :raises ReadFailed, Stopped: as :meth:`scan`.
        """
        free: queue.SimpleQueue = queue.SimpleQueue()
        full: queue.SimpleQueue = queue.SimpleQueue()
        for _ in range(_BUFFERS):
            free.put(buffers.Buffer(size))

        def read() -> None:
            try:
                for offset, length in pieces:
                    buffer = free.get()
                    if buffer is None:
                        return
                    self.read_into(buffer.view[:length], offset)
                    full.put((buffer, length))
                full.put(None)
            except BaseException as exc:  # noqa: BLE001
                # Raised anew where it is of use.
                full.put(exc)

        reader = threading.Thread(target=read, name='reader', daemon=True)
        reader.start()
        try:
            while (item := full.get()) is not None:
                if isinstance(item, BaseException):
                    raise item
                yield item
                free.put(item[0])
        finally:
            free.put(None)
            reader.join(LAST_READ)

    def _check(self) -> None:
        if self._stopping:
            raise failures.Stopped('The stream was stopped.')

    def read(self, offset: int, length: int) -> bytes:
        """Read a few bytes; a read error is one, whatever is to be done.

        :param offset: bytes, not beyond the disk's end.
        :param length: bytes; less are given at the disk's end.
        :raises ReadFailed: the disk cannot be read there.
        :raises Stopped: :meth:`stop` was called.
        """
        self._check()
        length = min(length, self.size - offset)
        begin = offset - offset % buffers.ALIGN
        end = min(buffers.aligned(offset + length), self.size)
        buffer = buffers.Buffer(buffers.aligned(end - begin))
        trouble = self._try(buffer.view[:end - begin], begin)
        if trouble is not None:
            raise self._failed(begin, trouble)
        return bytes(buffer.view[offset - begin:offset - begin + length])

    def read_into(self, view: memoryview, offset: int) -> None:
        """Fill memory with what the disk has at a place.

        :param view: aligned memory.
        :param offset: bytes; a multiple of 4096.
        :raises ReadFailed, Stopped: as :meth:`scan`.
        """
        self._check()
        trouble = self._try(view, offset)
        if trouble is None:
            return
        if not self._fill or trouble.errno not in _BAD_SECTOR:
            raise self._failed(offset, trouble)
        # Each failing read may take the disk seconds: few of them, so by
        # large steps first.
        for at, part in _steps(view, _RETRY):
            if self._try(part, offset + at) is not None:
                self._salvage(part, offset + at)

    def _salvage(self, view: memoryview, offset: int) -> None:
        """Read sector by sector; zeroes for those that cannot be."""
        for at, part in _steps(view, self.sector):
            self._check()
            trouble = self._try(part, offset + at)
            if trouble is not None:
                if trouble.errno not in _BAD_SECTOR:
                    raise self._failed(offset + at, trouble)
                part[:] = bytes(len(part))
                self._note(offset + at, len(part))

    def _try(self, view: memoryview, offset: int) -> OSError | None:
        """Fill memory; give the error if that cannot be done."""
        done = 0
        while done < len(view):
            try:
                count = os.preadv(self._handle, [view[done:]],
                                  offset + done)
            except OSError as exc:
                if exc.errno != errno.EINVAL or not self._direct:
                    return exc
                # Parts of sectors, or a device that cannot: by the cache.
                self._direct = False
                fcntl.fcntl(self._handle, fcntl.F_SETFL, 0)
                continue
            if not count:
                return OSError(errno.ENXIO, 'it ends there')
            done += count
        if not self._direct:
            os.posix_fadvise(self._handle, offset, len(view),
                             os.POSIX_FADV_DONTNEED)
        return None

    def _failed(self, offset: int, trouble: OSError) -> failures.ReadFailed:
        return failures.ReadFailed(
            f'{self.path} cannot be read at byte {offset}: '
            f'{trouble.strerror}.')

    def _note(self, offset: int, length: int) -> None:
        """Remember a range that cannot be read."""
        with self._noting:
            ranges: list[tuple[int, int]] = []
            for begin, count in sorted({*self.bad, (offset, length)}):
                if ranges and begin <= sum(ranges[-1]):
                    last, reach = ranges[-1][0], sum(ranges[-1])
                    ranges[-1] = last, max(reach, begin + count) - last
                else:
                    ranges.append((begin, count))
            self.bad = ranges
        if len(ranges) > _MOST_BAD:
            raise failures.ReadFailed(
                f'{self.path} cannot be read in more than {_MOST_BAD} '
                f'places; the last is at byte {offset}.')


def _steps(view: memoryview, step: int
           ) -> Iterator[tuple[int, memoryview]]:
    for at in range(0, len(view), step):
        yield at, view[at:at + step]

