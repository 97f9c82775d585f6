# SPDX-License-Identifier: Apache-2.0
"""What goes on going wrong is said now and then."""

import logging

from stillframe.compute.libvirt import complaints


class Clock:
    """A clock that the test moves."""

    def __init__(self):
        self.now = 50.0

    def __call__(self):
        return self.now


def test_a_reason_is_said_once_in_ten_minutes():
    clock = Clock()
    one = complaints.Complaints(clock)
    levels = []
    for _ in range(130):
        levels.append(one.level('no socket'))
        clock.now += 10
    assert [number for number, level in enumerate(levels)
            if level == logging.ERROR] == [0, 60, 120]
    assert set(levels) == {logging.ERROR, logging.DEBUG}


def test_reasons_that_take_turns_are_said_once_each():
    one = complaints.Complaints(Clock())
    levels = [one.level(reason) for _ in range(5)
              for reason in ('no socket', 'refused')]
    assert levels == [logging.ERROR] * 2 + [logging.DEBUG] * 8


def test_what_went_well_in_between_begins_anew():
    clock = Clock()
    one = complaints.Complaints(clock)
    assert one.over() is None
    one.level('no socket')
    clock.now += 7
    one.level('refused')
    assert one.over() == 7
    assert one.over() is None
    assert one.level('no socket') == logging.ERROR
