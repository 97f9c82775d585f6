# SPDX-License-Identifier: Apache-2.0
"""``stillframe-agent``: the agent's process, its log and its exit status.

The status says to the ramdisk's init what to do: an agent whose token was
given to somebody else can only wait to be powered off, one that found no
node may try again.
"""

import logging
import sys

from stillframe.agent import heartbeat
from stillframe.agent import lookup
from stillframe.agent import runtime
from stillframe.agent import settings

LOG = logging.getLogger('stillframe.agent')

#: It was told to end, by a signal.
ENDED = 0
#: It cannot work with what it was told, or cannot listen.
UNUSABLE = 2
#: The node's token was given out before; only a new boot helps.
TOKEN_TAKEN = 3
#: No node is this machine, or the API was not reached.
NO_NODE = 4
#: The API takes no heartbeat any more.
UNHEARD = 5


def main(argv: list[str] | None = None) -> int:
    """Run the agent until it is told to end.

    :return: the exit status.
    """
    # The kernel's console shows it, and whoever looks at the serial line.
    logging.basicConfig(
        stream=sys.stderr, level=logging.INFO,
        format='%(asctime)s %(levelname)s %(name)s: %(message)s')
    try:
        told = settings.read(argv)
        logging.getLogger('stillframe').setLevel(
            logging.DEBUG if told.debug else logging.INFO)
        runtime.Agent(told).run()
    except (settings.BadSettings, runtime.CannotServe) as exc:
        LOG.critical('%s', exc)
        return UNUSABLE
    except runtime.TokenTaken as exc:
        LOG.critical('%s', exc)
        return TOKEN_TAKEN
    except lookup.NotFound as exc:
        LOG.critical('%s', exc)
        return NO_NODE
    except heartbeat.Unheard as exc:
        LOG.critical('%s', exc)
        return UNHEARD
    return ENDED
