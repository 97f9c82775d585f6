# SPDX-License-Identifier: Apache-2.0
"""Thawing against an agent that fails in every way."""

import threading

import hypothesis
from hypothesis import strategies as st
import pytest

from stillframe.compute.libvirt import freezing
from stillframe.compute.libvirt.troubles import AgentTrouble
from stillframe.compute.libvirt.troubles import Trouble
from tests.unit.compute import hypervisor


def patience(seconds=5.0, wake=None):
    return freezing.Patience(seconds, wake or threading.Event(),
                             first=0.001, most=0.002)


def test_a_clean_thaw():
    agent = hypervisor.SimulatedAgent()
    agent.frozen = 2
    done = freezing.thaw(agent, 30, patience())
    assert agent.calls == ['status', 'thaw', 'status']
    assert (done.before, done.clean, done.verified, done.count) == (
        freezing.Status.FROZEN, True, True, 2)


def test_nothing_is_sent_to_a_thawed_guest():
    agent = hypervisor.SimulatedAgent()
    done = freezing.thaw(agent, 30, patience())
    assert agent.calls == ['status']
    assert (done.before, done.verified, done.count) == (
        freezing.Status.THAWED, True, None)


def test_an_error_of_the_thaw_call_is_no_proof():
    agent = hypervisor.SimulatedAgent()
    agent.frozen = 2
    agent.faults = [None, hypervisor.trouble()]
    done = freezing.thaw(agent, 30, patience())
    assert done.verified
    assert not done.clean
    assert agent.frozen == 0


def test_given_up_in_time():
    agent = hypervisor.SimulatedAgent()
    agent.hanging = True
    done = freezing.thaw(agent, 30, patience(0.05))
    assert (done.before, done.verified) == (None, False)
    assert done.trouble.kind is Trouble.SILENT


def test_a_domain_that_is_gone_ends_it():
    agent = hypervisor.SimulatedAgent()
    agent.faults = [hypervisor.trouble(),
                    hypervisor.trouble(Trouble.GONE)]
    with pytest.raises(AgentTrouble):
        freezing.thaw(agent, 30, patience())
    assert agent.calls == ['status', 'status']


def test_an_event_cuts_the_wait_short():
    wake = threading.Event()
    agent = hypervisor.SimulatedAgent()
    agent.frozen = 1
    agent.faults = [hypervisor.trouble(Trouble.NOT_CONNECTED)]
    timer = threading.Timer(0.05, wake.set)
    timer.start()
    done = freezing.thaw(agent, 30, freezing.Patience(
        10, wake, first=10, most=10))
    timer.join()
    assert done.verified


FAULTS = st.lists(st.none() | st.sampled_from(
    [one for one in Trouble if one is not Trouble.GONE]
).map(hypervisor.trouble), max_size=12)


@hypothesis.given(FAULTS, st.integers(0, 3), st.booleans())
@hypothesis.settings(max_examples=150, deadline=None)
def test_verified_means_thawed(faults, frozen, queued_freeze):
    """Whatever fails in whatever order, a verified thaw is one."""
    agent = hypervisor.SimulatedAgent()
    agent.frozen = frozen
    agent.faults = list(faults)
    if queued_freeze:
        agent.hanging = True
        with pytest.raises(AgentTrouble):
            agent.freeze(None, 1)
        agent.wake()
        agent.faults = list(faults)
    done = freezing.thaw(agent, 30, patience())
    assert done.verified
    assert agent.frozen == 0
