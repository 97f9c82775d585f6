# SPDX-License-Identifier: Apache-2.0
"""Network cards in a made-up sysfs."""

import pytest

from stillframe.agent import addresses


@pytest.fixture
def card(tmp_path):
    def make(name, mac, kind='1', real=False, carrier='1'):
        folder = tmp_path / name
        folder.mkdir()
        (folder / 'address').write_text(mac + '\n')
        (folder / 'type').write_text(kind + '\n')
        if carrier:
            (folder / 'carrier').write_text(carrier + '\n')
        if real:
            (folder / 'device').mkdir()
        return folder
    return make


def test_real_cards_alone_where_there_are_any(card, tmp_path):
    card('lo', '00:00:00:00:00:00', kind='772')
    card('br0', '02:00:00:00:00:03')
    card('eth1', '02:00:00:00:00:02', real=True, carrier=None)
    card('eth0', '02:00:00:00:00:0A', real=True)
    bond = card('bond0', '02:00:00:00:00:0b')
    (bond / 'bonding').mkdir()
    card('ib0', '80:00:00:00:fe:80:00:00:00:00:00:00:00:02', kind='32',
         real=True)
    assert addresses.cards(tmp_path) == [
        {'name': 'bond0', 'mac_address': '02:00:00:00:00:0b',
         'has_carrier': True},
        {'name': 'eth0', 'mac_address': '02:00:00:00:00:0a',
         'has_carrier': True},
        {'name': 'eth1', 'mac_address': '02:00:00:00:00:02',
         'has_carrier': False}]
    assert addresses.macs(tmp_path)[1] == '02:00:00:00:00:0a'


def test_others_where_there_are_none(card, tmp_path):
    card('lo', '00:00:00:00:00:00', kind='772')
    card('veth0', '02:00:00:00:00:03')
    card('dummy0', '00:00:00:00:00:00')
    assert addresses.macs(tmp_path) == ['02:00:00:00:00:03']
    assert addresses.macs(tmp_path / 'nothing') == []


@pytest.mark.parametrize('address, usable, in_url', [
    ('192.0.2.1', True, '192.0.2.1'),
    ('2001:db8::1', True, '[2001:db8::1]'),
    ('node.example', True, 'node.example'),
    ('169.254.3.4', False, '169.254.3.4'),
    ('fe80::1%eth0', False, '[fe80::1%eth0]'),
    ('0.0.0.0', False, '0.0.0.0'),  # noqa: S104  # it is what is refused
    ('', False, ''),
])
def test_what_others_can_call(address, usable, in_url):
    assert addresses.is_usable(address) is usable
    assert addresses.in_url(address) == in_url
