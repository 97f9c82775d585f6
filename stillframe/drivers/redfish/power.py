# SPDX-License-Identifier: Apache-2.0
"""Switching a machine on and off by Redfish."""

import time

from oslo_log import log as logging
import sushy
from sushy.resources.system.system import System

from stillframe.drivers import base
from stillframe.drivers import errors
from stillframe.drivers.redfish import access
from stillframe.drivers.redfish.machine import Machine
from stillframe.states import power as states

LOG = logging.getLogger(__name__)

# Seconds before the first question whether a machine has got there; doubled
# each time, up to the configured interval.
_FIRST_PAUSE = 0.25

_STATES = {sushy.PowerState.ON: states.POWER_ON,
           sushy.PowerState.OFF: states.POWER_OFF}
# What is sent for a target, in the order of preference.
_RESETS = {
    states.POWER_ON: (sushy.ResetType.ON, sushy.ResetType.FORCE_ON),
    states.POWER_OFF: (sushy.ResetType.FORCE_OFF,),
    states.SOFT_POWER_OFF: (sushy.ResetType.GRACEFUL_SHUTDOWN,),
}
# A reboot is off and on again: a restart cannot be seen to have happened,
# and some machines take up a new boot device only when they were off.
_STEPS = {
    states.REBOOT: (states.POWER_OFF, states.POWER_ON),
    states.SOFT_REBOOT: (states.SOFT_POWER_OFF, states.POWER_ON),
}


class RedfishPower(base.PowerInterface):
    """The power of a machine with Redfish."""

    properties = access.PROPERTIES

    def validate(self, node: base.Node) -> None:
        """See the base class."""
        access.read(node)

    def supported_targets(self, node: base.Node) -> tuple[str, ...]:
        """See the base class."""
        return states.TARGETS

    def get_power_state(self, node: base.Node) -> str | None:
        """See the base class."""
        return self._machine(node).do('tell its power state', _state)

    def set_power_state(self, node: base.Node, target: str,
                        timeout: float | None = None) -> None:
        """See the base class. A reboot is off and on again."""
        if target not in states.TARGETS:
            raise errors.UnsupportedRequest(
                node=node['uuid'], what=f'get to "{target}"',
                reason='there is no such power state.')
        if timeout is None:
            timeout = self.conf.redfish.power_timeout
        machine = self._machine(node)
        for step in _STEPS.get(target, (target,)):
            self._go(node, machine, step, timeout)

    def _machine(self, node: base.Node) -> Machine:
        return Machine(self.conf, self.shared, node)

    def _go(self, node: base.Node, machine: Machine, target: str,
            timeout: float) -> None:
        wanted = states.RESULT[target]
        try:
            state = machine.do(f'go to "{target}"',
                               lambda system: _ask_for(system, target))
        except errors.BMCRefused:
            # It may have got there by itself meanwhile.
            if self.get_power_state(node) != wanted:
                raise
            return
        deadline = time.monotonic() + timeout
        pause = _FIRST_PAUSE
        while state != wanted:
            # A BMC has no way to tell us by itself.
            time.sleep(max(0.0, min(deadline - time.monotonic(), pause)))
            pause = min(2 * pause, self.conf.redfish.power_poll_interval)
            late = time.monotonic() >= deadline
            try:
                state = machine.do('tell its power state', _state,
                                   attempts=1)
            except errors.BMCError as exc:
                if late or not exc.transient:
                    raise
                # Some do not answer while their machine changes.
                LOG.info('Node %s: %s Asking on.', node['uuid'], exc)
                continue
            if late and state != wanted:
                raise errors.PowerStateNotReached(
                    node=node['uuid'], target=wanted, timeout=timeout,
                    state=state or 'on its way')


def _state(system: System) -> str | None:
    return _STATES.get(system.power_state)


def _ask_for(system: System, target: str) -> str | None:
    """Send the request unless the machine is there; give its state."""
    state = _state(system)
    if state == states.RESULT[target]:
        return state
    allowed = system.get_allowed_reset_system_values()
    reset = next((one for one in _RESETS[target] if one in allowed),
                 _RESETS[target][0])
    system.reset_system(reset)
    return state
