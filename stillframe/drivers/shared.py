# SPDX-License-Identifier: Apache-2.0
"""What the interfaces of one process have in common."""

import threading
from typing import Protocol
from typing import Self
from typing import TypeVar

from oslo_config import cfg


class Closeable(Protocol):
    """Something made from the configuration that has to be closed."""

    def __init__(self, conf: cfg.ConfigOpts): ...

    def close(self) -> None: ...


C = TypeVar('C', bound=Closeable)


class Shared:
    """Makes one of each class when it is first asked for.

    The sessions with BMCs are one such thing: power, management and boot
    interface use the same ones.
    """

    def __init__(self, conf: cfg.ConfigOpts):
        self._conf = conf
        self._lock = threading.Lock()
        self._made: dict[type, Closeable] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def get(self, cls: type[C]) -> C:
        """Give the one instance of a class."""
        with self._lock:
            one = self._made.get(cls)
            if one is None:
                one = self._made[cls] = cls(self._conf)
            assert isinstance(one, cls)  # noqa: S101 -- for mypy
            return one

    def close(self) -> None:
        """Close all; what is asked for afterwards is made anew."""
        with self._lock:
            made, self._made = self._made, {}
        for one in made.values():
            one.close()
