# SPDX-License-Identifier: Apache-2.0
"""In which order an image is undone, told of, and forgotten."""

import threading
import types

import pytest

from stillframe.compute.imaging import imager
from stillframe.compute.imaging import points
from stillframe.compute.imaging import seeing
from stillframe.conf import CONF
from tests.unit.compute.lives import SERVER

IMAGE = '5a7d5b4c-9f0e-4a55-bd6b-6a3a6a4f0d01'


class Killed(BaseException):
    """The process is gone at this point."""


class Outbox:
    """Keeps outcomes, and looks what there is of an image by then."""

    def __init__(self, scratch):
        self.something = threading.Event()
        self._scratch = scratch
        self.imager = None
        self.killed = False
        self.told = []

    def tell(self, outcome):
        if self.killed:
            raise Killed
        self.told.append((
            outcome['result'], outcome['reason'],
            self.imager.knows(outcome['request_id']),
            list(self._scratch.iterdir())))
        self.something.set()


class Scheduler:
    """Remembers what is to be done later."""

    def __init__(self):
        self.later = {}

    def after(self, _seconds, name, call):
        self.later[name] = call


@pytest.fixture
def box(tmp_path, monkeypatch):
    scratch = tmp_path / 'scratch'
    CONF.set_override('state_path', str(tmp_path))
    CONF.set_override('scratch_path', str(scratch), 'images')
    # A stopped server, so it cannot be frozen.
    monkeypatch.setattr(seeing, 'look', lambda *_args: seeing.Seen(
        running=False, awake=False, owner=None, sizes={},
        disks=[types.SimpleNamespace(target='vda', path='/disks/vda')],
        require_quiesce=True))
    yield Outbox(scratch)
    CONF.clear_override('state_path')
    CONF.clear_override('scratch_path', 'images')


def new_life(box):
    """Make an imager over the state path, and its scheduler."""
    scheduler = Scheduler()
    box.imager = imager.Imager(
        CONF, host=None, ledger=box, freezer=None, scheduler=scheduler,
        report=lambda *_args: None, duty=None)
    return box.imager, scheduler


def create(one):
    one.create('req-1', {'server_id': SERVER, 'image_id': IMAGE,
                         'require_quiesce': True})


def test_it_is_undone_then_told_then_forgotten(box):
    one, _ = new_life(box)
    create(one)
    assert box.told == [('cannot', 'cannot_freeze', True, [])]
    assert not one.knows('req-1')


def test_a_kill_before_it_is_told(box):
    one, _ = new_life(box)
    box.killed = True
    with pytest.raises(Killed):
        create(one)
    box.killed = False
    one, _ = new_life(box)
    assert one.knows('req-1')
    one.recover()
    assert box.something.wait(10)
    one.stop()
    assert box.told == [('failed', 'restarted', True, [])]
    assert not one.knows('req-1')


def test_what_cannot_be_undone_is_not_forgotten(box, monkeypatch):
    works = threading.Event()
    tried = threading.Event()

    def leftover(*_args):
        if not works.is_set():
            raise points.NotReleased
        tried.set()
        return points.NoPoint()

    monkeypatch.setattr(points, 'leftover', leftover)
    one, scheduler = new_life(box)
    create(one)
    assert [known for _, _, known, _ in box.told] == [True]
    assert one.knows('req-1')
    works.set()
    scheduler.later['image', IMAGE]()
    assert tried.wait(10)
    one.stop()
    assert not one.knows('req-1')
