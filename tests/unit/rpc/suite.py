# SPDX-License-Identifier: Apache-2.0
"""What must hold of RPC over any transport.

The classes that use it give the fixture ``url`` and call ``serve``.
"""

import contextlib
import statistics
import time

import pytest

from stillframe import exceptions
from stillframe.conf import CONF
from stillframe.rpc import compute_api
from stillframe.rpc import conductor_api
from stillframe.rpc import transport
from stillframe.rpc import versions
from tests.unit.rpc import peers

OUTCOMES = [{'id': 'o1', 'message': 'Bücher 📚'}, {'id': 'o2'}]


@contextlib.contextmanager
def served(topic, host, endpoint):
    """A server for an endpoint."""
    server = transport.get_server(CONF, topic, host, [endpoint])
    server.start()
    try:
        yield endpoint
    finally:
        server.stop()
        server.wait()


@pytest.fixture
def conductor(messaging):
    """A conductor that answers."""
    with served(versions.CONDUCTOR_TOPIC, 'c1', peers.Conductor()) as one:
        yield one


@pytest.fixture
def worker(messaging):
    """The worker of the host "here"."""
    with served(versions.COMPUTE_TOPIC, 'here', peers.Worker()) as one:
        yield one


@pytest.fixture
def reports(messaging):
    """The reporting side, with a time-out of a second."""
    CONF.set_override('report_timeout', 1.0, 'compute')
    yield conductor_api.ConductorAPI(CONF)
    CONF.clear_override('report_timeout', 'compute')


@pytest.mark.usefixtures('messaging')
class Suite:
    """The tests."""

    #: Seconds that a call may take, median of many.
    call_seconds = 0.001

    def test_a_call_is_answered_and_knows_who_asks(self, conductor,
                                                   reports):
        who = peers.ctxt()
        assert reports.report_outcomes(who, 'h', OUTCOMES) == [
            {'id': 'o1', 'verdict': who.request_id},
            {'id': 'o2', 'verdict': who.request_id}]

    def test_a_cast_carries_the_context_and_plain_data(self, worker):
        who = peers.ctxt()
        compute_api.ComputeAPI(CONF).quiesce_server(
            who, 'here', 's1', 30.0, ['/', '/data'])
        ctxt, *rest = worker.got.get(timeout=10)
        assert rest == ['s1', 30.0, ['/', '/data']]
        for name in ('request_id', 'user_id', 'project_id', 'roles',
                     'is_admin', 'global_request_id'):
            assert getattr(ctxt, name) == getattr(who, name)

    def test_every_cast_arrives(self, worker):
        api = compute_api.ComputeAPI(CONF)
        for number in range(20):
            api.quiesce_server(peers.ctxt(), 'here', str(number), 30.0, None)
        got = {worker.got.get(timeout=10)[1] for _ in range(20)}
        assert got == {str(number) for number in range(20)}

    def test_what_went_wrong_there_is_told_here(self, conductor, reports):
        with pytest.raises(exceptions.ServiceUnavailable) as caught:
            reports.report_outcomes(peers.ctxt(), 'fails', OUTCOMES)
        assert 'no database here' in str(caught.value.__cause__)

    def test_no_answer_ends_in_time(self, conductor, reports):
        begun = time.monotonic()
        with pytest.raises(exceptions.ServiceUnavailable):
            reports.report_outcomes(peers.ctxt(), 'hangs', OUTCOMES)
        assert 0.9 < time.monotonic() - begun < 3
        conductor.release.set()
        # The late answer goes to nobody.
        assert len(reports.report_outcomes(
            peers.ctxt(), 'h', OUTCOMES)) == 2

    def test_nobody_there(self, worker, reports):
        begun = time.monotonic()
        with pytest.raises(exceptions.ServiceUnavailable):
            reports.report_outcomes(peers.ctxt(), 'h', OUTCOMES)
        # What nobody has a queue for is refused, not lost.
        with pytest.raises(exceptions.ServiceUnavailable) as caught:
            compute_api.ComputeAPI(CONF).quiesce_server(
                peers.ctxt(), 'there', 's1', 30.0, None)
        # A user may read this, who is not to know where servers run.
        assert 'The compute worker of the server' in str(caught.value)
        assert 'there' not in str(caught.value)
        assert time.monotonic() - begun < 5
        assert worker.got.empty()

    def test_ping(self, worker):
        api = compute_api.ComputeAPI(CONF)
        assert api.ping(peers.ctxt(), 'here', 5.0)['host'] == 'here'
        with pytest.raises(exceptions.ServiceUnavailable,
                           match='worker on there'):
            api.ping(peers.ctxt(), 'there', 0.2)

    def test_a_call_is_quick(self, conductor, reports):
        who, times = peers.ctxt(), []
        for _ in range(200):
            begun = time.perf_counter()
            reports.report_service(who, 'h', 'b', 's', 1, {}, 'd')
            times.append(time.perf_counter() - begun)
        median = statistics.median(times)
        print(f'median of {len(times)} calls: {median * 1000:.3f} ms')
        assert median < self.call_seconds
