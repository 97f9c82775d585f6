# SPDX-License-Identifier: Apache-2.0
"""What the services of the laboratory have in common: how they live."""

from __future__ import annotations

import abc
import contextlib
from pathlib import Path
from typing import ClassVar
from typing import Self

from tests.lab.processes import Process
from tests.lab.processes import state_dir


class Service(abc.ABC):
    """One process with a folder of its own: ``with Service() as one: ...``.

    It may be stopped and started in between, and keeps what it had.

    :cvar purpose: short; is in the name of the folder.
    :cvar patience: seconds that it gets to stop by itself.
    :ivar path: its folder, which goes in the end.
    :ivar process: None when it does not run.
    """

    purpose: ClassVar[str]
    patience: ClassVar[float] = 10

    def __init__(self) -> None:
        self.path = Path()
        self.process: Process | None = None
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            self.path = stack.enter_context(state_dir(self.purpose))
            stack.callback(self.stop)
            self._set_up()
            self.start()
            self._started()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._stack.close()

    @abc.abstractmethod
    def _set_up(self) -> None:
        """Put into the folder what it needs, before the first start."""

    def _started(self) -> None:  # noqa: B027 - most have nothing to do
        """Do what is done once, when it runs for the first time."""

    @abc.abstractmethod
    def start(self) -> None:
        """Start it, or start it again with what it had; wait for it."""

    def stop(self) -> None:
        """Stop it; what it has stays."""
        if self.process is not None:
            self.process.stop(timeout=self.patience)
            self.process = None

    def kill(self) -> None:
        """Crash it (SIGKILL); start() brings it back."""
        if self.process is not None:
            self.process.kill()
            self.stop()

    def restart(self) -> None:
        """Stop and start it."""
        self.stop()
        self.start()
