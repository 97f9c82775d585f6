# SPDX-License-Identifier: Apache-2.0
"""Whatever goes wrong: the guest goes on, and nothing is left behind."""

import contextlib
import subprocess
import time
import uuid

import libvirt
import pytest

from stillframe.clients import images
from tests.integration.images.conftest import glance_settings
from tests.integration.images.glance_double import GlanceDouble
from tests.integration.images.studio import OWNER
from tests.integration.images.studio import studio_beside
from tests.integration.images.test_images import chain
from tests.lab.processes import LabError
from tests.lab.processes import wait_until


@pytest.fixture
def glance():
    with GlanceDouble() as double:
        yield double


@pytest.fixture
def studio(host, glance):
    """A worker of this test alone, with the misbehaving Glance."""
    with studio_beside(
            host, images={'store': 'glance', 'upload_retries': 2},
            glance={'auth_type': 'none',
                    'endpoint_override': glance.url}) as made:
        made.store = images.connect(glance_settings(glance.url))
        yield made


@pytest.fixture(autouse=True)
def as_before(guest, studio):
    """Afterwards the guest writes, on the chain that it had."""
    before = chain(guest)
    yield
    with contextlib.suppress(libvirt.libvirtError):
        guest.resume()
    assert chain(guest) == before
    wait_until(lambda: not studio.left(), 10, 'nothing to be left')
    assert not studio.has_job(guest)
    assert not guest.frozen()
    guest.wait_counter(guest.counter())


def order(studio, guest, image_id=None, require=False):
    record = images.Record(image_id or str(uuid.uuid4()), 'picture', OWNER)
    studio.store.create(record)
    return record.id, studio.cast(guest, record.id, require)


def held(studio, glance, guest):
    """Order an image, and stop in the middle of its upload."""
    glance.hold.set()
    image_id, request_id = order(studio, guest)
    assert glance.began.wait(30)
    assert studio.has_job(guest)
    assert not guest.frozen()
    return image_id, request_id


@contextlib.contextmanager
def not_frozen(guest):
    """See that nothing asks the guest's agent to freeze meanwhile."""
    before = guest.printed().count('hook freeze')
    yield
    assert guest.printed().count('hook freeze') == before


def test_a_store_in_trouble_for_a_moment(studio, glance, guest):
    glance.refuse, glance.refusals = 503, 2
    image_id, request_id = order(studio, guest)
    assert studio.outcome(request_id)['result'] == 'success'
    assert glance.images[image_id]['status'] == 'active'


def test_a_store_in_trouble_for_ever(studio, glance, guest):
    glance.refuse, glance.refusals = 500, 100
    _, request_id = order(studio, guest)
    outcome = studio.outcome(request_id)
    assert (outcome['result'], outcome['reason']) == ('failed', 'store')
    assert 'trouble of its own' in outcome['message']
    assert glance.refusals == 97


def test_a_store_that_will_not_have_it(studio, glance, guest):
    glance.refuse, glance.refusals = 413, 100
    _, request_id = order(studio, guest)
    outcome = studio.outcome(request_id)
    assert (outcome['result'], outcome['reason']) == (
        'failed', 'store_refused')
    assert glance.refusals == 99


def test_deleted_while_it_was_sent(studio, glance, guest):
    """Glance says so with a code of which its client knows nothing."""
    glance.refuse, glance.refusals = 410, 100
    _, request_id = order(studio, guest)
    outcome = studio.outcome(request_id)
    assert (outcome['result'], outcome['reason']) == (
        'failed', 'image_deleted')
    assert glance.refusals == 99


def test_something_else_arrived(studio, glance, guest):
    glance.wrong_digest = True
    _, request_id = order(studio, guest)
    outcome = studio.outcome(request_id)
    assert (outcome['result'], outcome['reason']) == (
        'failed', 'damaged'), outcome
    assert 'did not arrive' in outcome['message']


def test_a_store_that_falls_silent(studio, glance, guest):
    _, request_id = held(studio, glance, guest)
    outcome = studio.outcome(request_id, 60)
    assert (outcome['result'], outcome['reason']) == ('failed', 'store')


def test_the_worker_is_killed_in_the_upload(studio, glance, guest):
    image_id, request_id = held(studio, glance, guest)
    studio.worker.kill()
    assert studio.left()
    assert studio.has_job(guest)
    glance.release()
    studio.worker.start()
    outcome = studio.outcome(request_id)
    assert (outcome['result'], outcome['reason']) == (
        'failed', 'restarted')


def test_the_worker_is_killed_in_the_freeze(studio, guest):
    guest.set_hook(slow=2)
    _, request_id = order(studio, guest)
    wait_until(lambda: studio.worker.records, 10, 'the freeze', 0.005)
    studio.worker.kill()
    studio.worker.start()
    assert studio.outcome(request_id)['result'] == 'failed'
    guest.set_hook()
    # Seen thawed at once, and watched until the freeze call that nobody
    # waits for any more cannot reach the guest.
    wait_until(lambda: not guest.frozen(), 20, 'the thaw', 0.1)
    studio.worker.wait_no_record(60)


def test_the_worker_is_stopped_in_the_upload(studio, glance, guest):
    _, request_id = held(studio, glance, guest)
    studio.worker.terminate()
    assert not studio.has_job(guest)
    assert studio.left() == []
    studio.worker.start()
    outcome = studio.outcome(request_id)
    assert (outcome['result'], outcome['reason']) == ('failed', 'stopped')


def test_libvirt_is_restarted_in_the_upload(studio, glance, guest, host):
    image_id, request_id = held(studio, glance, guest)
    host.restart()
    glance.release()
    assert studio.outcome(request_id)['result'] == 'success'
    assert glance.images[image_id]['status'] == 'active'
    guest.wait_agent()


def test_libvirt_is_down_when_the_upload_ends(studio, glance, guest, host):
    image_id, request_id = held(studio, glance, guest)
    host.kill()
    glance.release()
    wait_until(lambda: glance.images[image_id]['status'] == 'active', 20,
               'the upload')
    host.start()
    assert studio.outcome(request_id)['result'] == 'success'
    guest.wait_agent()


def test_the_guest_is_reset_in_the_upload(studio, glance, guest):
    _, request_id = held(studio, glance, guest)
    boots = guest.boots()
    guest.reset()
    glance.release()
    assert studio.outcome(request_id)['result'] == 'success'
    guest.wait_boots(boots + 1)
    # libvirt may miss the agent's return while a backup job runs.
    guest.destroy()
    guest.start()
    guest.wait_booted()


def test_the_guest_dies_in_the_upload(studio, glance, guest):
    _, request_id = held(studio, glance, guest)
    guest.destroy()
    glance.release()
    outcome = studio.outcome(request_id)
    assert (outcome['result'], outcome['reason']) == (
        'failed', 'disk_lost'), outcome
    guest.start()
    guest.wait_booted()


def test_the_job_is_taken_away_in_the_upload(studio, glance, guest):
    _, request_id = held(studio, glance, guest)
    guest.domain.abortJob()
    glance.release()
    outcome = studio.outcome(request_id)
    assert (outcome['result'], outcome['reason']) == (
        'failed', 'disk_lost'), outcome


def test_somebody_elses_job_is_left_alone(studio, guest, host):
    folder = host.path / 'theirs'
    folder.mkdir()
    host.give_away(folder)
    guest.domain.backupBegin(
        '<domainbackup mode="pull"><server transport="unix" '
        f'socket="{folder}/s"/><disks><disk name="vda" backup="yes" '
        f'type="file"><scratch file="{folder}/f"/></disk></disks>'
        '</domainbackup>', None)
    with not_frozen(guest):
        _, request_id = order(studio, guest)
        outcome = studio.outcome(request_id)
    assert (outcome['result'], outcome['reason']) == ('failed', 'busy')
    assert 'a backup. Try again when' in outcome['message']
    assert studio.has_job(guest)
    guest.domain.abortJob()
    wait_until(lambda: not studio.has_job(guest), 10, 'the job to end')


@pytest.mark.parametrize('method', ['backup', 'overlay'])
def test_a_block_job_freezes_nobody(host, guest, method):
    """libvirt refuses the point in time, but only within the freeze."""
    domain, copy = guest.domain, host.path / 'copy'
    # One MiB/s, so it takes longer than all that is done here.
    domain.blockCopy(
        'vdb', f'<disk type="file"><source file="{copy}"/>'
        '<driver type="raw"/></disk>', {'bandwidth': 1 << 20},
        libvirt.VIR_DOMAIN_BLOCK_COPY_TRANSIENT_JOB)
    try:
        with studio_beside(
                host, images={'point_in_time': method}) as studio:
            with not_frozen(guest):
                _, request_id = studio.order(guest)
                outcome = studio.outcome(request_id)
            assert domain.blockJobInfo('vdb')
            assert (outcome['result'], outcome['reason']) == (
                'failed', 'busy')
            assert 'on the disk vdb' in outcome['message']
            assert 'Try again when' in outcome['message']
            domain.blockJobAbort('vdb')
            wait_until(lambda: not domain.blockJobInfo('vdb'), 10,
                       'the job to end')
            _, request_id = studio.order(guest)
            outcome = studio.outcome(request_id, 60)
            assert outcome['result'] == 'success', outcome
    finally:
        with contextlib.suppress(libvirt.libvirtError):
            domain.blockJobAbort('vdb')
        copy.unlink()


def test_an_image_that_was_deleted_before_the_work_began(
        studio, glance, guest):
    image_id = str(uuid.uuid4())
    request_id = studio.cast(guest, image_id)
    outcome = studio.outcome(request_id)
    assert (outcome['result'], outcome['reason']) == (
        'failed', 'image_deleted')
    assert 'deleted while' in outcome['message']


def test_a_request_that_comes_twice(studio, glance, guest):
    image_id, request_id = order(studio, guest)
    studio.worker.cast('image_server', request_id=request_id, image={
        'server_id': guest.uuid, 'image_id': image_id, 'name': 'picture',
        'owner': OWNER, 'properties': {}, 'require_quiesce': False})
    assert studio.outcome(request_id)['result'] == 'success'
    told = [one for one in studio.worker.outcomes
            if one['request_id'] == request_id]
    assert len(told) == 1


def test_a_guest_that_is_not_there(studio, glance):
    class Nobody:
        uuid = str(uuid.uuid4())

    _, request_id = order(studio, Nobody)
    outcome = studio.outcome(request_id)
    assert (outcome['result'], outcome['reason']) == ('failed', 'gone')


def test_a_slow_store_does_not_hold_the_guest(studio, glance, guest):
    """To pause, QEMU waits until all that was read of it was taken."""
    # On the disk that is sent first.
    guest.run('dd if=/dev/urandom of=/data/vdb/blob bs=1M count=24 '
              '2>/dev/null; sync', timeout=60)
    _, request_id = held(studio, glance, guest)
    worst = 0.0
    until = time.monotonic() + 3
    while time.monotonic() < until:
        began = time.monotonic()
        guest.domain.suspend()
        guest.domain.resume()
        worst = max(worst, time.monotonic() - began)
        # What comes between makes it wait for another piece.
        guest.run('true')
    assert worst < 3
    glance.release()
    assert studio.outcome(request_id)['result'] == 'success'
    guest.run('rm /data/vdb/blob')


@pytest.fixture
def tiny(host):
    """A file system of 8 MiB.

    What the guest writes by itself must not fill it before it is to.
    """
    path = host.path / 'tiny'
    path.mkdir()
    subprocess.run(['mount', '-t', 'tmpfs', '-o', 'size=8m,mode=711',
                    'tmpfs', path], check=True)
    yield path
    subprocess.run(['umount', path], check=True)
    path.rmdir()


def test_a_guest_that_finds_no_room_goes_on(host, guest, glance, tiny):
    """QEMU pauses a guest whose old data has nowhere to go."""
    # Zeroes would take no room.
    write = ('dd if=/dev/urandom of=/data/vda/blob bs=1M count=24 '
             'conv=notrunc 2>/dev/null; sync')
    guest.run(write, timeout=90)
    with studio_beside(
            host, images={'store': 'glance', 'scratch_path': tiny,
                          'scratch_reserve': 0, 'silence_timeout': 60},
            glance={'auth_type': 'none',
                    'endpoint_override': glance.url}) as studio:
        studio.store = images.connect(glance_settings(glance.url))
        _, request_id = held(studio, glance, guest)
        try:
            guest.run(write, timeout=90)
        except LabError as exc:
            raise AssertionError(
                (guest.domain.state(), guest.domain.diskErrors(),
                 studio.worker.log[-3000:])) from exc
        assert not studio.has_job(guest)
        assert guest.domain.state()[0] == libvirt.VIR_DOMAIN_RUNNING
        glance.release()
        outcome = studio.outcome(request_id)
        assert (outcome['result'], outcome['reason']) == (
            'failed', 'disk_lost')
        assert list(tiny.iterdir()) == []


def test_a_host_without_room_is_asked_for_none(host, guest, tiny, glance):
    with studio_beside(
            host, images={'store': 'glance', 'scratch_path': tiny,
                          'scratch_reserve': 16},
            glance={'auth_type': 'none',
                    'endpoint_override': glance.url}) as studio:
        studio.store = images.connect(glance_settings(glance.url))
        _, request_id = order(studio, guest)
        outcome = studio.outcome(request_id)
        assert (outcome['result'], outcome['reason']) == (
            'failed', 'no_scratch')
        assert list(tiny.iterdir()) == []
