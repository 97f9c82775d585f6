# SPDX-License-Identifier: Apache-2.0
"""Images by overlays, as where libvirt has no backup job."""

import contextlib

import pytest

from stillframe.clients import images
from tests.integration.images.conftest import glance_settings
from tests.integration.images.glance_double import GlanceDouble
from tests.integration.images.studio import studio_beside
from tests.integration.images.test_faults import order
from tests.integration.images.test_images import chain
from tests.lab import disks
from tests.lab.processes import wait_until


@pytest.fixture(autouse=True)
def as_before(guest):
    """Afterwards the guest writes, on the chain that it had."""
    before = chain(guest)
    yield
    wait_until(lambda: chain(guest) == before, 30, 'the chain of before',
               0.2)
    assert not guest.frozen()
    guest.wait_counter(guest.counter())


def test_an_image_by_overlays(host, guest):
    with studio_beside(host, images={'point_in_time': 'overlay'}) as studio:
        image_id, request_id = studio.order(guest)
        outcome = studio.outcome(request_id, 60)
        assert outcome['result'] == 'success', outcome
        assert (outcome['image']['method'],
                outcome['image']['consistency']) == (
            'overlay', 'filesystem')
        assert studio.record(image_id)['stillframe_method'] == 'overlay'
        for one in outcome['image']['images'].values():
            assert not disks.needs_recovery(studio.raw(one))
        wait_until(lambda: not studio.left(), 10, 'nothing to be left')


def test_killed_while_the_guest_writes_to_overlays(host, guest):
    with contextlib.ExitStack() as stack:
        glance = stack.enter_context(GlanceDouble())
        studio = stack.enter_context(studio_beside(
            host, images={'store': 'glance', 'point_in_time': 'overlay'},
            glance={'auth_type': 'none',
                    'endpoint_override': glance.url}))
        studio.store = images.connect(glance_settings(glance.url))
        glance.hold.set()
        _, request_id = order(studio, guest)
        assert glance.began.wait(60)
        guest.run('echo kept >/data/vda/kept; sync', timeout=60)
        studio.worker.kill()
        glance.release()
        studio.worker.start()
        outcome = studio.outcome(request_id, 60)
        assert (outcome['result'], outcome['reason']) == (
            'failed', 'restarted')
        wait_until(lambda: not studio.left(), 60, 'nothing to be left', 0.2)
        copy = guest.copy(studio.room / 'copy.raw')
        disks.replay(copy)
        assert disks.read_file(copy, '/kept') == b'kept\n'
