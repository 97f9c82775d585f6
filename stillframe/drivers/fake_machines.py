# SPDX-License-Identifier: Apache-2.0
"""What is remembered of machines that do not exist, in memory."""

from collections import OrderedDict
from collections.abc import Callable
import threading
from typing import Any
from typing import TypeVar

from oslo_config import cfg

from stillframe.drivers.base import DISK
from stillframe.drivers.base import BootDevice

T = TypeVar('T')
#: Facts that are remembered; older ones are forgotten.
LIMIT = 50_000


class Machines:
    """The memory. Threads may share it."""

    def __init__(self, conf: cfg.ConfigOpts):
        self._lock = threading.Lock()
        self._facts: OrderedDict[tuple[str, str], Any] = OrderedDict()

    def close(self) -> None:
        """Forget all."""
        with self._lock:
            self._facts.clear()

    def boot_device(self, uuid: str) -> BootDevice:
        """Give what a machine boots from."""
        with self._lock:
            return self._facts.get((uuid, 'boot'), BootDevice(DISK, True))

    def set_boot_device(self, uuid: str, device: BootDevice) -> None:
        """Say what a machine boots from."""
        self._change(uuid, 'boot', lambda _old: device)

    def fails(self, uuid: str, call: str, times: int) -> bool:
        """Count a call that is to fail a few times.

        :param times: how often; True for ever.
        :return: whether this one is to fail.
        """
        if times is True:
            return True
        return self._change(uuid, call,
                            lambda old: (old or 0) + 1) <= times

    def begin(self, uuid: str, work: T) -> None:
        """Remember the work that a machine does; it does one at a time."""
        self._change(uuid, 'work', lambda _old: work)

    def work(self, uuid: str) -> Any:
        """Give the work that a machine does; None for none."""
        with self._lock:
            return self._facts.get((uuid, 'work'))

    def end(self, uuid: str) -> None:
        """Forget the work that a machine did."""
        with self._lock:
            self._facts.pop((uuid, 'work'), None)

    def _change(self, uuid: str, what: str,
                change: Callable[[Any], T]) -> T:
        with self._lock:
            new = change(self._facts.pop((uuid, what), None))
            self._facts[uuid, what] = new
            while len(self._facts) > LIMIT:
                self._facts.popitem(last=False)
            return new
