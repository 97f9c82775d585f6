# SPDX-License-Identifier: Apache-2.0
"""The embedded default, killed right after it had accepted something.

What was on its way inside the process is gone then. The next life says so
at once, long before the reaper would, and the server is as it was.
"""

import contextlib

import httpx
import pytest

from tests.integration.volume_snapshots.daemon import Stillframe
from tests.lab.processes import wait_until

# Seconds from the answer of the next life; the reaper takes 180.
SOON = 10


@pytest.fixture
def stillframe(host, guest):
    """An embedded Stillframe that knows the guest."""
    with Stillframe(host) as daemon:
        daemon.wait_server(guest.uuid)
        yield daemon


def lose(stillframe, guest, step, **action):
    """Ask for something, have it lost, and start again."""
    stillframe.restart(mine=step)
    # The answer may be cut off as well; it is accepted all the same.
    with contextlib.suppress(httpx.TransportError):
        stillframe.act(guest.uuid, **action)
    assert stillframe.process.wait(60) == -9
    stillframe.start()


def ended(stillframe, guest, name):
    """Give the newest action of the guest, which ends soon."""
    def look():
        folder = f'/servers/{guest.uuid}/os-instance-actions'
        listed = stillframe.http.get(folder).json()['instanceActions']
        assert listed[0]['action'] == name
        newest = stillframe.http.get(
            f'{folder}/{listed[0]["request_id"]}').json()['instanceAction']
        return newest['events'][0]['finish_time'] and newest
    action = wait_until(look, SOON, f'the {name} to end', 0.1)
    assert action['events'][0]['result'] == 'Error'
    return action['message']


def test_a_lost_quiesce(stillframe, guest):
    froze = guest.printed().count('hook freeze')
    lose(stillframe, guest, 'quiesce', quiesce=None)
    assert 'Try again' in ended(stillframe, guest, 'quiesce')
    assert stillframe.server(guest.uuid)['status'] == 'ACTIVE'
    assert guest.printed().count('hook freeze') == froze
    stillframe.act(guest.uuid, quiesce={'timeout': 30})
    stillframe.wait_status(guest.uuid, 'QUIESCED')
    stillframe.act(guest.uuid, unquiesce=None)
    stillframe.wait_status(guest.uuid, 'ACTIVE')


def test_a_lost_unquiesce_leaves_the_freeze(stillframe, guest):
    stillframe.act(guest.uuid, quiesce={'timeout': 120})
    stillframe.wait_status(guest.uuid, 'QUIESCED')
    lose(stillframe, guest, 'unquiesce', unquiesce=None)
    assert 'Try again' in ended(stillframe, guest, 'unquiesce')
    assert stillframe.server(guest.uuid)['status'] == 'QUIESCED'
    assert guest.frozen()
    stillframe.act(guest.uuid, unquiesce=None)
    stillframe.wait_status(guest.uuid, 'ACTIVE')
    assert not guest.frozen()


def test_a_lost_reset(stillframe, guest):
    stillframe.act(guest.uuid, quiesce={'timeout': 120})
    stillframe.wait_status(guest.uuid, 'QUIESCED')
    reset = {'os-resetState': {'state': 'active'}}
    lose(stillframe, guest, 'reset', **reset)
    assert 'Try again' in ended(stillframe, guest, 'resetState')
    assert stillframe.server(guest.uuid)['status'] == 'QUIESCED'
    stillframe.act(guest.uuid, **reset)
    stillframe.wait_status(guest.uuid, 'ACTIVE')
    assert not guest.frozen()


def test_a_lost_image(stillframe, guest):
    images = stillframe.path / 'state/images'
    lose(stillframe, guest, 'image', createImage={'name': 'picture'})
    assert 'Try again' in ended(stillframe, guest, 'createImage')
    stillframe.wait_status(guest.uuid, 'ACTIVE')
    wait_until(lambda: not list(images.glob('*.json')), SOON,
               'the image to be removed')


def test_what_was_begun_is_told_by_the_worker(stillframe, guest):
    """Its record is on disk, so it is not lost."""
    guest.set_hook(slow=2)
    stillframe.act(guest.uuid, quiesce={'timeout': 60})
    journal = stillframe.path / 'state/freezes'
    wait_until(lambda: list(journal.glob('*.freeze.json')), 10,
               'the record', 0.005)
    stillframe.kill()
    stillframe.start()
    guest.set_hook()
    assert 'interrupted while it froze' in ended(stillframe, guest,
                                                 'quiesce')
    wait_until(lambda: not list(journal.glob('*.freeze.json')), 60,
               'an empty journal')
