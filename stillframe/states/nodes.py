# SPDX-License-Identifier: Apache-2.0
"""The state machine of a bare-metal node, as data.

Every list of provision states that another module could need is here or is
derived from what is here. Names and meaning are Ironic's; the snapshot
family is shaped as its "service" family: the long part waits in a state
that no worker holds, so that it can be aborted and survives a restart.
"""

from collections.abc import Mapping
import enum
import types

from automaton import machines

# provision_state
ENROLL = 'enroll'
VERIFYING = 'verifying'
MANAGEABLE = 'manageable'
AVAILABLE = 'available'
CLEANING = 'cleaning'
DEPLOYING = 'deploying'
ACTIVE = 'active'
ADOPTING = 'adopting'
ADOPT_FAILED = 'adopt failed'
SNAPSHOTTING = 'snapshotting'
SNAPSHOT_WAIT = 'snapshot wait'
SNAPSHOT_FAILED = 'snapshot failed'
DELETING = 'deleting'
ERROR = 'error'

# States in which a node rests; those that are shown without a target.
STABLE = frozenset((ENROLL, MANAGEABLE, AVAILABLE, ACTIVE))

# Where a node in any other state is going. Clients take an empty target in
# an unexpected state for a failure.
_TARGETS: Mapping[str, str] = types.MappingProxyType({
    VERIFYING: MANAGEABLE,
    CLEANING: AVAILABLE,
    DEPLOYING: ACTIVE,
    ADOPTING: ACTIVE,
    ADOPT_FAILED: ACTIVE,
    SNAPSHOTTING: ACTIVE,
    SNAPSHOT_WAIT: ACTIVE,
    SNAPSHOT_FAILED: ACTIVE,
    DELETING: AVAILABLE,
    ERROR: AVAILABLE,
})

PROVISION_STATES = STABLE | frozenset(_TARGETS)

# (state, event, next state)
_TRANSITIONS = (
    (ENROLL, 'manage', VERIFYING),
    (VERIFYING, 'done', MANAGEABLE),
    (VERIFYING, 'fail', ENROLL),

    (MANAGEABLE, 'provide', CLEANING),
    (AVAILABLE, 'manage', MANAGEABLE),
    (CLEANING, 'done', AVAILABLE),
    (CLEANING, 'fail', ERROR),

    (MANAGEABLE, 'adopt', ADOPTING),
    (ADOPTING, 'done', ACTIVE),
    (ADOPTING, 'fail', ADOPT_FAILED),
    (ADOPT_FAILED, 'adopt', ADOPTING),
    (ADOPT_FAILED, 'manage', MANAGEABLE),

    (AVAILABLE, 'deploy', DEPLOYING),
    (DEPLOYING, 'done', ACTIVE),
    (DEPLOYING, 'fail', ERROR),

    (ACTIVE, 'snapshot', SNAPSHOTTING),
    (SNAPSHOTTING, 'wait', SNAPSHOT_WAIT),
    (SNAPSHOTTING, 'fail', SNAPSHOT_FAILED),
    (SNAPSHOTTING, 'done', ACTIVE),
    (SNAPSHOT_WAIT, 'resume', SNAPSHOTTING),
    (SNAPSHOT_WAIT, 'fail', SNAPSHOT_FAILED),
    (SNAPSHOT_WAIT, 'abort', SNAPSHOT_FAILED),
    (SNAPSHOT_FAILED, 'abort', ACTIVE),
    (SNAPSHOT_FAILED, 'snapshot', SNAPSHOTTING),

    (ACTIVE, 'delete', DELETING),
    (SNAPSHOT_WAIT, 'delete', DELETING),
    (SNAPSHOT_FAILED, 'delete', DELETING),
    (ERROR, 'delete', DELETING),
    (DELETING, 'clean', CLEANING),
    (DELETING, 'fail', ERROR),
)

#: What a client asks for ("target" of states/provision) → event.
VERBS: Mapping[str, str] = types.MappingProxyType({
    'manage': 'manage',
    'provide': 'provide',
    'adopt': 'adopt',
    'active': 'deploy',
    'deploy': 'deploy',
    'deleted': 'delete',
    'undeploy': 'delete',
    'abort': 'abort',
    'snapshot': 'snapshot',
})


def _build() -> machines.FiniteMachine:
    machine = machines.FiniteMachine()
    for state in sorted(PROVISION_STATES):
        machine.add_state(state)
    for start, event, end in _TRANSITIONS:
        machine.add_transition(start, end, event)
    machine.default_start_state = ENROLL
    machine.freeze()
    return machine


#: The machine, for documents and for whoever walks it.
MACHINE = _build()

# A request asks the machine once or twice; a copy of it takes longer than
# all the rest.
_NEXT: Mapping[tuple[str, str], str] = types.MappingProxyType(
    {(start, event): end for start, event, end in MACHINE})

#: States that no worker holds, and that a heartbeat or silence ends.
WAITING = frozenset(
    start for start, event in _NEXT if event == 'resume')
#: States in which a conductor is at work, with the node reserved: nobody
#: else will take a node out of one.
WORKING = frozenset(
    start for start, event in _NEXT if event in ('done', 'clean'))
#: States after something went wrong.
FAILED = PROVISION_STATES - STABLE - WAITING - WORKING
#: All of a snapshot.
SNAPSHOT_FAMILY = frozenset(
    (SNAPSHOTTING, SNAPSHOT_WAIT, SNAPSHOT_FAILED))
#: States in which the ramdisk may be running, and may ask who it is.
LOOKUP_ALLOWED = frozenset((SNAPSHOTTING, SNAPSHOT_WAIT))
#: States in which a heartbeat has to reach a conductor.
HEARTBEAT_MATTERS = WAITING
#: States in which a user may change a node's record.
UPDATE_ALLOWED = STABLE | FAILED
#: Events that a node in maintenance refuses.
REFUSED_IN_MAINTENANCE = frozenset(('deploy', 'adopt', 'snapshot'))
#: States in which a node's record may be deleted.
DELETE_ALLOWED = frozenset((ENROLL, MANAGEABLE, AVAILABLE, ADOPT_FAILED))
#: States in which the node's power is the conductor's own business: a user
#: cannot change it, and what is seen is not written down.
POWER_IS_OURS = WORKING | WAITING


class Phase(enum.StrEnum):
    """How far one snapshot is."""

    PREPARING = 'preparing'
    BOOTING = 'booting'
    STREAMING = 'streaming'
    VERIFYING = 'verifying'
    UPLOADING = 'uploading'
    RESTORING = 'restoring'


#: Phases in which a machine that starts is to boot the ramdisk.
RAMDISK_PHASES = frozenset((Phase.PREPARING, Phase.BOOTING,
                            Phase.STREAMING))


class Outcome(enum.StrEnum):
    """How one snapshot ended."""

    DONE = 'done'
    FAILED = 'failed'
    ABORTED = 'aborted'
    DELETED = 'deleted'


class NoTransition(ValueError):
    """The machine has no such way."""


def can(state: str, verb: str) -> bool:
    """Tell whether a node in a state takes a request.

    :param verb: a key of :data:`VERBS`; any other word is refused.
    """
    return (state, VERBS.get(verb, '')) in _NEXT


def after(state: str, event: str) -> tuple[str, str | None]:
    """Give the state after an event, and the target shown with it.

    :raises NoTransition: the event cannot happen in this state.
    """
    try:
        state = _NEXT[state, event]
    except KeyError:
        raise NoTransition(
            f'{event!r} cannot happen in state {state!r}') from None
    return state, target(state)


def target(state: str) -> str | None:
    """Give the target shown with a state; None where it rests."""
    return _TARGETS.get(state)


def needs_conductor(state: str, verb: str) -> bool:
    """Tell whether a request is more than a change in the database.

    :raises NoTransition: the request is refused in this state.
    """
    end, _ = after(state, VERBS.get(verb, ''))
    return end in WORKING or state in WAITING
