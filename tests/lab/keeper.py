# SPDX-License-Identifier: Apache-2.0
"""Run one command and leave none of its offspring behind.

Started by tests.lab.processes as a program of its own:

    python -I -S keeper.py LIFELINE STATUS USER COMMAND...

LIFELINE is the read end of a pipe whose other end the starter holds.  When
that closes, because the starter closed it or because it died in whatever
way, every descendant of COMMAND is ended, daemonized ones too.  STATUS is
the write end of a pipe that gets the lines "pid N" and, when COMMAND itself
ends, "exit N" (as subprocess counts: negative for a signal).  COMMAND
begins with the path of a program; it is not looked for in PATH.  USER is the
name of the user to run COMMAND as; empty for the present one.

Being a child subreaper, the keeper also reaps daemonized offspring at once,
where PID 1 of a container may take seconds; libvirt waits for that.
"""

import ctypes
import os
import pwd
import select
import signal
import sys
import time

PR_SET_CHILD_SUBREAPER = 36
#: Seconds that offspring get between SIGTERM and SIGKILL.
GRACE = 2.0


def descendants():
    """Return the pids of all living descendants of this process."""
    parents = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/stat", encoding="latin-1") as file:
                # The command's name is in brackets and may hold spaces.
                fields = file.read().rpartition(")")[2].split()
        except OSError:
            continue
        if fields[0] != "Z":
            parents[int(entry)] = int(fields[1])
    found = {os.getpid()}
    grown = True
    while grown:
        more = {pid for pid, up in parents.items() if up in found} - found
        found |= more
        grown = bool(more)
    return found - {os.getpid()}


def run_as(user):
    """Become the named user, for good."""
    entry = pwd.getpwnam(user)
    os.setgroups([])
    os.setgid(entry.pw_gid)
    os.setuid(entry.pw_uid)


def start(user, command):
    """Fork and execute the command; return its pid."""
    pid = os.fork()
    if pid:
        return pid
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        if user:
            run_as(user)
        os.execve(command[0], command, os.environ)  # noqa: S606
    except Exception as error:  # noqa: BLE001  a fork must never return
        os.write(2, f"cannot run {command[0]}: {error}\n".encode())
    os._exit(127)


def reap(child, status):
    """Collect the dead; return False when there is no child left."""
    while True:
        try:
            pid, wait_status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return False
        if pid == 0:
            return True
        if pid == child:
            code = os.waitstatus_to_exitcode(wait_status)
            tell(status, f"exit {code}")


def tell(status, line):
    """Write a line to the starter, if it still listens."""
    try:
        os.write(status, f"{line}\n".encode())
    except BrokenPipeError:
        pass


def end_all(child, status, wake):
    """End every descendant: first with SIGTERM, then with SIGKILL."""
    deadline = time.monotonic() + GRACE
    asked = set()
    while reap(child, status):
        harder = time.monotonic() > deadline
        for pid in descendants():
            if pid in asked and not harder:
                continue
            asked.add(pid)
            try:
                os.kill(pid, signal.SIGKILL if harder else signal.SIGTERM)
                os.kill(pid, signal.SIGCONT)
            except ProcessLookupError:
                continue
        select.select([wake], [], [], 0.1)
        drain(wake)


def drain(wake):
    """Empty the pipe that signals write to."""
    try:
        while os.read(wake, 512):
            pass
    except BlockingIOError:
        pass


def main():
    """Keep one command; see the module's text."""
    lifeline, status = int(sys.argv[1]), int(sys.argv[2])
    user, command = sys.argv[3], sys.argv[4:]
    os.set_inheritable(lifeline, False)
    os.set_inheritable(status, False)
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    wake, wake_end = os.pipe()
    os.set_blocking(wake, False)
    os.set_blocking(wake_end, False)
    signal.set_wakeup_fd(wake_end)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    child = start(user, command)
    tell(status, f"pid {child}")
    while reap(child, status):
        ready, _, _ = select.select([lifeline, wake], [], [])
        drain(wake)
        if lifeline in ready:
            end_all(child, status, wake)
            return


if __name__ == "__main__":
    main()
