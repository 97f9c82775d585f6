# SPDX-License-Identifier: Apache-2.0
"""A conductor's tools, on SQLite, with made-up hardware."""

import pytest

from stillframe.conductor import receiver
from stillframe.conductor.baremetal import tasks
from stillframe.conductor.baremetal import upload
from stillframe.conductor.baremetal import workers
from stillframe.conf import CONF
from stillframe.db import ring
from stillframe.db import services
from stillframe.drivers import factory
from tests.unit.db import node_scenes as scenes
from tests.unit.db.conftest import database
from tests.unit.db.conftest import migrated

__all__ = ['database', 'migrated']


class Clock:
    """A clock that tests turn."""

    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    """A clock that tests turn."""
    return Clock()


@pytest.fixture
def tools(database, tmp_path):
    """What a conductor works with; it is alive."""
    settings = {
        ('state_path', None): str(tmp_path),
        ('host', 'conductor'): scenes.HOST,
        ('enabled_hardware_types', 'drivers'): ['fake-hardware'],
        ('retry_wait', 'baremetal'): 0.0,
        ('ring_interval', 'baremetal'): 0.1,
        # Few looks cover much time.
        ('watch_interval', 'baremetal'): 50.0}
    for (name, group), value in settings.items():
        CONF.set_override(name, value, group)
    services.report(scenes.HOST, services.CONDUCTOR, 'life', 1, {
        'drivers': ['fake-hardware'], 'groups': ['']})
    made = tasks.Tools(
        conf=CONF, host=scenes.HOST, factory=factory.Factory(CONF),
        receiver=receiver.Receiver(CONF), uploader=upload.Uploader(CONF),
        ring=ring.Ring(CONF), work=workers.Workers('work', 4),
        followers=workers.Workers('follow', 2))
    made.receiver.start()
    yield made
    made.stopping.set()
    made.work.stop(30)
    made.followers.stop(30)
    made.receiver.stop()
    made.factory.close()
    for name, group in settings:
        CONF.clear_override(name, group)
