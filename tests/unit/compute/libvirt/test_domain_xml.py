# SPDX-License-Identifier: Apache-2.0
"""Domain XML, the honest and the malicious."""

import time

import pytest

from stillframe.compute.libvirt import domain_xml
from stillframe.compute.libvirt import lease

UUID = 'b4b9a5a8-5c5e-4d0a-9a57-1c6c1d7a2f10'
SERIAL = '0d6f2a3b-7a10-4f4c-8a43-6f8f5a4a9c01'
NOVA = 'xmlns:nova="http://openstack.org/xmlns/libvirt/nova/1.1"'


def domain(metadata='', devices='', head=''):
    return f"""{head}<domain type='kvm' id='3'>
      <name>instance-00000007</name><uuid>{UUID}</uuid>
      <title>a &lt;metadata&gt; title</title>
      <metadata>{metadata}</metadata>
      <memory unit='KiB'>524288</memory><vcpu placement='static'>2</vcpu>
      <devices>{devices}</devices></domain>"""


def channel(state=''):
    return f"""<channel type='unix'><source mode='bind' path='/x'/>
      <target type='virtio' name='org.qemu.guest_agent.0' {state}/>
      </channel>"""


def nova(name='web', extra=''):
    return f"""<nova:instance {NOVA}><nova:name>{name}</nova:name>
      <nova:creationTime>2026-11-29 20:00:00</nova:creationTime>
      <nova:flavor name="m1.small"><nova:memory>512</nova:memory>
      <nova:disk>20</nova:disk><nova:swap>1</nova:swap>
      <nova:ephemeral>2</nova:ephemeral><nova:vcpus>2</nova:vcpus>
      </nova:flavor><nova:owner>
      <nova:user uuid="someone">demo</nova:user>
      <nova:project uuid="{'a' * 32}">demo</nova:project></nova:owner>
      <nova:root type="image" uuid="{SERIAL}"/>{extra}</nova:instance>"""


def test_a_domain_of_novas():
    facts = domain_xml.parse(domain(nova()))
    assert facts.uuid == UUID
    assert facts.domain_name == 'instance-00000007'
    assert facts.name == 'web'
    assert facts.project_id == 'a' * 32
    assert facts.user_id == 'someone'
    assert facts.image_id == SERIAL
    assert facts.launched_at == '2026-11-29T20:00:00.000000'
    assert facts.flavor == {'name': 'm1.small', 'vcpus': 2, 'ram': 512,
                            'disk': 20, 'ephemeral': 2, 'swap': 1}
    assert facts.leased is False


def test_a_domain_of_somebody_elses():
    facts = domain_xml.parse(domain())
    assert facts.name == facts.domain_name
    assert (facts.project_id, facts.user_id, facts.image_id) == (
        None, None, None)
    assert facts.flavor == {'name': 'domain', 'vcpus': 2, 'ram': 512,
                            'disk': 0, 'ephemeral': 0, 'swap': 0}


@pytest.mark.parametrize(('devices', 'state'), [
    ('', 'absent'), (channel(), 'disconnected'),
    (channel("state='disconnected'"), 'disconnected'),
    (channel("state='connected'"), 'connected')])
def test_the_agents_channel(devices, state):
    assert domain_xml.parse(domain(devices=devices)).agent_state == state


def test_disks_are_volumes():
    facts = domain_xml.parse(domain(devices=f"""
      <disk type='file' device='disk'><driver name='qemu' type='qcow2'/>
        <source file='/v/one'/><target dev='vda'/><serial>{SERIAL}</serial>
      </disk>
      <disk type='block' device='disk'><source dev='/dev/sdx'/>
        <target dev='vdb'/><serial>not a uuid</serial><readonly/></disk>
      <disk type='network' device='lun'><driver type='raw'/>
        <source protocol='rbd' name='pool/three'/><target dev='sda'/></disk>
      <disk type='file' device='cdrom'><target dev='hda'/></disk>
      <disk type='file'><source file='/v/four'/></disk>"""))
    assert [(one['target'], one['device'], one['source'], one['format'],
             one['read_only']) for one in facts.volumes] == [
        ('vda', '/dev/vda', '/v/one', 'qcow2', False),
        ('vdb', '/dev/vdb', '/dev/sdx', None, True),
        ('sda', '/dev/sda', 'rbd:pool/three', 'raw', False)]
    first, second, third = (one['volume_id'] for one in facts.volumes)
    assert first == SERIAL
    assert len({first, second, third}) == 3
    # Stable: the same domain and target give the same id.
    again = domain_xml.parse(domain(devices="""<disk type='block'>
      <source dev='/dev/other'/><target dev='vdb'/></disk>"""))
    assert again.volumes[0]['volume_id'] == second


def test_a_lease_is_seen():
    text = lease.to_xml(lease.Lease('req-1', '2026-01-01T00:00:00', 30.0))
    carried = text.replace(
        '<lease', f'<stillframe:lease xmlns:stillframe="{lease.URI}"')
    assert domain_xml.parse(domain(carried)).leased is True


BOMB = ('<!DOCTYPE domain [<!ENTITY a "ha">' + ''.join(
    f'<!ENTITY {two} "{f"&{one};" * 10}">'
    for one, two in zip('abcdefgh', 'bcdefghi', strict=True)) + ']>')


@pytest.mark.parametrize('text', [
    '', 'nonsense', '<domain/>', '<other><uuid>1</uuid></other>',
    domain(head=BOMB), domain('&i;', head=BOMB),
    domain(head='<!DOCTYPE domain [<!ENTITY x SYSTEM '
                '"file:///etc/passwd">]>'),
    domain().replace(UUID, 'no uuid'),
    '<domain>' * 100_000,
])
def test_refused(text):
    began = time.monotonic()
    with pytest.raises(domain_xml.BadXML):
        domain_xml.parse(text)
    assert time.monotonic() - began < 2


@pytest.mark.parametrize('metadata', [
    nova(extra='&undefined;'),
    nova(extra='<![CDATA[<!DOCTYPE x>]]>'),
    nova(extra='</metadata><metadata>'),
    nova(extra='x' * 2 ** 20),
    nova(extra='<unclosed>'),
    nova(extra='<deep>' * 50_000 + '</deep>' * 50_000),
])
def test_bad_metadata_costs_the_metadata_only(metadata):
    began = time.monotonic()
    facts = domain_xml.parse(domain(metadata, channel()))
    assert time.monotonic() - began < 2
    assert facts.uuid == UUID
    assert facts.agent_state == 'disconnected'
    assert facts.name in ('instance-00000007', 'web')


def test_lengths_and_letters_are_capped():
    facts = domain_xml.parse(domain(nova('n' * 100_000)))
    assert len(facts.name) == 255
    facts = domain_xml.parse(domain(nova('&#10;we&#x202e;b&#9;')))
    assert facts.name == 'web'


@pytest.mark.parametrize('number', ['-1', '1e9', '99999999999', '٣', ''])
def test_numbers_that_are_none(number):
    metadata = nova().replace('<nova:disk>20<',
                              f'<nova:disk>{number}<')
    assert domain_xml.parse(domain(metadata)).flavor['disk'] == 0
