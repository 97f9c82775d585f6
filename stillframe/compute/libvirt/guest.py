# SPDX-License-Identifier: Apache-2.0
"""One guest on this host, as the freezing code sees it."""

import dataclasses

import libvirt

from stillframe.compute.libvirt import agent
from stillframe.compute.libvirt import errors
from stillframe.compute.libvirt import jobs
from stillframe.compute.libvirt import lease as lease_
from stillframe.compute.libvirt.troubles import AgentTrouble
from stillframe.compute.libvirt.troubles import Trouble
from stillframe.states import servers as states

_POWER = {
    libvirt.VIR_DOMAIN_NOSTATE: states.POWER_NOSTATE,
    libvirt.VIR_DOMAIN_RUNNING: states.POWER_RUNNING,
    libvirt.VIR_DOMAIN_BLOCKED: states.POWER_RUNNING,
    libvirt.VIR_DOMAIN_PAUSED: states.POWER_PAUSED,
    libvirt.VIR_DOMAIN_SHUTDOWN: states.POWER_SHUTDOWN,
    libvirt.VIR_DOMAIN_SHUTOFF: states.POWER_SHUTDOWN,
    libvirt.VIR_DOMAIN_CRASHED: states.POWER_CRASHED,
    libvirt.VIR_DOMAIN_PMSUSPENDED: states.POWER_SUSPENDED,
}
_OFF = frozenset((states.POWER_SHUTDOWN, states.POWER_CRASHED,
                  states.POWER_NOSTATE))

# Jobs in which the guest is about to leave this host or to stop. Others (a
# backup, a block job) go well with a freeze.
_LEAVING = frozenset((
    libvirt.VIR_DOMAIN_JOB_OPERATION_MIGRATION_IN,
    libvirt.VIR_DOMAIN_JOB_OPERATION_MIGRATION_OUT,
    libvirt.VIR_DOMAIN_JOB_OPERATION_SAVE,
    libvirt.VIR_DOMAIN_JOB_OPERATION_SNAPSHOT_REVERT))


@dataclasses.dataclass(frozen=True)
class Run:
    """One run of a domain: what it is doing right now.

    :ivar domain_id: libvirt's number for this run; -1 when off.
    :ivar power_state: see :mod:`stillframe.states.servers`.
    :ivar migrated: it is off because it went to another host.
    """

    domain_id: int
    power_state: int
    migrated: bool

    @property
    def off(self) -> bool:
        """Whether nothing of the guest is running here."""
        return self.power_state in _OFF

    @property
    def halted(self) -> bool:
        """Whether it is there but cannot answer: paused, suspended."""
        return not self.off and self.power_state != states.POWER_RUNNING


class Guest:
    """A domain; every call is bounded and raises AgentTrouble only."""

    def __init__(self, domain: libvirt.virDomain, query_timeout: float):
        self._domain = domain
        self.agent = agent.DomainAgent(domain, query_timeout)

    def run(self) -> Run:
        """Look what the domain is doing."""
        try:
            state, reason = self._domain.state()
            power = power_state(state)
            return Run(
                domain_id=-1 if power in _OFF else self._domain.ID(),
                power_state=power,
                migrated=(state == libvirt.VIR_DOMAIN_SHUTOFF and reason
                          == libvirt.VIR_DOMAIN_SHUTOFF_MIGRATED))
        except libvirt.libvirtError as exc:
            raise errors.trouble(exc) from exc

    def leaving(self) -> bool:
        """Tell whether it is being migrated, saved or reverted."""
        return jobs.operation(self._domain) in _LEAVING

    def lease(self) -> lease_.Lease | None:
        """Give the lease that the running domain carries."""
        try:
            text = self._domain.metadata(
                libvirt.VIR_DOMAIN_METADATA_ELEMENT, lease_.URI,
                libvirt.VIR_DOMAIN_AFFECT_LIVE)
        except libvirt.libvirtError as exc:
            if exc.get_error_code() == libvirt.VIR_ERR_NO_DOMAIN_METADATA:
                return None
            raise errors.trouble(exc) from exc
        return lease_.from_xml(text)

    def carry(self, lease: lease_.Lease | None) -> None:
        """Give the running domain a lease, or take it away with None."""
        try:
            self._domain.setMetadata(
                libvirt.VIR_DOMAIN_METADATA_ELEMENT,
                None if lease is None else lease_.to_xml(lease),
                lease_.KEY, lease_.URI, libvirt.VIR_DOMAIN_AFFECT_LIVE)
        except libvirt.libvirtError as exc:
            if exc.get_error_code() != libvirt.VIR_ERR_NO_DOMAIN_METADATA:
                raise errors.trouble(exc) from exc


def power_state(libvirt_state: int) -> int:
    """Give our power state for libvirt's number."""
    return _POWER.get(libvirt_state, states.POWER_NOSTATE)


def gone(server_id: str) -> AgentTrouble:
    """Make the error for a domain that is not on this host."""
    return AgentTrouble(Trouble.GONE, f'no domain {server_id} on this host')
