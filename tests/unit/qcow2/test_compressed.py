# SPDX-License-Identifier: Apache-2.0
"""Compressed images, judged by qemu-img."""

import ctypes
import json
import pathlib
import random
import subprocess

import hypothesis
from hypothesis import strategies
import pytest

from stillframe.agent import zstd
from stillframe.qcow2 import allocation
from stillframe.qcow2 import compressed

CLUSTER = allocation.CLUSTER
SPAN = 8192
KINDS = ('text', 'noise', 'constant')


class Writer:
    """Writes an image into a file, and the disk beside it."""

    def __init__(self, folder: pathlib.Path, size: int):
        self.disk, self.image = folder / 'disk', folder / 'image'
        self._compressor = zstd.Compressor(zstd.load())
        self._size = size
        self._made = compressed.Image(size)
        self._raw = self.disk.open('wb')
        self._raw.truncate(size)
        self._file = self.image.open('wb')
        self._put(self._made.begin())

    def _put(self, buffers):
        for data in buffers:
            # Zeroes are a hole, so that a file can be larger than a test.
            content = bytes(data)
            if content.count(0) == len(content):
                self._file.seek(len(content), 1)
            else:
                self._file.write(content)

    def add(self, clusters):
        """Add clusters of one span: numbers and contents."""
        frames, packed, plain = [], b'', []
        for cluster, content in clusters:
            self._raw.seek(cluster * CLUSTER)
            room = self._size - cluster * CLUSTER
            content = content[:room].ljust(CLUSTER, b'\0')
            self._raw.write(content[:room])
            frame = self._compress(content)
            if frame:
                frames.append((cluster, len(frame)))
                packed += frame
            else:
                plain.append((cluster, content))
        if frames:
            self._put(self._made.packed(frames, packed))
        for cluster, content in plain:
            self._put(self._made.plain(cluster, content))

    def add_plain(self, cluster, content):
        self._put(self._made.plain(cluster, content))

    def _compress(self, content):
        target = ctypes.create_string_buffer(CLUSTER)
        source = ctypes.create_string_buffer(content, CLUSTER)
        size = self._compressor.compress(
            ctypes.addressof(source), CLUSTER, ctypes.addressof(target),
            compressed.WORTHLESS)
        return target.raw[:size]

    def close(self):
        self._put(self._made.end())
        self._file.truncate(self._file.tell())
        self._file.seek(0)
        self._file.write(self._made.header())
        self._file.close()
        self._raw.close()
        self._compressor.close()
        assert self.image.stat().st_size <= compressed.limit(self._size)

    def judge(self):
        subprocess.run(['qemu-img', 'check', '-f', 'qcow2', self.image],
                       check=True, capture_output=True)
        subprocess.run(['qemu-img', 'compare', '-f', 'raw', '-F', 'qcow2',
                        self.disk, self.image], check=True,
                       capture_output=True)
        return json.loads(subprocess.run(
            ['qemu-img', 'info', '-f', 'qcow2', '--output', 'json',
             self.image], check=True, capture_output=True).stdout)


def content(kind, number):
    """Make what a cluster holds."""
    if kind == 'text':
        return f'line {number}\n'.encode().ljust(16) * 4096
    if kind == 'noise':
        return random.Random(number).randbytes(CLUSTER)
    return bytes([number % 255 + 1]) * CLUSTER


def test_nothing(tmp_path):
    image = Writer(tmp_path, 1 << 20)
    image.close()
    info = image.judge()
    assert info['virtual-size'] == 1 << 20
    assert info['format-specific']['data']['compression-type'] == 'zstd'


@pytest.mark.parametrize('kind', KINDS)
def test_one_kind(tmp_path, kind):
    image = Writer(tmp_path, 100 * CLUSTER + 512)
    for first in range(0, 101, 16):
        image.add([(number, content(kind, number))
                   for number in range(first, min(first + 16, 101))])
    image.close()
    image.judge()
    smaller = image.image.stat().st_size < 60 * CLUSTER
    assert smaller == (kind != 'noise')


def test_noise_among_text_wastes_little(tmp_path):
    image = Writer(tmp_path, 2000 * CLUSTER)
    for number in range(2000):
        image.add([(number, content(('noise', 'constant')[number % 2],
                                    number))])
    image.close()
    image.judge()
    assert image.image.stat().st_size < 1050 * CLUSTER


@hypothesis.settings(
    max_examples=25, deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture])
@hypothesis.given(
    sectors=strategies.integers(1, 4 << 20),
    clusters=strategies.dictionaries(
        strategies.floats(0, 1), strategies.sampled_from(KINDS),
        max_size=60))
def test_any_clusters(tmp_path, sectors, clusters):
    size = sectors * 512
    last = (size - 1) // CLUSTER
    image = Writer(tmp_path, size)
    placed = {int(where * last): kind for where, kind in clusters.items()}
    for number in sorted(placed):
        image.add([(number, content(placed[number], number))])
    image.close()
    image.judge()


def test_more_clusters_than_one_refcount_block_counts(tmp_path):
    count = 5 << 14
    image = Writer(tmp_path, count * CLUSTER)
    zeroes = bytes(CLUSTER)
    for number in range(count):
        if number % 1000 == 500:
            image.add([(number, content('text', number))])
        else:
            # Stored, and zeroes: a hole in the image's file.
            image.add_plain(number, zeroes)
    image.close()
    image.judge()


def test_terabytes(tmp_path):
    image = Writer(tmp_path, 8 << 40)
    for number in (0, (1 << 27) - 1):
        image.add([(number, content('text', number))])
    image.close()
    assert image.judge()['virtual-size'] == 8 << 40


def test_refuses_clusters_of_several_tables():
    image = compressed.Image(1 << 40)
    list(image.begin())
    with pytest.raises(ValueError, match='several tables'):
        list(image.packed([(SPAN - 1, 20), (SPAN, 20)], bytes(40)))


def test_refuses_other_lengths():
    image = compressed.Image(1 << 20)
    list(image.begin())
    with pytest.raises(ValueError, match='as long'):
        list(image.packed([(0, 20)], bytes(40)))


def test_refuses_too_large_a_disk():
    with pytest.raises(ValueError, match='too large'):
        compressed.Image(1 << 62)
