# SPDX-License-Identifier: Apache-2.0
"""How long Cinder is told."""

import pytest

from stillframe.conductor import telling


@pytest.mark.parametrize(('attempts', 'wait'), [
    (0, 1), (1, 2), (5, 32), (6, 60), (10_000, 60)])
def test_wait_after(attempts, wait):
    assert telling.wait_after(attempts, 1, 60) == wait


@pytest.mark.parametrize(('attempts', 'seconds'), [
    (0, 0), (1, 1), (3, 7), (6, 63), (7, 123)])
def test_tried_for(attempts, seconds):
    assert telling.tried_for(attempts, 1, 60) == seconds
