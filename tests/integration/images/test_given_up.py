# SPDX-License-Identifier: Apache-2.0
"""An image that is complete, and that the conductor had given up.

The conductor removes it from the store; what Cinder made for it only the
worker knows, and removes when it is told.
"""

import contextlib
import json

import pytest

from tests.integration.images.studio import studio_beside
from tests.integration.volume_snapshots.daemon import open_cinder
from tests.lab import cinder_config
from tests.lab.guests import Guest
from tests.lab.processes import wait_until

pytestmark = pytest.mark.timeout(600)


@contextlib.contextmanager
def defined(host, attachment):
    """A server that is off, with a volume of Cinder's."""
    guest = Guest(host, f'off-{attachment.serial[:8]}', disk_count=0,
                  domain_uuid=attachment.server,
                  volumes=(attachment.disk('vda'),))
    host.connection.defineXML(guest.xml)
    try:
        yield guest
    finally:
        guest.remove()


def snapshots(volumes, volume):
    return volumes.client.volume_snapshots.list(
        search_opts={'volume_id': volume})


@pytest.mark.parametrize(('verdict', 'killed', 'left'), [
    ('applied', False, 1), ('duplicate', True, 1), ('unknown', False, 1),
    ('stale', False, 0), ('stale', True, 0)])
def test_snapshots_belong_to_the_image_or_go(
        host, volumes, compute_standin, verdict, killed, left):
    volume = volumes.create()
    attachment = volumes.attach(volume)
    with defined(host, attachment) as guest, studio_beside(
            host, cinder=open_cinder(volumes.cinder.endpoint,
                                     cinder_config.PROJECT)) as studio:
        intents = studio.worker.path / 'state/imaging'
        studio.worker.answer(verdict=verdict, down=killed)
        image_id, request_id = studio.order(guest)
        if killed:
            # It is complete, and nobody takes that down.
            outbox = studio.worker.path / 'state/outbox'
            wait_until(lambda: list(outbox.glob('*.outcome.json')), 120,
                       'the outcome')
            intent, = intents.glob('*.image.json')
            assert json.loads(intent.read_text())['made']
            assert len(snapshots(volumes, volume)) == 1
            studio.worker.kill()
            studio.worker.start(verdict=verdict)
        outcome = studio.outcome(request_id, 120)
        assert outcome['result'] == 'success', outcome
        assert studio.record(image_id)['status'] == 'active'
        wait_until(lambda: not list(intents.glob('*')), 120,
                   'the intent to be settled')
        assert studio.left() == []
        assert len(snapshots(volumes, volume)) == left
    assert not compute_standin.errors


def test_killed_before_it_could_report(host, volumes, compute_standin):
    """The image is complete, and its outcome nowhere: it is told again."""
    volume = volumes.create()
    attachment = volumes.attach(volume)
    with defined(host, attachment) as guest, studio_beside(
            host, cinder=open_cinder(volumes.cinder.endpoint,
                                     cinder_config.PROJECT)) as studio:
        studio.worker.answer(down=True)
        _, request_id = studio.order(guest)
        outbox = studio.worker.path / 'state/outbox'
        wait_until(lambda: list(outbox.glob('*.outcome.json')), 120,
                   'the outcome')
        studio.worker.kill()
        for path in outbox.glob('*.outcome.json'):
            path.unlink()
        studio.worker.start()
        outcome = studio.outcome(request_id, 120)
        assert outcome['result'] == 'success'
        assert outcome['image']['snapshots']
        wait_until(lambda: not studio.left(), 120, 'nothing to be left')
        assert len(snapshots(volumes, volume)) == 1
