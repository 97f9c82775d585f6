# SPDX-License-Identifier: Apache-2.0
"""Start, watch, hurt and stop programs.

Each program runs under a keeper (tests.lab.keeper), so that nothing of it
outlives this process.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Iterator
import contextlib
import fcntl
import os
from pathlib import Path
import random
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from typing import TypeVar

T = TypeVar("T")
#: In each state directory, locked by the process that it belongs to.
OWNER = ".owner"
KEEPER = Path(__file__).with_name("keeper.py")
#: Held while a state directory is made or cleared away.
LOCK = Path(__file__).parents[2] / ".lab" / "state-dirs.lock"
#: The file in a state directory that its living maker has locked.
OWNER = ".owner"
# Below those of connections that go out (net.ipv4.ip_local_port_range).
_PORTS = range(10000, 32000)
_claims: list[socket.socket] = []


class LabError(Exception):
    """Something in the laboratory did not come up or did not answer."""


def wait_until(question: Callable[[], T], timeout: float, what: str,
               interval: float = 0.02) -> T:
    """Ask until the answer is true.

    For states that nobody announces; where there is an event, use it.

    :param question: called again and again; its answer is returned.
    :param timeout: seconds until giving up.
    :param what: names what is waited for, in the error.
    :param interval: seconds between two questions.
    :raises LabError: when time is up.
    """
    deadline = time.monotonic() + timeout
    while True:
        answer = question()
        if answer:
            return answer
        if time.monotonic() > deadline:
            raise LabError(f"waited {timeout} s in vain for {what}")
        time.sleep(interval)


def free_port() -> int:
    """Return a TCP port of 127.0.0.1 that is this process's to listen on.

    None that the kernel gives to connections that go out, and none that
    another process of the laboratory was given: a name that only one can
    have says so, and is gone with its process.
    """
    for _ in range(len(_PORTS)):
        port = random.choice(_PORTS)
        claim = socket.socket(socket.AF_UNIX)
        try:
            claim.bind(f"\0stillframe-lab-port-{port}")
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", port))
        except OSError:
            claim.close()
            continue
        _claims.append(claim)
        return port
    raise LabError("no port is free")


def port_open(port: int, address: str = "127.0.0.1") -> bool:
    """Tell whether somebody accepts connections on address:port."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex((address, port)) == 0


@contextlib.contextmanager
def state_dir(purpose: str) -> Iterator[Path]:
    """Make a fresh directory with a short path; remove it afterwards.

    Short, because the path of a UNIX socket below it may have no more than
    107 bytes.  Directories of owners that were killed are removed too.
    """
    _sweep()
    path = Path(tempfile.mkdtemp(prefix="sf-", suffix=f"-{purpose}",
                                 dir="/tmp"))
    path.chmod(0o755)
    try:
        with (path / OWNER).open("w") as owner:
            fcntl.flock(owner, fcntl.LOCK_EX)
            yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def _sweep() -> None:
    """Remove the directories whose owners live no more."""
    for owner in Path("/tmp").glob(f"sf-*/{OWNER}"):
        with contextlib.suppress(OSError), owner.open() as file:
            # Whoever lives holds the lock; this raises then.
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(owner.parent, ignore_errors=True)


class Process:
    """One program, with all that it forks.

    :param name: for messages.
    :param command: program and arguments.
    :param log: file that gets what it prints, appended.
    :param env: its whole environment; None for a copy of ours.
    :param cwd: its working directory.
    :param user: name of the user to run it as; None for ours.
    """

    def __init__(self, name: str, command: list[str | Path], log: Path,
                 env: dict[str, str] | None = None,
                 cwd: Path | None = None, user: str | None = None):
        self.name = name
        self.command = [str(word) for word in command]
        self.log = log
        self.env = env
        self.cwd = cwd
        self.user = user
        self.pid = 0
        self.returncode: int | None = None
        self._keeper: subprocess.Popen | None = None
        self._lifeline = -1
        self._status = -1
        self._unread = b""
        self._lock = threading.RLock()

    def start(self) -> Process:
        """Start it; return when its pid is known (not: when it's ready)."""
        if self._keeper is not None:
            raise LabError(f"{self.name} was started already")
        path = (self.env or os.environ).get("PATH")
        program = shutil.which(self.command[0], path=path)
        if program is None:
            raise LabError(f"{self.command[0]} is not installed in {path}")
        lifeline, self._lifeline = os.pipe()
        self._status, status = os.pipe()
        self.returncode = None
        self._unread = b""
        try:
            with self.log.open("ab") as log:
                self._keeper = subprocess.Popen(
                    [sys.executable, "-I", "-S", str(KEEPER), str(lifeline),
                     str(status), self.user or "", program, *self.command[1:]],
                    stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                    pass_fds=(lifeline, status), start_new_session=True,
                    env=self.env, cwd=self.cwd)
        finally:
            os.close(lifeline)
            os.close(status)
        self.pid = 0
        deadline = time.monotonic() + 10
        while not self.pid and time.monotonic() < deadline:
            self._listen(0.5)
        if not self.pid:
            self.stop()
            raise LabError(f"{self.name} did not start:\n{self.tail()}")
        return self

    def _listen(self, timeout: float) -> None:
        """Take in what the keeper has to tell; wait at most timeout s."""
        with self._lock:
            if self._status < 0 or self.returncode is not None:
                return
            if not select.select([self._status], [], [], timeout)[0]:
                return
            data = os.read(self._status, 4096)
            *lines, self._unread = (self._unread + data).split(b"\n")
            for line in lines:
                word, _, number = line.partition(b" ")
                if word == b"pid":
                    self.pid = int(number)
                else:
                    self.returncode = int(number)
            if not data and self.returncode is None:
                # The keeper itself was killed; nobody knows the code.
                self.returncode = -signal.SIGKILL

    @property
    def running(self) -> bool:
        """Whether the program itself (not: its offspring) lives."""
        self._listen(0)
        return bool(self.pid) and self.returncode is None

    def wait(self, timeout: float) -> int:
        """Wait for its end; return the exit code (-N: by signal N)."""
        deadline = time.monotonic() + timeout
        while self.running:
            left = deadline - time.monotonic()
            if left < 0:
                raise LabError(f"{self.name} did not end in {timeout} s")
            self._listen(min(left, 0.5))
        if self.returncode is None:
            raise LabError(f"{self.name} was never started")
        return self.returncode

    def signal(self, number: int) -> None:
        """Send a signal to the program itself, if it lives."""
        if self.running:
            os.kill(self.pid, number)

    def terminate(self, timeout: float = 10) -> int:
        """Ask it to end (SIGTERM); its offspring is left alone."""
        self.signal(signal.SIGTERM)
        return self.wait(timeout)

    def kill(self) -> None:
        """End it like a crash would (SIGKILL); offspring is left alone."""
        self.signal(signal.SIGKILL)
        self.wait(5)

    def suspend(self) -> None:
        """Stop it in its tracks (SIGSTOP)."""
        self.signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let a suspended one go on (SIGCONT)."""
        self.signal(signal.SIGCONT)

    def release(self) -> None:
        """Forget a program that ended, and end what it left behind."""
        self.stop(timeout=0.1)

    def stop(self, timeout: float = 10) -> None:
        """End it and all its offspring.  No harm when it never ran."""
        if self._keeper is None:
            return
        self.resume()
        with contextlib.suppress(LabError):
            self.terminate(timeout)
        os.close(self._lifeline)
        try:
            self._keeper.wait(30)
        except subprocess.TimeoutExpired:
            self._keeper.kill()
            self._keeper.wait()
        self._listen(0)
        os.close(self._status)
        self._status = self._lifeline = -1
        self._keeper = None

    def tail(self, size: int = 2000) -> str:
        """Return the end of its log."""
        try:
            return self.log.read_text(errors="replace")[-size:]
        except OSError as error:
            return f"(no log: {error})"

    def wait_ready(self, question: Callable[[], object],
                   timeout: float = 30) -> None:
        """Ask until true; give up as soon as the program has ended.

        :raises LabError: with the end of the log.
        """
        def answer() -> bool:
            return not self.running or bool(question())

        try:
            wait_until(answer, timeout, f"{self.name} to be ready")
        except LabError as error:
            raise LabError(f"{error}; it printed:\n"
                           f"{self.tail() or '(nothing)'}") from None
        if not self.running:
            raise LabError(f"{self.name} ended with {self.returncode}:\n"
                           f"{self.tail()}")


def peak(pid: int) -> float:
    """Give the most memory that a process has had so far, in MiB."""
    text = Path(f"/proc/{pid}/status").read_text()
    found = re.search(r"VmHWM:\s+(\d+) kB", text)
    if found is None:
        raise LabError(f"process {pid} has no memory: {text}")
    return int(found[1]) / 1024


def unprivileged_user() -> str | None:
    """Name whom daemons run as: nobody when we are root, else ourselves."""
    return "nobody" if os.geteuid() == 0 else None
