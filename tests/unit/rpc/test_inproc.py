# SPDX-License-Identifier: Apache-2.0
"""RPC inside one process keeps what a broker's keeps, and is quick."""

import oslo_messaging
import pytest

from stillframe import exceptions
from stillframe.conf import CONF
from stillframe.rpc import compute_api
from stillframe.rpc import inproc
from stillframe.rpc import transport
from stillframe.rpc import versions
from tests.unit.rpc import peers
from tests.unit.rpc import suite
from tests.unit.rpc.suite import conductor  # noqa: F401
from tests.unit.rpc.suite import reports  # noqa: F401
from tests.unit.rpc.suite import worker  # noqa: F401


@pytest.fixture
def messaging(monkeypatch):
    """The transport, with an exchange of the test's own."""
    monkeypatch.setattr(inproc.InProcessDriver, '_exchange',
                        inproc._Exchange())
    oslo_messaging.TransportURL.parse(CONF)
    CONF.set_override('transport_url', 'inproc://')
    yield
    transport.cleanup()
    CONF.clear_override('transport_url')


class TestInProcess(suite.Suite):
    """All that holds over a broker."""


def test_what_is_not_plain_data_fails_at_the_sender(messaging):
    with pytest.raises(ValueError, match='object'):
        compute_api.ComputeAPI(CONF).quiesce_server(
            peers.ctxt(), 'here', 's1', 30.0, [object()])


def test_several_servers_take_turns(messaging):
    with suite.served(versions.COMPUTE_TOPIC, 'here',
                      peers.Worker()) as first, suite.served(
            versions.COMPUTE_TOPIC, 'here', peers.Worker()) as second:
        api = compute_api.ComputeAPI(CONF)
        for number in range(4):
            api.quiesce_server(peers.ctxt(), 'here', str(number), 30.0,
                               None)
        for one in (first, second):
            for _ in range(2):
                one.got.get(timeout=5)


def test_a_server_that_stopped_gets_nothing_more(messaging):
    with suite.served(versions.COMPUTE_TOPIC, 'here',
                      peers.Worker()) as gone:
        pass
    with pytest.raises(exceptions.ServiceUnavailable):
        compute_api.ComputeAPI(CONF).quiesce_server(
            peers.ctxt(), 'here', 's1', 30.0, None)
    assert gone.got.empty()


def test_it_carries_rpc_only(messaging):
    driver = inproc.InProcessDriver(CONF, None)
    with pytest.raises(NotImplementedError):
        driver.send_notification(None, {}, {}, 2.0)
    with pytest.raises(NotImplementedError):
        driver.listen_for_notifications([], None, 1, None)
    with pytest.raises(NotImplementedError):
        driver.require_features(requeue=True)
