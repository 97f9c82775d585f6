# SPDX-License-Identifier: Apache-2.0
"""The agent's stream into the receiver: verified, and refused with reasons."""

import os
import subprocess

import pytest

from stillframe.agent import disks
from stillframe.agent import failures
from stillframe.agent import orders
from stillframe.agent import stream
from stillframe.conductor.receiver import errors
from stillframe.conductor.receiver import verify

MIB = 1 << 20


@pytest.fixture
def disk(tmp_path):
    """A disk that begins like a qcow2 file which names a file of the host."""
    path = tmp_path / 'disk'
    subprocess.run(['qemu-img', 'create', '-f', 'qcow2', '-b', '/etc/passwd',
                    '-F', 'raw', path, '64M'], check=True,
                   capture_output=True)
    with path.open('r+b') as file:
        for at in (5, 20, 41):
            file.seek(at * MIB)
            file.write(os.urandom(3 * MIB + 512))
        file.truncate(64 * MIB)
    return path


def send(ticket, disk, **order):
    """Have an agent carry out an order; give its record."""
    made = orders.Order.parse({
        'version': 1, 'url': ticket.url, 'username': ticket.username,
        'password': ticket.password, 'ca': ticket.ca, 'timeout': 60.0}
        | order)
    found = disks.Disk(str(disk), disk.stat().st_size)
    return stream.Stream(made).run(found).document()


@pytest.mark.parametrize('order', [
    {}, {'disk_format': 'raw'}, {'compress': 'zstd'}])
def test_a_disk(depot, disk, order):
    snapshot, ticket = depot.open()
    result = send(ticket, disk, **order)
    arrival = depot.receiver.finish(snapshot, result)
    form = result['disk_format']
    verify.verify(arrival.path, form, result['virtual_size'])
    subprocess.run(['qemu-img', 'compare', '-f', 'raw', '-F', form, disk,
                    arrival.path], check=True, timeout=60)
    again = depot.receiver.finish(snapshot, result)
    assert again == arrival


def test_why_it_is_refused_is_told(small_store, new_depot, disk):
    depot = new_depot(small_store)
    with disk.open('r+b') as file:
        file.truncate(10 << 30)
    snapshot, ticket = depot.open()
    with pytest.raises(failures.SendFailed) as caught:
        send(ticket, disk, disk_format='raw')
    assert 'HTTP 507' in str(caught.value)
    assert f'needs {10 << 30} bytes' in str(caught.value)
    assert depot.files() == []
    depot.receiver.close(snapshot)
    with pytest.raises(failures.SendFailed, match='HTTP 401'):
        send(ticket, disk)


def test_a_record_that_was_tampered_with(depot, disk):
    snapshot, ticket = depot.open()
    result = send(ticket, disk)
    with pytest.raises(errors.Differs):
        depot.receiver.finish(snapshot, result | {'size': 5})
