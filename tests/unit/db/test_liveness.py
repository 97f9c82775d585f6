# SPDX-License-Identifier: Apache-2.0
"""Who is alive is not decided by a wall clock that may step."""

import datetime

import pytest

from stillframe.db import base
from stillframe.db import liveness

DOWN_TIME = 20.0


class Scene:
    """A service, its watcher, and the two clocks."""

    def __init__(self):
        self.now = 1000.0
        self.count = 0
        self.wall_error = 0.0
        self.silent = 0.0
        self._watcher = liveness.Liveness(DOWN_TIME, lambda: self.now)

    def report(self):
        """The service reports."""
        self.count += 1
        self.silent = 0.0

    def wait(self, seconds, reports=False):
        """Time passes; the service reports every 5 s, or not."""
        while seconds > 0:
            step = min(seconds, 5.0)
            self.now += step
            self.silent += step
            seconds -= step
            if reports:
                self.report()

    def is_up(self):
        """What the watcher says now."""
        last_seen = base.utcnow() - datetime.timedelta(
            seconds=self.silent + self.wall_error)
        return self._watcher.is_up({
            'id': 1, 'started_at': 's', 'report_count': self.count,
            'last_seen': last_seen})


@pytest.fixture
def scene():
    return Scene()


@pytest.mark.parametrize(('silent', 'up'), [
    (0.0, True), (19.0, True), (21.0, False), (-19.0, True),
    (-3600.0, False)])
def test_at_the_first_look_the_wall_clock_decides(scene, silent, up):
    scene.silent = silent
    assert scene.is_up() is up


def test_a_service_that_goes_silent_is_down(scene):
    scene.report()
    assert scene.is_up()
    scene.wait(19)
    assert scene.is_up()
    scene.wait(2)
    assert not scene.is_up()


@pytest.mark.parametrize('step', [3600.0, -3600.0])
def test_a_step_of_the_wall_clock_changes_nothing_for_the_living(
        scene, step):
    scene.report()
    assert scene.is_up()
    scene.wait(10, reports=True)
    assert scene.is_up()
    scene.wall_error = step
    assert scene.is_up()
    scene.wait(10, reports=True)
    assert scene.is_up()


def test_a_step_of_the_wall_clock_does_not_wake_the_dead(scene):
    scene.report()
    assert scene.is_up()
    scene.wait(100)
    scene.wall_error = -100.0
    assert not scene.is_up()


def test_a_change_after_a_long_time_says_little(scene):
    scene.report()
    assert scene.is_up()
    # It reported once more and died; nobody looked.
    scene.wait(5, reports=True)
    scene.wait(1000)
    assert not scene.is_up()


def test_a_service_that_came_back_is_up(scene):
    scene.report()
    assert scene.is_up()
    scene.wait(100)
    assert not scene.is_up()
    scene.report()
    assert scene.is_up()
