# SPDX-License-Identifier: Apache-2.0
"""Running qemu-img within limits.

Every format is given to qemu-img; it never looks for itself. It runs with
bounded memory, and dies with this process: a successor must not find a
qemu-img at work that it does not know of.
"""

from collections.abc import Callable
from collections.abc import Sequence
import dataclasses
import os
import selectors
import subprocess

#: Runs a program that dies with its parent, whose process id comes first. A
#: parent that died before that was arranged is not seen to die any more.
DYING_WITH = ('setpriv', '--pdeathsig', 'KILL', 'sh', '-c',
              '[ "$PPID" = "$0" ] && exec "$@"')

# Seconds between two looks whether to stop, while nothing is printed.
_LOOK = 0.5


class Stopped(Exception):
    """qemu-img was stopped; the text says why."""


class TooMuch(Exception):
    """qemu-img printed more than anybody wanted to know."""


@dataclasses.dataclass(frozen=True)
class Limits:
    """What qemu-img may use.

    :ivar memory: bytes of its address space.
    :ivar written: most bytes of a file that it may write to; None: any.
    :ivar said: bytes of its output that are kept.
    :ivar last: whether only the last of its output matters.
    """

    memory: int = 2 << 30
    written: int | None = None
    said: int = 4096
    last: bool = True


@dataclasses.dataclass(frozen=True)
class Ended:
    """What became of a run.

    :ivar said: what it printed to its standard output.
    :ivar complained: the last of what it printed to its standard error.
    """

    status: int
    said: bytes
    complained: bytes


def run(words: Sequence[str], cwd: str, why_stop: Callable[[], str | None],
        limits: Limits, heard: Callable[[bytes], None] | None = None
        ) -> Ended:
    """Run it to its end.

    :param words: its arguments.
    :param cwd: its working directory: names in headers are relative to it.
    :param why_stop: asked twice a second; what it says ends the run.
    :param heard: told what is printed to the standard output.
    :raises Stopped: it was stopped.
    :raises TooMuch: it printed too much.
    :raises OSError: it cannot be run.
    """
    prlimit = ['prlimit', f'--as={limits.memory}', '--core=0']
    if limits.written is not None:
        prlimit.append(f'--fsize={limits.written}')
    child = subprocess.Popen(
        [*prlimit, *DYING_WITH, str(os.getpid()), 'qemu-img', *words],
        cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={'PATH': os.environ.get('PATH', os.defpath), 'LC_ALL': 'C'})
    with child:
        try:
            said, complained = _follow(child, why_stop, limits, heard)
        finally:
            child.kill()
    return Ended(child.returncode, said, complained)


def _follow(child: subprocess.Popen, why_stop: Callable[[], str | None],
            limits: Limits, heard: Callable[[bytes], None] | None
            ) -> tuple[bytes, bytes]:
    """Read what it prints until it ends."""
    if child.stdout is None or child.stderr is None:
        raise ValueError('qemu-img runs without a pipe')
    output = child.stdout.fileno()
    found = {output: b'', child.stderr.fileno(): b''}
    with selectors.DefaultSelector() as selector:
        for handle in found:
            selector.register(handle, selectors.EVENT_READ)
        while selector.get_map():
            if (why := why_stop()) is not None:
                raise Stopped(why)
            for key, _ in selector.select(_LOOK):
                more = os.read(key.fd, 4096)
                if not more:
                    selector.unregister(key.fd)
                    continue
                if key.fd == output and heard is not None:
                    heard(more)
                found[key.fd] = _kept(found[key.fd] + more, limits,
                                      key.fd == output)
    child.wait(10)
    said, complained = found.values()
    return said, complained


def _kept(text: bytes, limits: Limits, output: bool) -> bytes:
    if len(text) <= limits.said:
        return text
    if output and not limits.last:
        raise TooMuch(f'qemu-img printed more than {limits.said} bytes')
    return text[-limits.said:]
