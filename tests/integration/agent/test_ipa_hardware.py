# SPDX-License-Identifier: Apache-2.0
"""Our hardware manager, asked as ironic-python-agent asks its managers."""

import json
import os
import pathlib
import subprocess

import pytest

from tests.integration.agent import ipa

GIB = 1 << 30

# What an agent does with the node that a lookup gave it, and with a command
# that needs the root disk. Disks are files here, so that their content can
# be the test's; the manager below ours is replaced by one word.
_PROGRAM = '''
import json, sys
from ironic_python_agent import config
from ironic_python_agent import hardware
from stillframe.agent import disks
config.CONF([], project='ironic-python-agent', default_config_files=[])
nodes, paths = json.loads(sys.argv[1])
disks.found = lambda: [
    disks.Disk(path, size, serials=(serial,)) for path, size, serial in paths]
hardware.GenericHardwareManager.get_os_install_device = (
    lambda self, permit_refresh=False: 'left alone')
for hardware.NODE in nodes:
    print(hardware.dispatch_to_managers('get_os_install_device'))
'''

pytestmark = pytest.mark.skipif(
    not ipa.PYTHON.exists(),
    reason='no .venv-ipa: run tools/setup.sh test')


# What is known of the disk deployed to, the node's properties, and the disk
# that is to be the root.
_CASES = [
    # It is not known what was deployed.
    (None, {}, 'left alone'),
    (None, {'root_device': {'serial': 'S3'}}, 'left alone'),
    # It is, and one disk has it.
    ('0xaa000002', {}, 'disk2'),
    ('0xaa000003', {}, 'disk3'),
    ('0xaa000002', {'root_device': {'serial': 'S2'}}, 'disk2'),
    ('0xaa000002', {'root_device': {'size': '== 5'}}, 'disk2'),
    # Hints speak against it, or it is on no disk, or on a skipped one.
    ('0xaa000002', {'root_device': {'serial': 'S3'}}, 'left alone'),
    ('0xaa000007', {}, 'left alone'),
    ('0xaa000003', {'skip_block_devices': [{'serial': 'S3'}]},
     'left alone'),
]


def _disks(folder):
    """Three disks with identifiers of DOS partition tables."""
    for number, size in ((1, 5), (2, 5), (3, 9)):
        path = folder / f'disk{number}'
        table = bytearray(512)
        table[0x1b8:0x1bc] = bytes((number, 0, 0, 0xaa))
        table[0x1be + 4] = 0x83
        table[0x1be + 8:0x1be + 16] = (b'\x00\x08\x00\x00'
                                       b'\x00\x08\x00\x00')
        table[510:] = b'\x55\xaa'
        path.write_bytes(table)
        os.truncate(path, size * GIB)
        yield str(path), size * GIB, f'S{number}'


@pytest.fixture(scope='module')
def chosen(tmp_path_factory):
    """The names of the disks chosen, of all cases: the agent loads slowly."""
    folder = tmp_path_factory.mktemp('disks')
    for name in ('udevadm', 'modprobe', 'lshw', 'ipmitool', 'mdadm',
                 'multipath'):
        (folder / name).write_text('#!/bin/sh\nexit 0\n')
        (folder / name).chmod(0o700)
    nodes = [{'uuid': 'u', 'instance_info': {}, 'properties': properties,
              'driver_internal_info': {'root_uuid_or_disk_id': known}}
             for known, properties, _disk in _CASES]
    done = subprocess.run(
        [ipa.PYTHON, '-c', _PROGRAM,
         json.dumps([nodes, list(_disks(folder))])],
        capture_output=True, text=True, timeout=240,
        env={**os.environ, 'PATH': f'{folder}:{os.environ["PATH"]}'})
    assert done.returncode == 0, done.stderr
    return [pathlib.Path(line).name for line in done.stdout.splitlines()]


@pytest.mark.parametrize('number', range(len(_CASES)))
def test_the_root_disk(chosen, number):
    assert chosen[number] == _CASES[number][2]
