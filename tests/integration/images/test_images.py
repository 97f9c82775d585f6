# SPDX-License-Identifier: Apache-2.0
"""Images of real guests, into a folder."""

import hashlib
import subprocess

import pytest

from stillframe.states import images as states
from tests.lab import disks
from tests.lab.guests import Guest
from tests.lab.processes import wait_until


def chain(guest: Guest) -> list[str]:
    """Give what the guest's disks are made of, as libvirt shows it."""
    return [line.strip() for line in guest.domain.XMLDesc(0).splitlines()
            if '<source file' in line or '<driver' in line]


@pytest.fixture(autouse=True)
def tidy(studio, guest):
    """Every test leaves the guest writing, as it was, and no scratch."""
    before = chain(guest)
    yield
    assert chain(guest) == before
    assert not guest.frozen()
    assert not studio.has_job(guest)
    # Its intent is forgotten when the outcome is out.
    wait_until(lambda: not studio.left(), 10, 'nothing to be left')
    counter = guest.counter()
    guest.wait_counter(counter)


def test_a_running_guest(studio, guest):
    image_id, request_id = studio.order(guest)
    outcome = studio.outcome(request_id)
    assert outcome['result'] == 'success', outcome
    end = outcome['image']
    assert (end['method'], end['consistency'], end['freeze']) == (
        'backup', 'filesystem', 'image')
    assert 0 < end['window'] < 5
    assert end['why_not'] is None
    record = studio.record(image_id)
    assert record['status'] == 'active'
    assert record['stillframe_consistency'] == 'filesystem'
    assert record['stillframe_method'] == 'backup'
    assert float(record['stillframe_freeze_window']) == pytest.approx(
        end['window'], abs=0.001)
    assert record['os_hash_value'] == hashlib.sha256(
        (studio.folder / image_id).read_bytes()).hexdigest()
    # Frozen when it was taken, all disks at one instant.
    assert set(end['images']) == {'vda', 'vdb'}
    for target, one in end['images'].items():
        raw = studio.raw(one)
        assert not disks.needs_recovery(raw), target
        assert studio.record(one)['stillframe_disk'] == target
    other = studio.record(end['images']['vdb'])
    assert other['id'] == states.disk_image_id(image_id, 'vdb', False)
    assert (other['owner'], other['stillframe_image']) == (
        record['owner'], image_id)


def test_what_was_written_before_is_in_it_and_nothing_after(studio, guest):
    before = guest.counter()
    image_id, request_id = studio.order(guest)
    assert studio.outcome(request_id)['result'] == 'success'
    written = int(disks.read_file(studio.raw(image_id), '/counter')
                  or b'0')
    assert before <= written <= guest.counter()


def test_progress_is_told(studio, guest):
    studio.worker.images.clear()
    _, request_id = studio.order(guest)
    studio.outcome(request_id)
    # In any order: each is sent by a thread of its own, and the conductor
    # takes no step back.
    wait_until(lambda: {
        one['task_state'] for one in studio.worker.images
        if one['request_id'] == request_id} == set(states.TASK_STATES),
        20, 'each step to be told')


def test_a_quiesced_guest_stays_quiesced(studio, guest):
    freeze_id = studio.worker.frozen(guest.uuid)
    writes = guest.counter()
    image_id, request_id = studio.order(guest, require=True)
    outcome = studio.outcome(request_id)
    assert outcome['result'] == 'success', outcome
    assert (outcome['image']['freeze'], outcome['image']['window']) == (
        'quiesce', None)
    assert outcome['image']['consistency'] == 'filesystem'
    assert guest.frozen()
    assert guest.counter() == writes
    assert not disks.needs_recovery(studio.raw(image_id))
    thaw = studio.worker.unquiesce(guest.uuid, freeze_id)
    assert studio.worker.outcome(request_id=thaw)['result'] == 'success'


def test_a_paused_guest(studio, guest):
    guest.pause()
    try:
        image_id, request_id = studio.order(guest)
        outcome = studio.outcome(request_id)
    finally:
        guest.resume()
    assert outcome['result'] == 'success', outcome
    assert outcome['image']['consistency'] == 'crash'
    assert 'not running' in outcome['message']
    studio.raw(image_id)
    _, request_id = studio.order(guest)
    assert studio.outcome(request_id)['image']['consistency'] == 'filesystem'


@pytest.mark.parametrize('disk_format', ('raw', 'qcow2'))
def test_a_stopped_guest(studio, host, disk_format):
    with Guest(host, 'off', disk_format=disk_format) as guest:
        guest.wait_counter(3)
        guest.destroy()
        image_id, request_id = studio.order(guest)
        outcome = studio.outcome(request_id)
        assert outcome['result'] == 'success', outcome
        assert (outcome['image']['method'],
                outcome['image']['consistency']) == ('stopped', 'crash')
        raw = studio.raw(image_id)
        path = guest.disks[0].path
        subprocess.run(['qemu-img', 'compare', '-f', disk_format, '-F',
                        'raw', path, raw], check=True, capture_output=True)


def test_a_stopped_guest_on_a_chain(studio, host):
    with Guest(host, 'chain') as guest:
        guest.destroy()
        base = guest.disks[0].path
        top = base.with_name(f'{guest.uuid[:8]}-top')
        subprocess.run(['qemu-img', 'create', '-q', '-f', 'qcow2', '-b',
                        base.name, '-F', 'raw', top], check=True)
        host.give_away(top)
        domain = guest.domain
        guest.host.connection.defineXML(
            domain.XMLDesc(2).replace(str(base), str(top)).replace(
                "type='raw'", "type='qcow2'"))
        image_id, request_id = studio.order(guest)
        assert studio.outcome(request_id)['result'] == 'success'
        subprocess.run(['qemu-img', 'compare', '-f', 'raw', '-F', 'raw',
                        base, studio.raw(image_id)], check=True,
                       capture_output=True)
        # A chain whose formats nobody wrote down is not guessed at.
        broken = bytearray(top.read_bytes())
        at = broken.index(b'\xe2\x79\x2a\xca')
        broken[at:at + 4] = b'\x00\x00\x00\x01'
        top.write_bytes(broken)
        _, request_id = studio.order(guest)
        outcome = studio.outcome(request_id)
        assert outcome['result'] == 'failed'
        assert 'format' in outcome['message']


def test_raw_stays_raw_whatever_the_guest_writes(studio, host, tmp_path):
    """A qcow2 header inside a raw disk is data only (OSSA-2014-033)."""
    secret = tmp_path / 'secret'
    secret.write_bytes(b'of the host' * 1000)
    evil = tmp_path / 'evil'
    subprocess.run(['qemu-img', 'create', '-q', '-u', '-f', 'qcow2', '-b',
                    secret, '-F', 'raw', evil, '48M'], check=True)
    with Guest(host, 'evil') as guest:
        for off in (False, True):
            if off:
                guest.destroy()
            with guest.disks[0].path.open('r+b') as disk:
                disk.write(evil.read_bytes()[:65536])
            image_id, request_id = studio.order(guest)
            assert studio.outcome(request_id)['result'] == 'success'
            raw = studio.raw(image_id).read_bytes()
            assert raw[:512] == evil.read_bytes()[:512]
            assert len(raw) == 48 << 20
            assert b'of the host' not in raw


def test_no_agent(studio, host):
    with Guest(host, 'mute', channel=False) as guest:
        image_id, request_id = studio.order(guest)
        outcome = studio.outcome(request_id)
        assert outcome['result'] == 'success', outcome
        assert outcome['image']['consistency'] == 'crash'
        assert 'no channel' in outcome['message']
        assert disks.needs_recovery(studio.raw(image_id))
        _, request_id = studio.order(guest, require=True)
        outcome = studio.outcome(request_id)
        assert (outcome['result'], outcome['reason']) == (
            'cannot', 'cannot_freeze')
        assert not studio.has_job(guest)


def test_a_hook_that_fails(studio, guest):
    guest.set_hook(fail=True)
    try:
        image_id, request_id = studio.order(guest)
        outcome = studio.outcome(request_id)
        assert outcome['image']['consistency'] == 'crash', outcome
        assert disks.needs_recovery(studio.raw(image_id))
        assert not guest.frozen()
    finally:
        guest.set_hook()


def test_two_images_at_once_of_one_guest(studio, guest):
    orders = [studio.order(guest) for _ in range(2)]
    results = sorted(studio.outcome(request_id)['result']
                     for _, request_id in orders)
    # The API lets one through; should two come, none may be wrong.
    assert results in (['failed', 'success'], ['success', 'success'])
    wait_until(lambda: not studio.left(), 10, 'no scratch')
