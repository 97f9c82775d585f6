# SPDX-License-Identifier: Apache-2.0
"""Orders: taken, refused, and kept from showing secrets."""

import pytest

from stillframe.agent import failures
from stillframe.agent import orders

LEAST = {'version': 1, 'url': 'https://host:8443/transfers/x'}


def test_the_least():
    order = orders.Order.parse(LEAST)
    assert order.device == 'root'
    assert order.transport == 'webdav'
    assert order.on_read_error == 'stop'


def test_there_and_back():
    document = {
        **LEAST, 'transport': 'webdav', 'username': 'u', 'password': 'p',
        'ca': 'PEM', 'disk_format': 'qcow2', 'compress': 'zstd',
        'skip_free_space': True, 'device': {'serial': 'x'},
        'root_device': {'size': 3}, 'skip_block_devices': [{'name': 'y'}],
        'root_uuid_or_disk_id': '0x1', 'on_read_error': 'zero',
        'bandwidth': 1000, 'timeout': 5.0}
    assert orders.Order.parse(document).document() == document


def test_what_a_newer_conductor_adds_is_ignored():
    assert orders.Order.parse({**LEAST, 'new': 1}) == orders.Order.parse(
        LEAST)


def test_no_secret_is_shown():
    order = orders.Order.parse({**LEAST, 'password': 'geheim'})
    assert 'geheim' not in repr(order)


@pytest.mark.parametrize('change', [
    {'version': 2}, {'version': None}, {'url': None}, {'url': ''},
    {'url': 'https://'}, {'url': 'https://host:port/'},
    {'url': 'ftp://host/x'}, {'url': 'nfs://host/x'},
    {'url': 'https://a:b@host/x'}, {'url': 'https://host/x\r\nX: y'},
    {'url': 'https://h\xf6st/'}, {'transport': 'pigeon'},
    {'transport': 'nfs'}, {'disk_format': 'vmdk'}, {'compress': 'zlib'},
    {'compress': 'zstd', 'disk_format': 'raw'}, {'username': 3},
    {'password': None}, {'ca': 5}, {'skip_free_space': 'yes'},
    {'device': 'sda'}, {'device': None}, {'root_device': ['x']},
    {'skip_block_devices': {'x': 'y'}}, {'skip_block_devices': ['x']},
    {'root_uuid_or_disk_id': 5}, {'on_read_error': 'ignore'},
    {'bandwidth': 0}, {'bandwidth': -1}, {'bandwidth': '1M'},
    {'bandwidth': True}, {'timeout': 0}, {'timeout': None},
    {'timeout': float('inf')}, {'timeout': float('nan')},
])
def test_refused(change):
    with pytest.raises(failures.BadOrder):
        orders.Order.parse({**LEAST, **change})


def test_no_order_at_all():
    for document in ({}, {'version': 1}, None, [], 'x'):
        with pytest.raises(failures.BadOrder):
            orders.Order.parse(document)
