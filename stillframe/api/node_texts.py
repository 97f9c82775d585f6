# SPDX-License-Identifier: Apache-2.0
"""Nodes that were written already, in detail, to be written again.

A node that nothing happens to looks the same each time. To read its whole
row, make a document of it and write that as JSON takes far longer than to
see in the database that it has not changed; so lists of nodes with all
details read that first.

Everything that a node shows is in its row, in the state of the ring, or in
the row of a snapshot. Whoever writes to a node's row sets updated_at, or
changes one of the few other columns that are compared; nodes with a
snapshot under way are never remembered.
"""

from collections.abc import Callable
from collections.abc import Hashable
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
import threading
from typing import Any

from stillframe.states import nodes as states

#: The columns that tell whether a node has changed.
COLUMNS = ('uuid', 'version', 'updated_at', 'provision_state',
           'reservation', 'power_state', 'owner', 'lessee')

# Texts that are remembered: of some 3 KB each.
_MOST = 4096

Row = Mapping[Any, Any]


class NodeTexts:
    """Remembers texts of nodes; one object a process."""

    def __init__(self, most: int = _MOST):
        self._most = most
        self._lock = threading.Lock()
        # By uuid and kind, the longest unused first.
        self._texts: dict[tuple[str, Hashable],
                          tuple[tuple[Any, ...], str]] = {}

    def get(self, stamps: Sequence[Row], kind: Callable[[Row], Hashable],
            read: Callable[[Sequence[str]], Iterable[Row]],
            write: Callable[[Sequence[Row]], Iterable[str]]) -> list[str]:
        """Give the texts of nodes, written anew where they changed.

        :param stamps: the nodes, with :data:`COLUMNS`.
        :param kind: all beside the node that its text depends on.
        :param read: gives the whole rows of nodes by their uuids; one that
            is gone meanwhile is left out.
        :param write: gives the texts of nodes by their rows, in order.
        """
        found: dict[str, str] = {}
        changed = []
        with self._lock:
            for stamp in stamps:
                key = stamp['uuid'], kind(stamp)
                known = self._texts.pop(key, None)
                # Who asks may have asked for further columns.
                if known is not None and known[0] == tuple(
                        stamp[name] for name in COLUMNS):
                    found[stamp['uuid']] = known[1]
                    # It is the youngest again.
                    self._texts[key] = known
                else:
                    changed.append(stamp['uuid'])
        if changed:
            rows = list(read(changed))
            texts = list(write(rows))
            with self._lock:
                for row, text in zip(rows, texts, strict=True):
                    found[row['uuid']] = text
                    if row['provision_state'] not in states.SNAPSHOT_FAMILY:
                        self._texts[row['uuid'], kind(row)] = tuple(
                            row[name] for name in COLUMNS), text
                while len(self._texts) > self._most:
                    del self._texts[next(iter(self._texts))]
        return [found[stamp['uuid']] for stamp in stamps
                if stamp['uuid'] in found]
