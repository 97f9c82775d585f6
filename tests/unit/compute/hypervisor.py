# SPDX-License-Identifier: Apache-2.0
"""A hypervisor out of Python: a fault injector.

It speaks the interface that the freezing code uses (host, guest, agent) and
fails on demand. Its agent does what the real one does, the bad habits
included: it takes commands one after the other, and one that is slow keeps
what it was told and does it when it wakes, though the caller has long been
told that it failed.
"""

import contextlib

from stillframe.compute.libvirt import freezing
from stillframe.compute.libvirt.troubles import AgentTrouble
from stillframe.compute.libvirt.troubles import Trouble
from stillframe.states import servers as states

URI = 'simulated:///'


def trouble(kind=Trouble.SILENT):
    return AgentTrouble(kind, f'injected: {kind}')


class SimulatedAgent:
    """An agent with a queue.

    :ivar faults: what the next calls do: None to work, or a trouble that is
        raised; when it is one of those in which the command may have
        arrived, the command is done all the same.
    :ivar hanging: takes commands into its queue and answers none.
    """

    def __init__(self, filesystems=2):
        self.filesystems = filesystems
        self.frozen = 0
        self.hanging = False
        self.queue = []
        self.faults = []
        self.calls = []

    def _say(self, name, command):
        self.calls.append(name)
        fault = self.faults.pop(0) if self.faults else None
        if self.hanging:
            self.queue.append(command)
            raise trouble()
        if fault is None:
            return command()
        if not fault.nothing_done:
            command()
        raise fault

    def wake(self):
        self.hanging = False
        while self.queue:
            # Nobody waits for the answer any more.
            with contextlib.suppress(AgentTrouble):
                self.queue.pop(0)()

    def status(self):
        return self._say('status', lambda: (
            freezing.Status.FROZEN if self.frozen
            else freezing.Status.THAWED))

    def freeze(self, mountpoints, timeout):
        def command():
            if self.frozen:
                raise trouble(Trouble.FROZEN)
            self.frozen = self.filesystems
            return self.frozen
        return self._say('freeze', command)

    def thaw(self, timeout):
        def command():
            count, self.frozen = self.frozen, 0
            return count
        return self._say('thaw', command)


class SimulatedRun:
    """What a domain is doing."""

    def __init__(self, guest):
        self.domain_id = guest.domain_id
        self.power_state = guest.power_state
        self.migrated = guest.migrated
        self.off = guest.power_state == states.POWER_SHUTDOWN
        self.halted = guest.power_state == states.POWER_PAUSED


class SimulatedGuest:
    """A domain with an agent."""

    def __init__(self, filesystems=2):
        self.agent = SimulatedAgent(filesystems)
        self.domain_id = 7
        self.power_state = states.POWER_RUNNING
        self.migrated = False
        self.is_leaving = False
        self.carried = None

    def run(self):
        return SimulatedRun(self)

    def leaving(self):
        return self.is_leaving

    def lease(self):
        return self.carried

    def carry(self, lease):
        self.carried = lease

    def restart(self):
        """Power it off and on: a new run, nothing frozen."""
        self.domain_id += 1
        self.carried = None
        self.agent.frozen = 0
        self.agent.queue = []


class SimulatedHost:
    """A connection to a hypervisor with guests."""

    uri = URI

    def __init__(self):
        self.guests = {}
        self.missing = []
        self.lost = False

    def guest(self, server_id):
        if self.lost:
            raise trouble(Trouble.CONNECTION)
        if server_id not in self.guests:
            raise trouble(Trouble.GONE)
        return self.guests[server_id]
