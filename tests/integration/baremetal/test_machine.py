# SPDX-License-Identifier: Apache-2.0
"""A whole machine: its BMC, a ramdisk with our agent, its own disk.

Two conductors switch it by Redfish, over a real broker and database, and
its image goes into a real Glance.
"""

import subprocess

import pytest

from tests.integration.baremetal import plant
from tests.lab import node_disk

# The machines are emulated: a busy host makes minutes of seconds.
pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope='module')
def works():
    """A plant that the tests of this file share."""
    with plant.Plant() as made:
        yield made


def _snapshot(works, node, machine, **options):
    """Take a snapshot; give its image's id.

    :return: also the disk as it was meanwhile, in a file.
    """
    image, witness = works.queued(), works.folder / f'{machine.number}.was'
    works.site.provision(node, 'snapshot', image_ref=image, **options)
    works.until_bytes(node)
    # Nobody writes to it now.
    subprocess.run(['cp', '--sparse=always', machine.disks[0], witness],
                   check=True)
    found = works.settled(node)
    assert found['provision_state'] == 'active', found['last_error']
    return image, witness


def _comes_up(works, number, disk, after, **options):
    """Boot another machine from a disk that is a copy of a node's.

    :param after: how often that was booted before.
    """
    other = works.rack.with_disks(number, [disk], **options)
    other.power_on()
    other.wait_printed(rf'NODE BOOTED FROM DISK .* boots={after + 1} ')
    other.pull_plug()


def test_from_a_running_machine_to_an_image_in_glance(works, tmp_path):
    machine, node = works.machine(more_disks=(64 << 20,))
    image, was = _snapshot(works, node, machine)
    works.check_as_before(node, machine, 2)
    assert machine.ramdisk_boots() == 1
    assert works.left() == []

    event = works.site.history(node)[0]
    shown = works.fetch(image, tmp_path / 'image')
    assert event['outcome'] == 'done'
    assert event['consistency'] == 'clean'
    assert event['size'] == shown['size']
    assert event['checksum'] == (
        f'{shown["os_hash_algo"]}:{shown["os_hash_value"]}')
    assert event['disk']['serial'] == machine.serials[0]
    assert shown['disk_format'] == 'qcow2'
    assert shown['stillframe_consistency'] == 'filesystem'

    disk = works.rack.host.disks / '240.raw'
    plant.raw(tmp_path / 'image', disk)
    subprocess.run(['qemu-img', 'compare', '-q', '-f', 'raw', '-F', 'raw',
                    disk, was], check=True)
    assert (plant.files(disk, tmp_path / 'a')
            == plant.files(was, tmp_path / 'b'))
    _comes_up(works, 240, disk, node_disk.boots_of(disk))


def test_one_that_ignores_the_power_button(works, tmp_path):
    machine, node = works.machine(deaf=True)
    image, was = _snapshot(works, node, machine, skip_free_space=True,
                           compress='zstd')
    works.check_as_before(node, machine, 2)
    # Said, so that nobody takes it for more than it is.
    assert works.site.history(node)[0]['consistency'] == 'crash'
    shown = works.fetch(image, tmp_path / 'image')
    assert shown['stillframe_consistency'] == 'crash'
    # It has no less than what a machine has after a power failure.
    disk = works.rack.host.disks / '241.raw'
    plant.raw(tmp_path / 'image', disk)
    for one in (disk, was):
        subprocess.run(['e2fsck', '-p', node_disk.root_of(one)], check=False,
                       capture_output=True)
    assert (plant.files(disk, tmp_path / 'a')
            == plant.files(was, tmp_path / 'b'))
    _comes_up(works, 241, disk, 1)


def test_aborted_while_its_disk_streams_and_taken_again(works, tmp_path):
    machine, node = works.machine()
    image = works.queued()
    works.site.provision(node, 'snapshot', image_ref=image,
                         skip_free_space=True)
    works.until_bytes(node)
    works.site.provision(node, 'abort')
    found = works.settled(node)
    assert found['provision_state'] == 'snapshot failed'
    assert works.site.history(node)[0]['outcome'] == 'aborted'
    works.check_as_before(node, machine, 2)
    assert works.left() == []
    # The same image serves for another try.
    works.site.provision(node, 'snapshot', image_ref=image,
                         skip_free_space=True)
    found = works.settled(node)
    assert found['provision_state'] == 'active', found['last_error']
    works.check_as_before(node, machine, 3)
    works.fetch(image, tmp_path / 'image')
    assert machine.ramdisk_boots() == 2


def test_its_conductor_is_killed_while_its_disk_streams(works):
    machine, node = works.machine()
    image = works.queued()
    works.site.provision(node, 'snapshot', image_ref=image,
                         skip_free_space=True)
    works.until_bytes(node)
    victim = works.site.history(node)[0]['conductor']
    works.site.kill(victim)
    found = works.settled(node)
    assert found['provision_state'] == 'snapshot failed'
    assert victim in found['last_error']
    works.check_as_before(node, machine, 2)
    assert works.glance.client().images.get(image)['status'] == 'queued'
    # What is on its disk is removed when it lives again.
    works.site.program('stillframe.cmd.conductor', victim)
    works.site.wait_ready(2)
    works.site.wait(lambda: works.left() == [], 'the file to be removed')
    works.site.provision(node, 'abort')
    assert works.settled(node)['provision_state'] == 'active'


def _header_of_a_qcow2(backing):
    """Give bytes that make a file that begins so look like an overlay."""
    header = bytearray(440)
    for offset, length, value in (
            (0, 4, int.from_bytes(b'QFI\xfb', 'big')), (4, 4, 3),
            (8, 8, 400), (16, 4, len(backing)), (20, 4, 16),
            (24, 8, node_disk.SIZE), (96, 4, 4), (100, 4, 104)):
        header[offset:offset + length] = value.to_bytes(length, 'big')
    header[400:400 + len(backing)] = backing
    return bytes(header)


def test_with_uefi_and_a_foreign_header_in_the_first_sector(works, tmp_path):
    # A BIOS boots from these bytes; UEFI leaves them to whoever writes.
    header = _header_of_a_qcow2(b'/etc/hostname')
    machine, node = works.machine(uefi=True, memory_mib=512, begin=header)
    image, was = _snapshot(works, node, machine, skip_free_space=True)
    works.check_as_before(node, machine, 2)
    works.fetch(image, tmp_path / 'image')
    disk = works.rack.host.disks / '242.raw'
    plant.raw(tmp_path / 'image', disk)
    with disk.open('rb') as file:
        assert file.read(len(header)) == header
    assert (plant.files(disk, tmp_path / 'a')
            == plant.files(was, tmp_path / 'b'))
    _comes_up(works, 242, disk, 1, uefi=True, memory_mib=512)


def test_its_bmc_is_away_when_it_should_be_restored(works, tmp_path):
    machine, node = works.machine()
    bmc = works.rack.bmc
    image = works.queued()
    works.site.provision(node, 'snapshot', image_ref=image,
                         skip_free_space=True)
    works.until_bytes(node)
    bmc.stop()
    found = works.settled(node)
    assert found['provision_state'] == 'snapshot failed'
    assert 'The image is complete' in found['last_error']
    assert 'could not be put back' in found['last_error']
    works.fetch(image, tmp_path / 'image')
    bmc.start()
    # What is left is for the operator, who has been told.
    works.site.provision(node, 'abort')
    assert works.settled(node)['provision_state'] == 'active'
    works.switch(node, 'power off')
    works.site.request('PUT', f'/v1/nodes/{node}/management/boot_device',
                       {'boot_device': 'disk', 'persistent': True})
    works.switch(node, 'power on')
    machine.wait_disk_boots(2)
