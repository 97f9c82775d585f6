# SPDX-License-Identifier: Apache-2.0
"""Reading disks: where they can be read, and where they cannot."""

import errno
import os

import pytest

from stillframe.agent import failures
from stillframe.agent import source

MIB = 1 << 20


@pytest.fixture
def path(tmp_path):
    """A disk of 3 MiB and a sector of noise."""
    path = tmp_path / 'disk'
    path.write_bytes(os.urandom(3 * MIB + 512))
    return path


class Sick:
    """Makes ranges of a disk unreadable, as its sectors would be."""

    def __init__(self, monkeypatch, ranges, number=errno.EIO):
        self.reads = 0
        real = os.preadv

        def preadv(handle, views, offset):
            self.reads += 1
            length = sum(len(view) for view in views)
            for begin, count in ranges:
                if begin <= offset < begin + count:
                    raise OSError(number, os.strerror(number))
                if offset < begin < offset + length:
                    # What lies before it is there.
                    return real(handle, [views[0][:begin - offset]],
                                offset)
            return real(handle, views, offset)

        monkeypatch.setattr(os, 'preadv', preadv)


def content(opened):
    """All of a disk, read ahead."""
    pieces = ((at, min(source.PIECE, opened.size - at))
              for at in range(0, opened.size, source.PIECE))
    return b''.join(map(bytes, opened.fetch(pieces)))


def test_reads_what_is_there(path):
    with source.Source(str(path)) as opened:
        assert opened.size == 3 * MIB + 512
        assert content(opened) == path.read_bytes()
        scanned = b''.join(
            bytes(buffer.view[:length]) for _, length, buffer
            in opened.scan([(0, opened.size)]))
        assert scanned == path.read_bytes()


@pytest.mark.parametrize('offset, length', [
    (0, 1), (1, 5), (4095, 2), (3 * MIB, 512), (3 * MIB + 511, 100)])
def test_reads_a_few_bytes(path, offset, length):
    with source.Source(str(path)) as opened:
        assert opened.read(offset, length) == path.read_bytes()[
            offset:offset + length]


def test_where_the_page_cache_cannot_be_passed(path, monkeypatch):
    real = os.open

    def refuse(path_, flags, *more):
        if flags & os.O_DIRECT:
            raise OSError(errno.EINVAL, 'Invalid argument')
        return real(path_, flags, *more)

    monkeypatch.setattr(os, 'open', refuse)
    with source.Source(str(path)) as opened:
        assert content(opened) == path.read_bytes()


def test_where_that_shows_only_later(path, monkeypatch):
    real = os.preadv
    refused = []

    def refuse(handle, views, offset):
        if not refused:
            refused.append(offset)
            raise OSError(errno.EINVAL, 'Invalid argument')
        return real(handle, views, offset)

    monkeypatch.setattr(os, 'preadv', refuse)
    with source.Source(str(path)) as opened:
        assert content(opened) == path.read_bytes()
    assert refused


def test_holes_of_a_file(tmp_path):
    path = tmp_path / 'sparse'
    with path.open('wb') as file:
        file.truncate(64 * MIB)
        file.seek(32 * MIB)
        file.write(b'x' * MIB)
    with source.Source(str(path)) as opened:
        found = list(opened.data())
    assert sum(length for _, length in found) < 8 * MIB
    assert any(offset <= 32 * MIB and offset + length >= 33 * MIB
               for offset, length in found)


def test_a_bad_sector_stops_it(path, monkeypatch):
    Sick(monkeypatch, [(MIB + 1024, 512)])
    with source.Source(str(path)) as opened:
        with pytest.raises(failures.ReadFailed,
                           match=r'at byte 1048576: Input/output error'):
            content(opened)
        with pytest.raises(failures.ReadFailed):
            list(opened.scan([(0, opened.size)]))


@pytest.mark.parametrize('sector', [512, 4096])
def test_bad_sectors_become_zeroes(path, monkeypatch, sector):
    bad = [(0, 512), (MIB + 4096, 512), (MIB + 4608, 512),
           (2 * MIB - 512, 512), (3 * MIB, 512)]
    sick = Sick(monkeypatch, bad)
    expected = bytearray(path.read_bytes())
    for offset, length in bad:
        begin = offset // sector * sector
        end = min(-(-(offset + length) // sector) * sector, len(expected))
        expected[begin:end] = bytes(end - begin)
    with source.Source(str(path), sector, fill=True) as opened:
        assert content(opened) == expected
        first = opened.bad
        # Again, as a second pass over the disk does.
        assert content(opened) == expected
        assert opened.bad == first
    assert sum(length for _, length in first) == (
        5 * 512 if sector == 512 else 4 * 4096 - 3584)
    if sector == 512:
        assert first == [(0, 512), (MIB + 4096, 1024),
                         (2 * MIB - 512, 512), (3 * MIB, 512)]
    assert sick.reads < 4000


def test_a_disk_that_is_gone_is_no_bad_sector(path, monkeypatch):
    Sick(monkeypatch, [(MIB, MIB)], errno.ENODEV)
    with source.Source(str(path), fill=True) as opened, pytest.raises(
            failures.ReadFailed, match='No such device'):
        content(opened)


def test_more_bad_sectors_than_anybody_wants(path, monkeypatch):
    Sick(monkeypatch, [(at, 512) for at in range(0, 3 * MIB, 1024)])
    with source.Source(str(path), fill=True) as opened, pytest.raises(
            failures.ReadFailed, match='more than 1000 places'):
        content(opened)


def test_what_is_asked_about_free_space_is_never_filled(path, monkeypatch):
    Sick(monkeypatch, [(0, 512)])
    with source.Source(str(path), fill=True) as opened, pytest.raises(
            failures.ReadFailed):
        opened.read(0, 4096)


def test_a_disk_that_became_shorter(path):
    with source.Source(str(path)) as opened:
        os.truncate(path, MIB)
        with pytest.raises(failures.ReadFailed, match='ends there'):
            content(opened)


def test_stop(path):
    with source.Source(str(path)) as opened:
        read = opened.fetch([(0, MIB), (MIB, MIB), (2 * MIB, MIB)])
        next(read)
        opened.stop()
        with pytest.raises(failures.Stopped):
            opened.read(0, 512)
        with pytest.raises(failures.Stopped):
            next(opened.scan([(0, MIB)]))


@pytest.mark.parametrize('make', [
    lambda path: None, lambda path: path.mkdir(),
    lambda path: os.mkfifo(path), lambda path: path.write_bytes(b''),
    lambda path: path.write_bytes(bytes(513))])
def test_what_is_no_disk(tmp_path, make):
    path = tmp_path / 'x'
    make(path)
    with pytest.raises(failures.ReadFailed):
        source.Source(str(path))
