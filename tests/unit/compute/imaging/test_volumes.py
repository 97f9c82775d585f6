# SPDX-License-Identifier: Apache-2.0
"""How an image refers to the disks that are not in its data."""

import json

from stillframe.compute.imaging import volumes
from stillframe.compute.libvirt import image_disks


def disk(target: str, root: bool = False) -> image_disks.Disk:
    return image_disks.Disk(target, f'id-{target}', 'file', f'/{target}',
                            'raw', root)


def test_a_server_without_volumes_needs_no_mapping():
    assert volumes.mapping([disk('vda', True), disk('vdb')], {}, {},
                           {'vda': 'a', 'vdb': 'b'}) == {}


def test_all_disks_are_volumes():
    found = volumes.mapping(
        [disk('vda', True), disk('vdb')], {'vda': 2, 'vdb': 3},
        {'vda': 'snap-a', 'vdb': 'snap-b'}, {})
    assert found['bdm_v2'] == 'True'
    assert json.loads(found['block_device_mapping']) == [
        {'device_name': '/dev/vda', 'device_type': 'disk',
         'destination_type': 'volume', 'delete_on_termination': False,
         'boot_index': 0, 'source_type': 'snapshot',
         'snapshot_id': 'snap-a', 'volume_size': 2},
        {'device_name': '/dev/vdb', 'device_type': 'disk',
         'destination_type': 'volume', 'delete_on_termination': False,
         'boot_index': -1, 'source_type': 'snapshot',
         'snapshot_id': 'snap-b', 'volume_size': 3}]


def test_a_root_disk_with_data_is_the_image_itself():
    found = json.loads(volumes.mapping(
        [disk('vda', True), disk('vdb'), disk('vdc')], {'vdb': 3},
        {'vdb': 'snap-b'}, {'vda': 'a', 'vdc': 'c'}
    )['block_device_mapping'])
    assert [(one['device_name'], one['source_type'], one['boot_index'])
            for one in found] == [('/dev/vdb', 'snapshot', -1),
                                  ('/dev/vdc', 'image', -1)]
