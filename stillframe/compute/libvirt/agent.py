# SPDX-License-Identifier: Apache-2.0
"""The four things that are said to a guest's agent, each with a bound.

Standard library and libvirt only: the guard uses this too.
"""

import json
import math

import libvirt
import libvirt_qemu

from stillframe.compute.libvirt import errors
from stillframe.compute.libvirt import freezing
from stillframe.compute.libvirt.troubles import AgentTrouble
from stillframe.compute.libvirt.troubles import Trouble

_STATUS = json.dumps({'execute': 'guest-fsfreeze-status'})


class DomainAgent:
    """The agent in the guest of one domain.

    libvirt waits without end for an agent unless told otherwise, so a
    response time-out is set before each call that has no argument for it.
    """

    def __init__(self, domain: libvirt.virDomain, query_timeout: float):
        """Take a domain.

        :param query_timeout: seconds for a question; rounded up to whole
            ones, since libvirt has no finer bound.
        """
        self._domain = domain
        self._query_timeout = max(1, math.ceil(query_timeout))

    def _trouble(self, exc: libvirt.libvirtError) -> AgentTrouble:
        """Say what an error means; "not running" may mean that it is off."""
        trouble = errors.trouble(exc)
        if trouble.kind is not Trouble.NOT_RUNNING:
            return trouble
        try:
            if self._domain.isActive():
                return trouble
        except libvirt.libvirtError as later:
            return errors.trouble(later)
        return AgentTrouble(Trouble.GONE, str(exc))

    def status(self) -> freezing.Status:
        """Ask whether the guest is frozen.

        :raises AgentTrouble: no answer.
        """
        try:
            text = libvirt_qemu.qemuAgentCommand(
                self._domain, _STATUS, self._query_timeout, 0)
        except libvirt.libvirtError as exc:
            raise self._trouble(exc) from exc
        try:
            return freezing.Status(json.loads(text)['return'])
        except (ValueError, KeyError, TypeError) as exc:
            raise AgentTrouble(
                Trouble.REFUSED,
                f'not an answer about the freeze: {text[:200]!r}') from exc

    def freeze(self, mountpoints: list[str] | None, timeout: float) -> int:
        """Freeze file systems.

        :param mountpoints: only these; None: all that can be frozen.
        :param timeout: seconds; rounded up to whole ones.
        :return: how many were frozen.
        :raises AgentTrouble: see :mod:`~stillframe.compute.libvirt.troubles`.
        """
        try:
            self._domain.agentSetResponseTimeout(
                max(1, math.ceil(timeout)), 0)
            return self._domain.fsFreeze(mountpoints, 0)
        except libvirt.libvirtError as exc:
            raise self._trouble(exc) from exc

    def thaw(self, timeout: float) -> int:
        """Thaw all file systems; harmless when none is frozen.

        :param timeout: seconds; rounded up to whole ones.
        :return: how many were thawed.
        :raises AgentTrouble: see :mod:`~stillframe.compute.libvirt.troubles`.
        """
        try:
            self._domain.agentSetResponseTimeout(
                max(1, math.ceil(timeout)), 0)
            return self._domain.fsThaw(None, 0)
        except libvirt.libvirtError as exc:
            raise self._trouble(exc) from exc
