# SPDX-License-Identifier: Apache-2.0
"""Work that may hang where nothing can end it: in the read of a disk.

It is done in a thread of its own, which is left alone when somebody has
said so and it does not end: it ends with the process.
"""

from collections.abc import Callable
import queue
import threading
from typing import Generic
from typing import TypeVar

from stillframe.agent import failures

T = TypeVar('T')

# Seconds for what is left to end in order.
_LAST_MOMENT = 5.0


class Apart(Generic[T]):
    """One piece of work, done once."""

    def __init__(self, name: str):
        """Prepare.

        :param name: of the thread.
        """
        self._name = name
        self._left = False
        self._ended: queue.SimpleQueue = queue.SimpleQueue()

    def leave(self) -> None:
        """Have :meth:`run` raise Stopped soon; from any thread."""
        self._left = True
        self._ended.put(None)

    def run(self, work: Callable[[], T]) -> T:
        """Do the work, and wait for its end.

        How long that may take is for who calls :meth:`leave` to say: the
        conductor, which has the stream stopped or the machine switched off
        when nothing is heard of it.

        :return: what it returns.
        :raises Stopped: :meth:`leave` was called.
        :raises: what it raises.
        """
        def carry_out() -> None:
            try:
                self._ended.put((work(), None))
            except BaseException as exc:  # noqa: BLE001
                # Raised anew by who waits for it.
                self._ended.put((None, exc))

        worker = threading.Thread(target=carry_out, name=self._name,
                                  daemon=True)
        worker.start()
        end = self._ended.get()
        worker.join(_LAST_MOMENT)
        if self._left:
            raise failures.Stopped('The stream was stopped.')
        result, trouble = end
        if trouble is not None:
            raise trouble
        return result
