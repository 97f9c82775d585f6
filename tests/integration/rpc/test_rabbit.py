# SPDX-License-Identifier: Apache-2.0
"""The same of RPC over RabbitMQ as inside a process, and a broker's death."""

import threading
import time

import oslo_messaging
import pytest

from stillframe import exceptions
from stillframe.conf import CONF
from stillframe.rpc import baremetal_api
from stillframe.rpc import compute_api
from stillframe.rpc import conductor_api
from stillframe.rpc import transport
from tests.lab.rabbit import Rabbit
from tests.unit.rpc import peers
from tests.unit.rpc import suite
from tests.unit.rpc.suite import conductor  # noqa: F401
from tests.unit.rpc.suite import reports  # noqa: F401
from tests.unit.rpc.suite import worker  # noqa: F401


@pytest.fixture(scope='module')
def broker():
    """A broker of this module alone."""
    with Rabbit() as running:
        yield running


@pytest.fixture
def messaging(broker):
    """The transport to the broker."""
    oslo_messaging.TransportURL.parse(CONF)
    CONF.set_override('transport_url', broker.url)
    yield
    transport.cleanup()
    CONF.clear_override('transport_url')


class TestRabbit(suite.Suite):
    """All that holds inside one process."""

    # Two cores, and tests beside this one.
    call_seconds = 0.1


def test_the_broker_gone_and_back(broker, messaging, worker):  # noqa: F811
    api = compute_api.ComputeAPI(CONF)
    api.quiesce_server(peers.ctxt(), 'here', 'before', 30.0, None)
    assert worker.got.get(timeout=10)[1] == 'before'
    broker.stop()
    with pytest.raises(exceptions.ServiceUnavailable,
                       match='The message broker does not answer'):
        api.quiesce_server(peers.ctxt(), 'here', 'meanwhile', 30.0, None)
    broker.start()
    # The broker has forgotten the worker's queue. Until that has made it
    # anew, a request is refused; once one is accepted, it arrives.
    deadline = time.monotonic() + 90
    while True:
        try:
            api.quiesce_server(peers.ctxt(), 'here', 'after', 30.0, None)
            break
        except exceptions.ServiceUnavailable:
            assert time.monotonic() < deadline
            threading.Event().wait(0.5)
    assert worker.got.get(timeout=10)[1] == 'after'


@pytest.mark.parametrize('ask', [
    lambda: conductor_api.ConductorAPI(CONF).start_volume_snapshot(
        peers.ctxt(), 'operation', 5.0),
    lambda: baremetal_api.BaremetalAPI(CONF).get_boot_device(
        peers.ctxt(), 'here', 'node', 5.0)], ids=['start', 'enquiry'])
def test_a_first_call_without_a_broker(ask):
    """The library would wait for ever for a connection for the answer."""
    oslo_messaging.TransportURL.parse(CONF)
    CONF.set_override('transport_url', 'rabbit://u:p@127.0.0.1:1/')
    ended = []

    def call() -> None:
        with pytest.raises(exceptions.ServiceUnavailable,
                           match='The message broker does not answer'):
            ask()
        ended.append(True)

    thread = threading.Thread(target=call, daemon=True)
    try:
        thread.start()
        thread.join(60)
        assert ended
    finally:
        transport.cleanup()
        CONF.clear_override('transport_url')
