# SPDX-License-Identifier: Apache-2.0
"""The extension ``snapshot`` of ironic-python-agent.

The same commands as those of the agent that stands alone. One difference is
that agent's: it carries out one command at a time, so ``stop`` is refused
as long as there is something to stop. The receiver stops a stream, by ending
the connection; and one that meets silence ends by itself.
"""

from typing import Any

from ironic_python_agent import errors
from ironic_python_agent.extensions import base

from stillframe.agent import command_errors
from stillframe.agent import failures
from stillframe.agent import orders
from stillframe.agent import snapshot


class SnapshotFailed(errors.RESTError):
    """A failure of ours in the words of that agent."""

    message = command_errors.CommandExecutionError.message

    def __init__(self, error: failures.AgentError):
        """Say what failed.

        :param error: its kind becomes the ``type``.
        """
        super().__init__(str(error))
        self.type = type(error).__name__


class SnapshotExtension(base.BaseAgentExtension):
    """Takes orders for a snapshot."""

    def __init__(self, agent: Any = None):
        super().__init__(agent=agent)
        self._snapshots = snapshot.Snapshots()

    def _check(self, **order: Any) -> None:
        try:
            orders.Order.parse(order)
        except failures.BadOrder as exc:
            raise errors.InvalidCommandParamsError(str(exc)) from exc

    @base.async_command('stream_image', _check)
    def stream_image(self, **order: Any) -> dict[str, Any]:
        """Send a disk; see :meth:`snapshot.Snapshots.stream_image`."""
        try:
            return self._snapshots.stream_image(order)
        except failures.AgentError as exc:
            raise SnapshotFailed(exc) from exc

    @base.sync_command('ping')
    def ping(self) -> dict[str, Any]:
        """Say that the extension is there, and what it can do."""
        return self._snapshots.ping()

    @base.sync_command('stop')
    def stop(self) -> dict[str, Any]:
        """Say that nothing runs: this is refused while something does."""
        return self._snapshots.stop()
