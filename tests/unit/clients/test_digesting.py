# SPDX-License-Identifier: Apache-2.0
"""Digesting data while it passes, also some pieces behind."""

from collections import deque
import hashlib
import os

import pytest

from stillframe.clients import digesting
from stillframe.clients import images

DATA = [os.urandom(100_000) for _ in range(12)]


def reused(kept):
    """Give data in buffers that hold only so many pieces, as a disk does."""
    buffers = deque(bytearray(100_000) for _ in range(kept + 1))
    for piece in DATA:
        buffer = buffers.popleft()
        buffer[:] = piece
        yield memoryview(buffer)
        buffers.append(buffer)


@pytest.mark.parametrize('source', [
    lambda: DATA, lambda: reused(0),
    lambda: images.Lasting(reused(images.LAG)),
    lambda: images.Lasting([])])
def test_all_is_digested(source):
    told = []
    passage = digesting.Passage(source(), 'sha256', told.append)
    passed = b''.join(bytes(piece) for piece in passage)
    assert passed in (b''.join(DATA), b'')
    stored = passage.stored()
    assert (stored.size, stored.digest) == (
        len(passed), hashlib.sha256(passed).hexdigest())
    assert told == [100_000 * (number + 1)
                    for number in range(len(passed) // 100_000)]


def test_a_source_that_fails():
    def source():
        yield from DATA[:4]
        raise OSError('gone')

    passage = digesting.Passage(images.Lasting(source()), 'sha256', id)
    with pytest.raises(OSError, match='gone'):
        list(passage)


def test_closed_in_the_middle():
    passage = digesting.Passage(images.Lasting(DATA), 'sha256', id)
    next(iter(passage))
    passage.close()
    assert passage.read(10) == b''
