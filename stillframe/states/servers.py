# SPDX-License-Identifier: Apache-2.0
"""The state machine of a server, as data.

Every list of states that another module could need is here or is derived
from what is here. The rules are those of the quiesce specification for
Nova ("pending" verbs ``quiesce`` and ``unquiesce``) with the additions that
the promises of this project ask for: a third way out for work that cannot
be done at all, and a fourth for a freeze that had already ended.
"""

from collections.abc import Mapping
import dataclasses
import enum
import types

# vm_state: what a server is.
ACTIVE = 'active'
QUIESCED = 'quiesced'
PAUSED = 'paused'
SUSPENDED = 'suspended'
STOPPED = 'stopped'
ERROR = 'error'
DELETED = 'deleted'

VM_STATES = frozenset(
    (ACTIVE, QUIESCED, PAUSED, SUSPENDED, STOPPED, ERROR, DELETED))

# task_state: what is being done to it.
QUIESCING = 'quiescing'
UNQUIESCING = 'unquiescing'

TASK_STATES = frozenset((QUIESCING, UNQUIESCING))

# power_state: what the hypervisor says (the numbers are Nova's).
POWER_NOSTATE = 0
POWER_RUNNING = 1
POWER_PAUSED = 3
POWER_SHUTDOWN = 4
POWER_CRASHED = 6
POWER_SUSPENDED = 7

POWER_STATES = frozenset((POWER_NOSTATE, POWER_RUNNING, POWER_PAUSED,
                          POWER_SHUTDOWN, POWER_CRASHED, POWER_SUSPENDED))

# The vm_state of a server about which nothing but its power state is known.
# A state that was reached by a request (quiesced, error) is not in the
# values: only a request, an outcome or a reset leaves it.
_VM_STATE_OF_POWER: Mapping[int, str] = types.MappingProxyType({
    POWER_NOSTATE: STOPPED,
    POWER_RUNNING: ACTIVE,
    POWER_PAUSED: PAUSED,
    POWER_SHUTDOWN: STOPPED,
    POWER_CRASHED: STOPPED,
    POWER_SUSPENDED: SUSPENDED,
})

# The vm_states that follow the power state.
FOLLOWS_POWER = frozenset(_VM_STATE_OF_POWER.values())

# The word that the compute dialect shows as "status".
_STATUS: Mapping[str, str] = types.MappingProxyType({
    ACTIVE: 'ACTIVE',
    QUIESCED: 'QUIESCED',
    PAUSED: 'PAUSED',
    SUSPENDED: 'SUSPENDED',
    STOPPED: 'SHUTOFF',
    ERROR: 'ERROR',
    DELETED: 'DELETED',
})
_VM_STATE_OF_STATUS = types.MappingProxyType(
    {status: vm_state for vm_state, status in _STATUS.items()})

# os-resetState knows these two only, as in Nova.
RESET_TARGETS = frozenset((ACTIVE, ERROR))


class Result(enum.StrEnum):
    """How a piece of work on a guest ended."""

    #: Done and verified.
    SUCCESS = 'success'
    #: Refused before anything was changed; the sentence says why.
    CANNOT = 'cannot'
    #: Began and went wrong; the guest was thawed if that could be had.
    FAILED = 'failed'
    #: The freeze had ended before the request to end it.
    LOST = 'lost'


@dataclasses.dataclass(frozen=True)
class Transition:
    """One request that moves a server.

    :ivar vm_state: the vm_state it needs (task_state must be None).
    :ivar task_state: the task_state while it runs.
    :ivar outcome: vm_state by :class:`Result`.
    """

    vm_state: str
    task_state: str
    outcome: Mapping[Result, str]


TRANSITIONS: Mapping[str, Transition] = types.MappingProxyType({
    'quiesce': Transition(
        ACTIVE, QUIESCING, types.MappingProxyType({
            Result.SUCCESS: QUIESCED,
            Result.CANNOT: ACTIVE,
            Result.FAILED: ERROR,
            # Frozen, but thawed again before the outcome could be told.
            Result.LOST: ACTIVE,
        })),
    'unquiesce': Transition(
        QUIESCED, UNQUIESCING, types.MappingProxyType({
            Result.SUCCESS: ACTIVE,
            # Nothing was sent, so the guest is as frozen as it was and its
            # deadline still stands.
            Result.CANNOT: QUIESCED,
            Result.FAILED: ERROR,
            Result.LOST: ACTIVE,
        })),
})

# A reset from one of these has a guest to thaw first; from any other state
# it is a change in the database alone.
RESET_THAWS = frozenset((QUIESCED, ERROR))
RESET_TASK = UNQUIESCING


def can(request: str, vm_state: str, task_state: str | None) -> bool:
    """Tell whether a server in these states takes a request.

    :param request: a key of :data:`TRANSITIONS`.
    """
    transition = TRANSITIONS[request]
    return vm_state == transition.vm_state and task_state is None


def after(request: str, result: Result) -> str:
    """Give the vm_state in which a request ends."""
    return TRANSITIONS[request].outcome[result]


def reset_thaws(vm_state: str, task_state: str | None) -> bool:
    """Tell whether os-resetState has to thaw the guest first."""
    return vm_state in RESET_THAWS or task_state in TASK_STATES


def vm_state_of_power(power_state: int) -> str:
    """Give the vm_state of a server known by its power state alone."""
    return _VM_STATE_OF_POWER[power_state]


def status(vm_state: str) -> str:
    """Give the status word shown for a vm_state."""
    return _STATUS[vm_state]


def vm_state_of_status(word: str) -> str | None:
    """Give the vm_state behind a status word, in any case of letters.

    :return: None for a word that no server of ours can have.
    """
    return _VM_STATE_OF_STATUS.get(word.upper())
