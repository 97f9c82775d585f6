# SPDX-License-Identifier: Apache-2.0
"""Carrying out commands, one at a time, and keeping their results.

The rules are those of ironic-python-agent, so that a conductor need not
know which agent it talks to. Two things are added: a command may say that
it can be carried out beside a running one (to stop it), and old results are
dropped.
"""

from collections.abc import Callable
import dataclasses
import logging
import threading
from typing import Any
import uuid

from stillframe.agent import command_errors as errors

LOG = logging.getLogger(__name__)

RUNNING = 'RUNNING'
SUCCEEDED = 'SUCCEEDED'
FAILED = 'FAILED'

#: Finished commands whose results are kept, beside the last long one.
KEPT = 100


@dataclasses.dataclass(frozen=True)
class Command:
    """Something that can be ordered.

    :ivar run: takes the parameters by name, returns the result.
    :ivar background: runs in a thread of its own; the answer comes at once.
    :ivar while_busy: may run beside another command. Not in the background.
    :ivar check: of one in the background: takes the parameters by name
        before anything is begun; raises InvalidCommandParamsError.
    :ivar stop: asks a running command to end soon.
    """

    run: Callable[..., Any]
    background: bool = False
    while_busy: bool = False
    check: Callable[..., Any] | None = None
    stop: Callable[[], Any] | None = None


class Result:
    """What became of one command.

    :ivar id: unguessable.
    :ivar name: of the command, without its extension.
    """

    def __init__(self, name: str):
        self.id = str(uuid.uuid4())
        self.name = name
        self._done = threading.Event()
        self._end: tuple[str, Any, Any] = (RUNNING, None, None)

    @property
    def is_done(self) -> bool:
        """Whether the command has ended."""
        return self._done.is_set()

    def wait(self, seconds: float) -> bool:
        """Wait for the end.

        :return: whether it came in time.
        """
        return self._done.wait(seconds)

    def succeed(self, result: Any) -> None:
        """Note a good end."""
        self._finish(SUCCEEDED, result, None)

    def fail(self, error: BaseException) -> None:
        """Note a bad end."""
        self._finish(FAILED, None, errors.serialize(error))

    def _finish(self, status: str, result: Any, error: Any) -> None:
        self._end = (status, result, error)
        self._done.set()

    def serialize(self) -> dict[str, Any]:
        """Show it as the command API does."""
        status, result, error = self._end
        return {'id': self.id, 'command_name': self.name,
                'command_status': status, 'command_error': error,
                'command_result': result}


class Commands:
    """All that can be ordered, and what became of it."""

    def __init__(self, extensions: dict[str, dict[str, Command]],
                 ended: Callable[[], None]):
        """Take up work.

        :param extensions: commands by name, by the extension's name.
        :param ended: called when a command in the background has ended.
        """
        self._extensions = extensions
        self._ended = ended
        self._turn = threading.Lock()
        self._lock = threading.Lock()
        self._results: dict[str, Result] = {}
        self._running: tuple[Command, Result, threading.Thread] | None = None

    @property
    def busy(self) -> bool:
        """Whether a command is running."""
        running = self._running
        return running is not None and not running[1].is_done

    def results(self) -> list[Result]:
        """Give the results that are kept, oldest first."""
        with self._lock:
            return list(self._results.values())

    def result(self, result_id: str) -> Result:
        """Give one result.

        :raises RequestedObjectNotFoundError: it was never there, or is not
            kept any more.
        """
        with self._lock:
            try:
                return self._results[result_id]
            except KeyError:
                raise errors.RequestedObjectNotFoundError(
                    f'Command Result with id {result_id} not found.'
                ) from None

    def _find(self, full_name: str) -> tuple[str, Command]:
        extension, dot, name = full_name.partition('.')
        if not dot:
            raise errors.InvalidCommandError(
                'Command name must be of the form <extension>.<name>')
        if extension not in self._extensions:
            raise errors.RequestedObjectNotFoundError(
                f'Extension with id {extension} not found.')
        if name not in self._extensions[extension]:
            raise errors.InvalidCommandError(f'Unknown command: {name}')
        return name, self._extensions[extension][name]

    def execute(self, full_name: str, params: dict[str, Any]) -> Result:
        """Carry out a command, or begin to.

        :param full_name: ``extension.command``.
        :return: a finished result, or that of a command in the background.
        :raises InvalidCommandError: there is no such command.
        :raises RequestedObjectNotFoundError: no such extension.
        :raises InvalidCommandParamsError: it cannot be done as it was put.
        :raises AgentIsBusy: another one is running.
        """
        name, command = self._find(full_name)
        if command.while_busy:
            return self._carry_out(name, command, params)
        # Held while a short command runs: who comes second finds it done.
        with self._turn:
            if self._running and not self._running[1].is_done:
                raise errors.AgentIsBusy(
                    f'executing command {self._running[1].name}')
            if command.background:
                return self._begin(full_name, name, command, params)
            return self._carry_out(name, command, params)

    def _begin(self, full_name: str, name: str, command: Command,
               params: dict[str, Any]) -> Result:
        if command.check:
            command.check(**params)
        result = Result(name)
        thread = threading.Thread(
            target=self._work, args=(command, result, params),
            name=full_name, daemon=True)
        self._running = (command, result, thread)
        self._keep(result)
        LOG.info('command %s begins', full_name)
        thread.start()
        return result

    def _work(self, command: Command, result: Result,
              params: dict[str, Any]) -> None:
        try:
            result.succeed(command.run(**params))
            LOG.info('command %s succeeded', result.name)
        except Exception as exc:  # noqa: BLE001  # shown to who ordered it
            LOG.error('command %s failed: %s', result.name, exc)
            result.fail(exc)
        finally:
            self._ended()

    def _carry_out(self, name: str, command: Command,
                   params: dict[str, Any]) -> Result:
        result = Result(name)
        try:
            result.succeed(command.run(**params))
        except errors.InvalidCommandParamsError:
            raise
        except Exception as exc:  # noqa: BLE001  # shown to who ordered it
            LOG.error('command %s failed: %s', name, exc)
            result.fail(exc)
        self._keep(result)
        return result

    def _keep(self, result: Result) -> None:
        with self._lock:
            self._results[result.id] = result
            # The long command is the one that somebody asks about.
            last = self._running and self._running[1]
            done = [one.id for one in self._results.values()
                    if one.is_done and one is not last]
            for result_id in done[:max(0, len(done) - KEPT)]:
                del self._results[result_id]

    def stop(self, seconds: float) -> bool:
        """Ask the running command to end, and wait for it.

        :param seconds: until giving up.
        :return: whether nothing is running any more.
        """
        running = self._running
        if running is None:
            return True
        command, _result, thread = running
        if command.stop:
            command.stop()
        thread.join(seconds)
        return not thread.is_alive()
