# SPDX-License-Identifier: Apache-2.0
"""A heartbeat leads the conductor to agents, and to nothing else."""

import pytest

from stillframe import exceptions
from stillframe.api.controllers.baremetal import callbacks

NETWORKS = ('192.0.2.0/24', '2001:db8::/64')


@pytest.mark.parametrize('host, anywhere, within', [
    ('192.0.2.7', True, True),
    ('::ffff:192.0.2.7', True, True),
    ('2001:db8::7', True, True),
    ('198.51.100.7', True, False),
    ('2001:db8:1::7', True, False),
    ('127.0.0.1', True, False),
    ('agent.example.org', True, False),
    ('agent-0x1.example.org', True, False),
    # What the C library takes for 169.254.169.254.
    ('2852039166', False, False),
    ('0xA9FEA9FE', False, False),
    ('169.254.43518', False, False),
    ('169.254.169.254', False, False),
    ('::ffff:169.254.169.254', False, False),
    ('fe80::1', False, False),
    ('fe80::1%eth0', False, False),
    ('224.0.0.1', False, False),
    ('ff02::1', False, False),
    ('0.0.0.0', False, False),  # noqa: S104
    ('::', False, False)])
def test_addresses(host, anywhere, within):
    assert callbacks.Callbacks(()).may_be(host) is anywhere
    assert callbacks.Callbacks(NETWORKS).may_be(host) is within


def test_what_is_no_network():
    with pytest.raises(exceptions.ConfigError, match='callback_networks'):
        callbacks.Callbacks(['192.0.2.1/24'])
