# SPDX-License-Identifier: Apache-2.0
"""What a worker finds on a real hypervisor."""

import uuid

import libvirt

from tests.lab.domain_xml import nova_metadata
from tests.lab.processes import wait_until

PROJECT = '3f1c9a4d1b8e4b6fa4a5d0c7e1f2a3b4'
USER = '7a6b5c4d3e2f41a0b9c8d7e6f5a4b3c2'


def reported(worker, server_id, question=lambda server: True):
    return worker.wait(
        lambda: (server := worker.servers.get(server_id)) is not None
        and question(server) and server, 20, f'a report of {server_id}')


def test_a_server_of_novas_and_its_volumes(worker, new_guest):
    serial = str(uuid.uuid4())
    guest = new_guest('instance-00000001', disk_count=2,
                      disk_format='qcow2', serials=[serial, ''],
                      metadata=nova_metadata('web', PROJECT, USER))
    server = reported(worker, guest.uuid,
                      lambda one: one['agent_state'] == 'connected')
    assert server['name'] == 'web'
    assert server['domain_name'] == 'instance-00000001'
    assert (server['project_id'], server['user_id']) == (PROJECT, USER)
    assert server['power_state'] == 1
    assert server['flavor']['name'] == 'm1.tiny'
    first, second = server['volumes']
    assert first['volume_id'] == serial
    assert first['format'] == second['format'] == 'qcow2'
    assert first['source'] == str(guest.disks[0].path)
    assert uuid.UUID(second['volume_id']) != uuid.UUID(serial)

    guest.pause()
    reported(worker, guest.uuid, lambda one: one['power_state'] == 3)
    guest.resume()
    reported(worker, guest.uuid, lambda one: one['power_state'] == 1)
    guest.destroy()
    reported(worker, guest.uuid, lambda one: one['power_state'] == 4)
    guest.undefine()
    wait_until(lambda: guest.uuid in worker.gone, 10, 'it to be gone')


def test_a_domain_without_metadata_belongs_to_the_default(
        new_worker, guest):
    worker = new_worker(default_project_id='p' * 32)
    server = reported(worker, guest.uuid)
    assert server['project_id'] == 'p' * 32
    assert server['name'] == server['domain_name'] == 'web'


def test_the_digest_is_that_of_the_last_report(worker, guest):
    reported(worker, guest.uuid)
    before = len(worker.services)
    worker.wait(lambda: len(worker.services) > before + 1, 10, 'reports')
    last = worker.services[-1]
    assert len(last['servers_digest']) == 64
    assert last['capabilities']['driver'] == 'QEMU'
    assert last['capabilities']['missing'] == []
    assert last['report_count'] > worker.services[0]['report_count']


def test_one_mebibyte_of_metadata(worker, new_guest):
    """It costs the metadata, not the server, and nobody else's time."""
    fat = new_guest('fat', metadata=nova_metadata(
        'fat', PROJECT, USER, extra='<x>' + 'y' * 2 ** 20 + '</x>'))
    server = reported(worker, fat.uuid)
    assert server['name'] == 'fat'
    freeze_id = worker.frozen(fat.uuid)
    request_id = worker.unquiesce(fat.uuid, freeze_id)
    assert worker.outcome(request_id=request_id)['result'] == 'success'


def test_entities_in_the_domain(host, worker, guest):
    """What libvirt lets in of them does no harm; the rest it refuses."""
    evil = str(uuid.uuid4())
    domain = guest.xml.replace(guest.uuid, evil).replace(
        '<name>web</name>', '<name>evil</name>')
    for inside, head in (
            ('&xxe;', '<!DOCTYPE domain [<!ENTITY xxe SYSTEM '
             '"file:///etc/passwd">]>'),
            ('&a;', '<!DOCTYPE domain [<!ENTITY b "ha">'
             '<!ENTITY a "&b;&b;&b;">]>')):
        text = head + domain.replace(
            '<metadata>',
            f'<metadata><x xmlns="urn:evil">{inside}</x>').strip()
        try:
            defined = host.connection.defineXML(text)
        except libvirt.libvirtError:
            continue
        try:
            server = reported(worker, evil)
            assert server['name'] == 'evil'
            assert 'root:' not in str(server)
        finally:
            defined.undefine()
            wait_until(lambda: evil not in worker.servers, 10,
                       'it to be gone')
    assert worker.ping()['libvirt_connected']
