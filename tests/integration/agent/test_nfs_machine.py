# SPDX-License-Identifier: Apache-2.0
"""The transport nfs with real NFS, in a machine of its own.

See test_nfs for all that does not depend on what is mounted.
"""

import base64
import json
import os

import pytest

from tests.lab.nfs_machine import NfsMachine
from tests.lab.processes import state_dir

MIB = 1 << 20

# In the ramdisk, with the agent that is in there.
_PROGRAM = '''
import json, os
from stillframe.agent import disks, failures, nfs, orders
order = orders.Order(url='nfs://127.0.0.1/image', transport='nfs',
                     timeout=120.0)
try:
    result = nfs.Transfer(order).run(disks.Disk('/dev/vda', SIZE))
    print(json.dumps(result.document()))
except failures.AgentError as exc:
    print(json.dumps({'error': str(exc)}))
'''


@pytest.fixture(scope='module')
def machine():
    with state_dir('nfs') as folder:
        disk = folder / 'disk.raw'
        with disk.open('wb') as file:
            file.truncate(40 * MIB)
            for at in (1, 30):
                file.seek(at * MIB)
                file.write(os.urandom(5 * MIB))
        with NfsMachine(folder, disk) as made:
            yield made


@pytest.fixture(autouse=True)
def nothing_left(machine):
    """After each test the machine is as it was."""
    yield
    machine.run('! busybox grep stillframe- /proc/mounts')
    machine.run('[ -z "$(ls /run | busybox grep stillframe-)" ]')
    machine.run('rm -f /srv/*')


def send(machine):
    program = _PROGRAM.replace('SIZE', str(machine.disk.stat().st_size))
    text = base64.b64encode(program.encode()).decode()
    return json.loads(machine.run(
        'python3 -I -S -c "import base64; '
        f'exec(base64.b64decode(\'{text}\'))"').splitlines()[-1])


def test_it_arrives(machine):
    result = send(machine)
    assert 'error' not in result
    assert machine.run('busybox sha256sum /srv/image').split()[
        0] == result['sha256']
    assert machine.run('busybox wc -c </srv/image').strip() == str(
        result['size'])
    assert result['zero_bytes'] == 30 * MIB
    machine.run('qemu-img compare -f raw -F qcow2 /dev/vda /srv/image')


def test_a_share_without_room(machine):
    machine.run('dd if=/dev/zero of=/srv/ballast bs=1M count=60')
    result = send(machine)
    assert 'No space left on device' in result['error']
    assert machine.run('ls /srv').split() == ['ballast']


def test_what_is_there_is_not_written_over(machine):
    machine.run('echo mine >/srv/image')
    assert 'File exists' in send(machine)['error']
    assert machine.run('cat /srv/image') == 'mine\n'
