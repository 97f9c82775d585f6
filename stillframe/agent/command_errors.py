# SPDX-License-Identifier: Apache-2.0
"""What can go wrong with a command, as the command API shows it.

The names are part of the protocol: they appear as the ``type`` of an error,
and clients of ironic-python-agent know them.
"""

from typing import Any


class CommandExecutionError(Exception):
    """A command failed; the text says why, without any secret.

    :cvar message: what failed in general.
    :cvar code: the HTTP status that fits.
    """

    message = 'Command execution failed'
    code = 500

    @property
    def details(self) -> str:
        """What failed in particular."""
        return super().__str__()

    def __str__(self) -> str:
        return f'{self.message}: {self.details}'


class InvalidCommandError(CommandExecutionError):
    """No such command."""

    message = 'Invalid command'
    code = 400


class InvalidCommandParamsError(CommandExecutionError):
    """The command cannot be carried out as it was put."""

    message = 'Invalid command parameters'
    code = 400


class RequestedObjectNotFoundError(CommandExecutionError):
    """No such extension, or no such result."""

    message = 'Not found'
    code = 404


class AgentIsBusy(CommandExecutionError):
    """One command at a time."""

    message = 'Agent is busy'
    code = 409


def serialize(error: BaseException) -> dict[str, Any]:
    """Show an error as the command API does.

    :return: ``type``, ``code``, ``message`` and ``details``.
    """
    return {
        'type': type(error).__name__,
        'code': getattr(error, 'code', CommandExecutionError.code),
        'message': getattr(error, 'message', CommandExecutionError.message),
        'details': getattr(error, 'details', None) or str(error)
        or type(error).__name__}
