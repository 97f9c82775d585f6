# SPDX-License-Identifier: Apache-2.0
"""States of a transfer: one image on its way to a conductor.

::

    waiting    --an upload arrives whole-->     arrived
    arrived    --another upload begins-->       waiting
    arrived    --its agent says it is done-->   finished
    any        --closed from afar-->            closed

An upload that runs, or broke off, leaves it ``waiting``.
"""

import enum


class State(enum.StrEnum):
    """What the database says of a transfer."""

    #: Nothing whole is here; an upload may begin.
    WAITING = 'waiting'
    #: A whole image is here; another upload may replace it.
    ARRIVED = 'arrived'
    #: The image is the one that the agent sent; nothing may replace it.
    FINISHED = 'finished'
    #: Another conductor ended it; ours still has to remove the file.
    CLOSED = 'closed'


#: What of an image is here to be kept over a restart.
HELD = frozenset({State.ARRIVED, State.FINISHED})
