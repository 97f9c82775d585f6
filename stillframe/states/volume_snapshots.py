# SPDX-License-Identifier: Apache-2.0
"""The states of a volume snapshot request, as data.

::

    pending --claimed by the worker--> running --outcome--> done | error
    pending --never claimed----------------------------------> error
    running --never reported---------------------------------> error

A request is taken up by its worker with a claim, so that one that was given
up before is never begun afterwards: an overlay that nobody expects any more
would split the volume's history in two.

Beside it goes how far telling Cinder is: ``none`` (nothing to tell yet, or
nobody to tell), ``due``, and then one of ``delivered``, ``refused`` (Cinder
says for good that it does not want to know), ``given_up`` (too long),
``superseded`` (a new request for the same volume came first) and
``unwanted``: Cinder had given a new snapshot up before it was told, so it
does not know of the file that the server writes to. Such a file is a stray:
Cinder would start the server from the file below it, and would merge around
it. It is merged down again by a request of our own (``undo``).
"""

import enum
import types

from stillframe.states import servers

CREATE = 'create'
DELETE = 'delete'
#: Merging a stray file down; begun by the conductor, told to nobody.
UNDO = 'undo'


class State(enum.StrEnum):
    """How far a request is on its host."""

    PENDING = 'pending'
    RUNNING = 'running'
    DONE = 'done'
    ERROR = 'error'


#: The work of the host is not over.
OPEN = frozenset((State.PENDING, State.RUNNING))


class Delivery(enum.StrEnum):
    """How far telling Cinder is."""

    NONE = 'none'
    DUE = 'due'
    DELIVERED = 'delivered'
    REFUSED = 'refused'
    GIVEN_UP = 'given_up'
    SUPERSEDED = 'superseded'
    UNWANTED = 'unwanted'


#: The new file of a request is a stray then, for all that is known.
STRAY = frozenset((Delivery.UNWANTED, Delivery.GIVEN_UP))

#: vm_states of a server whose volumes may be snapshotted and merged.
VM_STATES = frozenset((servers.ACTIVE, servers.QUIESCED, servers.PAUSED,
                       servers.STOPPED))

#: What a new snapshot of a running guest holds.
FILESYSTEM = 'filesystem'
CRASH = 'crash'


class Form(enum.StrEnum):
    """The dialects of Cinder's status update."""

    #: That of the specification: statuses and formats of its own.
    SPEC = 'spec'
    #: That which a stock Cinder takes.
    STOCK = 'stock'


#: What is sent when all went well, by form and operation.
COMPLETE = types.MappingProxyType({
    (Form.SPEC, CREATE): 'creating_compute_complete',
    (Form.SPEC, DELETE): 'deleting_compute_complete',
    (Form.STOCK, CREATE): 'creating',
    (Form.STOCK, DELETE): 'deleting',
})
#: What is sent when it did not; the same in both forms.
FAILED = types.MappingProxyType({
    CREATE: 'error',
    DELETE: 'error_deleting',
})
