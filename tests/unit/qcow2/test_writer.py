# SPDX-License-Identifier: Apache-2.0
"""The images that the writer makes, judged by qemu-img."""

from collections.abc import Iterable
from collections.abc import Iterator
import json
import os
import pathlib
import subprocess

import hypothesis
from hypothesis import strategies
import pytest

from stillframe.qcow2 import allocation
from stillframe.qcow2 import writer

CLUSTER = allocation.CLUSTER


class Disk:
    """A raw file that is read in pieces, as a source would."""

    def __init__(self, path: pathlib.Path):
        self.path = path

    def fetch(self, pieces: Iterable[tuple[int, int]]) -> Iterator[bytes]:
        with self.path.open('rb') as stream:
            for offset, length in pieces:
                stream.seek(offset)
                yield stream.read(length)


def make_disk(path: pathlib.Path, size: int,
              extents: Iterable[tuple[int, int]]) -> allocation.Allocation:
    """Write data into a hole, and give its map."""
    disk = allocation.Allocation(size)
    with path.open('wb') as stream:
        stream.truncate(size)
        for offset, length in extents:
            stream.seek(offset)
            stream.write(os.urandom(min(length, 1 << 16)).ljust(
                length, b'\x5a'))
            disk.mark(offset, length)
    return disk


def write(disk: allocation.Allocation, source: pathlib.Path,
          target: pathlib.Path, limit: int = 1 << 20) -> writer.Layout:
    layout = writer.Layout(disk)
    with target.open('wb') as stream:
        for data in layout.stream(Disk(source).fetch, limit):
            stream.write(data)
    assert target.stat().st_size == layout.length
    return layout


def judge(source: pathlib.Path, target: pathlib.Path) -> dict:
    """Let qemu-img check the image and compare what it reads as."""
    subprocess.run(['qemu-img', 'check', '-f', 'qcow2', target],
                   check=True, capture_output=True)
    subprocess.run(['qemu-img', 'compare', '-f', 'raw', '-F', 'qcow2',
                    source, target], check=True, capture_output=True)
    return json.loads(subprocess.run(
        ['qemu-img', 'info', '-f', 'qcow2', '--output', 'json', target],
        check=True, capture_output=True).stdout)


CASES = {
    'nothing': (1 << 20, []),
    'one sector': (512, [(0, 512)]),
    'one sector, empty': (512, []),
    'all of a cluster': (CLUSTER, [(0, CLUSTER)]),
    'a partial last cluster': (3 * CLUSTER + 1536, [(3 * CLUSTER, 1536)]),
    'a partial last cluster without data': (3 * CLUSTER + 512, [(9, 1)]),
    'both sides of an L2 table': (1 << 30, [((1 << 29) - 4096, 8192)]),
    'the last byte of many tables': (1 << 40, [((1 << 40) - 1, 1)]),
}


@pytest.mark.parametrize('size, extents', CASES.values(), ids=CASES)
def test_reads_as_the_disk(tmp_path, size, extents):
    source, target = tmp_path / 'disk', tmp_path / 'image'
    disk = make_disk(source, size, extents)
    write(disk, source, target, 8 << 20)
    info = judge(source, target)
    assert info['virtual-size'] == size
    assert 'backing-filename' not in info


def test_more_clusters_than_one_refcount_block_counts(tmp_path):
    source, target = tmp_path / 'disk', tmp_path / 'image'
    size = 9 << 30
    make_disk(source, size, [])
    disk = allocation.Allocation(size)
    disk.mark(3, size - 3)
    layout = writer.Layout(disk)
    with target.open('wb') as stream:
        for data in layout.head():
            stream.write(data)
        # All of it is stored, and is zeroes: a hole in the image's file.
        stream.truncate(layout.length)
    judge(source, target)
    data = size // CLUSTER
    # header, refcount table, five blocks, L1, and 18 L2 tables
    assert layout.length == (data + 1 + 1 + 5 + 1 + 18) * CLUSTER


@hypothesis.settings(
    max_examples=25, deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture])
@hypothesis.given(
    sectors=strategies.integers(1, 4 << 20),
    extents=strategies.lists(
        strategies.tuples(strategies.floats(0, 1),
                          strategies.integers(1, 1 << 20)), max_size=12),
    limit=strategies.integers(1, 4 << 20))
def test_any_map(tmp_path, sectors, extents, limit):
    size = sectors * 512
    placed = []
    for where, length in extents:
        offset = min(int(where * size), size - 1)
        placed.append((offset, min(length, size - offset)))
    source, target = tmp_path / 'disk', tmp_path / 'image'
    disk = make_disk(source, size, placed)
    layout = write(disk, source, target, limit)
    judge(source, target)
    # Every cluster with data once, and nothing but tables beside them.
    stored = {cluster for offset, length in placed for cluster in range(
        offset // CLUSTER, (offset + length - 1) // CLUSTER + 1)}
    assert disk.allocated == len(stored)
    tables = 4 + len({cluster // 8192 for cluster in stored})
    assert layout.length == (len(stored) + tables) * CLUSTER


def test_scan_finds_what_is_not_zero(tmp_path):
    source, target = tmp_path / 'disk', tmp_path / 'image'
    size = 40 * CLUSTER + 1024
    extents = [(5 * CLUSTER + 77, 1), (9 * CLUSTER, 2 * CLUSTER),
               (40 * CLUSTER + 1023, 1)]
    marked = make_disk(source, size, extents)
    scanned = allocation.Allocation(size)
    with source.open('rb') as stream:
        for offset in range(0, size, 8 * CLUSTER):
            scanned.scan(offset, bytearray(stream.read(8 * CLUSTER)))
    assert list(scanned.runs()) == list(marked.runs()) == [
        (5, 1), (9, 2), (40, 1)]
    write(scanned, source, target)
    judge(source, target)


def test_data_length_is_what_is_read():
    disk = allocation.Allocation(2 * CLUSTER + 512)
    assert writer.Layout(disk).data_length == 0
    disk.mark(2 * CLUSTER, 1)
    assert writer.Layout(disk).data_length == 512
    disk.mark(0, 1)
    layout = writer.Layout(disk)
    assert layout.data_length == CLUSTER + 512
    assert sum(length for _, length in layout.pieces(1)) == CLUSTER + 512


@pytest.mark.parametrize('size', (0, -512, 511, 513))
def test_refuses_what_is_no_disk(size):
    with pytest.raises(ValueError, match='sectors'):
        allocation.Allocation(size)


@pytest.mark.parametrize('offset, length', ((-1, 1), (0, 513), (512, 1)))
def test_refuses_marks_outside_the_disk(offset, length):
    with pytest.raises(ValueError, match='not inside'):
        allocation.Allocation(512).mark(offset, length)


@pytest.mark.parametrize('offset, length',
                         ((512, CLUSTER), (0, 512), (CLUSTER, 2 * CLUSTER)))
def test_refuses_to_scan_parts_of_clusters(offset, length):
    with pytest.raises(ValueError, match='whole clusters'):
        allocation.Allocation(2 * CLUSTER).scan(offset, bytearray(length))


def test_refuses_a_disk_too_large_for_the_format(monkeypatch):
    monkeypatch.setattr(writer, 'MAX_L1_BYTES', 8)
    writer.Layout(allocation.Allocation(512 << 20))
    with pytest.raises(ValueError, match='too large'):
        writer.Layout(allocation.Allocation((512 << 20) + 512))


@pytest.mark.parametrize('answers', (
    [], [b'x' * CLUSTER], [b'x' * 10, b'x' * CLUSTER],
    [b'x' * CLUSTER] * 3), ids=('none', 'one short', 'wrong length', 'more'))
def test_a_source_that_gives_something_else_is_told(answers):
    disk = allocation.Allocation(3 * CLUSTER)
    disk.mark(0, CLUSTER)
    disk.mark(2 * CLUSTER, CLUSTER)

    def fetch(pieces):
        for _, answer in zip(pieces, answers, strict=False):
            yield answer
        yield from answers[2:]

    with pytest.raises(writer.ShortRead):
        list(writer.Layout(disk).stream(fetch, CLUSTER))
