# SPDX-License-Identifier: Apache-2.0
"""Ending this machine's run: power off or reboot.

Only on a machine whose kernel was booted for the agent. Somebody who tries
the agent on a machine that does other work shall not lose that machine.
"""

import logging
import os
import pathlib
import subprocess
import time

from stillframe.agent import command_errors as errors

LOG = logging.getLogger(__name__)

_SYSRQ = pathlib.Path('/proc/sysrq-trigger')
# Seconds: for the command to return, then for the machine to go down.
_COMMAND_LIMIT = 30.0
_GOING_DOWN = 15.0


class Power:
    """Powers this machine off, or refuses to."""

    def __init__(self, allowed: bool, sysrq: pathlib.Path = _SYSRQ,
                 going_down: float = _GOING_DOWN):
        """Decide whether it may.

        :param allowed: the machine was booted for the agent.
        :param going_down: seconds that a command gets for its work.
        """
        self._allowed = allowed
        self._sysrq = sysrq
        self._going_down = going_down

    def off(self) -> None:
        """Power off.

        :raises CommandExecutionError: it may not, or it did not work.
        """
        self._end('poweroff', 'o')

    def reboot(self) -> None:
        """Reboot, which runs what is on the disk.

        :raises CommandExecutionError: it may not, or it did not work.
        """
        self._end('reboot', 'b')

    def _end(self, command: str, key: str) -> None:
        if not self._allowed:
            raise errors.CommandExecutionError(
                f'This machine will not {command}: its kernel was not '
                'booted with ipa-api-url, so it may do other work.')
        os.sync()
        try:
            subprocess.run([command], check=True, timeout=_COMMAND_LIMIT,
                           capture_output=True)
            # A small init may take the signal and do nothing.
            time.sleep(self._going_down)
            LOG.warning('%s was obeyed by nobody; asking the kernel',
                        command)
        except (OSError, subprocess.SubprocessError) as exc:
            LOG.warning('%s: %s; asking the kernel', command, exc)
        try:
            self._sysrq.write_text(key)
        except OSError as exc:
            raise errors.CommandExecutionError(
                f'This machine cannot {command}: {exc}.') from exc
