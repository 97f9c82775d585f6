# SPDX-License-Identifier: Apache-2.0
"""The kinds of trouble that a guest's agent can give.

Standard library only: the guard uses this too.
"""

import enum


class Trouble(enum.StrEnum):
    """Kinds of trouble with a guest's agent."""

    #: The domain has no channel for an agent.
    NO_CHANNEL = 'no_channel'
    #: Nobody in the guest has opened the channel.
    NOT_CONNECTED = 'agent_not_connected'
    #: The hypervisor or the agent does not know the command, or the
    #: command is disabled.
    UNSUPPORTED = 'unsupported'
    #: The guest is paused, or not started yet.
    NOT_RUNNING = 'not_running'
    #: The domain is shut off or no longer there.
    GONE = 'gone'
    #: Another command holds the agent.
    BUSY = 'busy'
    #: The agent declined, since the guest is frozen.
    FROZEN = 'already_frozen'
    #: No answer in time, or the agent vanished under the command.
    SILENT = 'agent_silent'
    #: The agent tried and reports an error, or the error is unknown.
    REFUSED = 'refused'
    #: The connection to the hypervisor broke, or there is none.
    CONNECTION = 'hypervisor_lost'


#: Kinds in which the agent certainly never got the command, or declined it
#: before it did anything.
NOTHING_DONE = frozenset((
    Trouble.NO_CHANNEL, Trouble.NOT_CONNECTED, Trouble.UNSUPPORTED,
    Trouble.NOT_RUNNING, Trouble.GONE, Trouble.BUSY, Trouble.FROZEN))


class AgentTrouble(Exception):
    """A question or a command to a guest's agent did not succeed.

    :ivar kind: a :class:`Trouble`.
    """

    def __init__(self, kind: Trouble, detail: str):
        super().__init__(detail)
        self.kind = kind

    @property
    def nothing_done(self) -> bool:
        """Whether the command certainly had no effect in the guest."""
        return self.kind in NOTHING_DONE
