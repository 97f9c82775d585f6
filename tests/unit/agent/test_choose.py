# SPDX-License-Identifier: Apache-2.0
"""Which disk is chosen, and when none is."""

import pytest

from stillframe.agent import choose
from stillframe.agent import disks
from stillframe.agent import failures
from stillframe.agent import orders

GIB = 1 << 30
ROOT = '8d2f6f0e-6b9c-4c2b-9a51-3d1f0c7e5a42'


def disk(name, gib, **more):
    return disks.Disk(f'/dev/{name}', int(gib * GIB),
                      **{'serials': (f'serial-{name}',), **more})


SDA, SDB, SDC = disk('sda', 500), disk('sdb', 100), disk('sdc', 2)


def chosen(found, held=None, **order):
    """Choose; give the disk's name.

    :param held: by the disks, by their names.
    """
    order = orders.Order('https://x/y', **order)
    held = held or {}
    return choose.choose(
        found, order, lambda one: held.get(one.name[5:], set())).disk.name


def test_the_smallest_that_is_large_enough():
    assert chosen([SDA, SDB, SDC]) == '/dev/sdb'


def test_exactly_large_enough():
    assert chosen([SDA, disk('sdd', 4)]) == '/dev/sdd'


def test_of_equals_none_is_guessed():
    with pytest.raises(failures.AmbiguousDisk,
                       match='sdb.*serial-sdb.*sdd.*serial-sdd'):
        chosen([SDA, SDB, disk('sdd', 100)])


def test_none_is_large_enough():
    with pytest.raises(failures.NoDisk, match='4 GiB.*sdc'):
        chosen([SDC])
    with pytest.raises(failures.NoDisk, match='there is none'):
        chosen([])


def test_hints():
    assert chosen([SDA, SDB], root_device={'size': '>= 200'}) == '/dev/sda'
    # Hints may say a small one.
    assert chosen([SDA, SDC], root_device={'name': '/dev/sdc'}) == '/dev/sdc'


def test_no_disk_matches_the_hints():
    with pytest.raises(failures.NoDisk, match='size 7.*sda.*sdb'):
        chosen([SDA, SDB], root_device={'size': 7})


def test_several_disks_match_the_hints():
    with pytest.raises(failures.AmbiguousDisk, match='sda.*sdb'):
        chosen([SDA, SDB], root_device={'rotational': False})


def test_disks_to_skip():
    assert chosen([SDA, SDB],
                  skip_block_devices=({'size': 100},)) == '/dev/sda'
    with pytest.raises(failures.NoDisk):
        chosen([SDA, SDB], root_device={'size': 100},
               skip_block_devices=({'size': 100},))


@pytest.mark.parametrize('wanted', [ROOT, ROOT.upper(), f' {ROOT} '])
def test_what_was_deployed_decides(wanted):
    held = {'sda': {ROOT}, 'sdb': {'other'}}
    # Against the rule of the smallest, and between equals.
    assert chosen([SDA, SDB], held,
                  root_uuid_or_disk_id=wanted) == '/dev/sda'
    assert chosen([SDA, SDB], held, root_device={'rotational': False},
                  root_uuid_or_disk_id=wanted) == '/dev/sda'


def test_hints_choose_another_than_was_deployed_to():
    with pytest.raises(failures.WrongDisk, match='sda.*choose /dev/sdb'):
        chosen([SDA, SDB], {'sda': {ROOT}}, root_device={'size': 100},
               root_uuid_or_disk_id=ROOT)


def test_what_was_deployed_is_nowhere():
    with pytest.raises(failures.WrongDisk, match='no disk holds'):
        chosen([SDA, SDB], root_uuid_or_disk_id=ROOT)


def test_what_was_deployed_is_there_twice():
    held = {'sda': {ROOT}, 'sdb': {ROOT}}
    with pytest.raises(failures.AmbiguousDisk, match='sda.*sdb'):
        chosen([SDA, SDB], held, root_uuid_or_disk_id=ROOT)
    # Then hints help.
    assert chosen([SDA, SDB], held, root_device={'size': 500},
                  root_uuid_or_disk_id=ROOT) == '/dev/sda'


def test_an_identifier_that_nobody_gave_says_nothing():
    found = [SDA, SDB]
    assert chosen(found, {'sda': {'0x00000000'}},
                  root_uuid_or_disk_id='0x00000000') == '/dev/sdb'


def test_another_device_needs_not_be_the_root_disk():
    assert chosen([SDA, SDB], {'sda': {ROOT}}, device={'size': 100},
                  root_device={'size': 500},
                  root_uuid_or_disk_id=ROOT) == '/dev/sdb'


def test_members_of_an_array_are_not_chosen_by_the_rule():
    members = [disk('sda', 100, used_by=('md127',)),
               disk('sdb', 100, used_by=('md127',))]
    array = disk('md127', 99, kind='raid', serials=())
    assert chosen([*members, array]) == '/dev/md127'
    assert chosen([*members, array],
                  root_device={'size': '> 50'}) == '/dev/md127'


def test_a_member_of_an_array_that_hints_name():
    member = disk('sda', 100, used_by=('md127',))
    order = orders.Order('https://x/y', root_device={'name': '/dev/sda'})
    choice = choose.choose([member], order, lambda one: set())
    assert choice.disk is member
    assert 'part of md127' in choice.notes[0]


def test_paths_of_a_multipath_device_are_no_disks():
    paths = [disk(name, 100, serials=('same',), used_by=('dm-0',))
             for name in ('sda', 'sdb')]
    device = disk('dm-0', 100, kind='multipath', serials=('same',))
    assert chosen([*paths, device]) == '/dev/dm-0'
    with pytest.raises(failures.NoDisk):
        chosen([*paths, device], root_device={'name': '/dev/sda'})


def test_two_paths_that_nobody_joined():
    paths = [disk(name, 100, serials=('same',)) for name in ('sda', 'sdb')]
    with pytest.raises(failures.AmbiguousDisk):
        chosen(paths)
    choice = choose.choose(
        paths, orders.Order('https://x/y', device={'name': '/dev/sda'}))
    assert '/dev/sdb has the serial number' in choice.notes[0]
