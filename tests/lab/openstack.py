# SPDX-License-Identifier: Apache-2.0
"""What the real OpenStack services of the laboratory have in common.

They live in an environment of their own, .venv-openstack, which
tools/setup.sh makes.  A database costs five seconds to create, so a
finished one is kept below .lab and copied.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Mapping
import fcntl
import hashlib
import os
from pathlib import Path
import shutil
import subprocess
import tempfile
from typing import TYPE_CHECKING

from keystoneauth1 import service_token
from keystoneauth1 import session as ks_session
from keystoneauth1.identity import v3 as identity

from tests.lab.processes import LabError
from tests.lab.processes import Process

if TYPE_CHECKING:
    from tests.lab.keystone import Account
    from tests.lab.keystone import Keystone

TOP = Path(__file__).parents[2]
VENV = TOP / ".venv-openstack"
BIN = VENV / "bin"
CACHE = TOP / ".lab" / "databases"

#: A configuration: sections, each with its options.
Settings = Mapping[str, Mapping[str, object]]


def need_venv() -> None:
    """Make sure that the environment is there.

    :raises LabError: when it is not.
    """
    if not (BIN / "gunicorn").exists():
        raise LabError(f"{VENV} is missing: run tools/setup.sh test")


def environment(**more: str) -> dict[str, str]:
    """Return the whole environment for a program of .venv-openstack.

    :param more: variables to add or to replace; PATH is put before the
        usual one.
    """
    path = [more.pop("PATH", ""), str(BIN), os.defpath, "/usr/sbin", "/sbin"]
    return {"PATH": ":".join(one for one in path if one), "LC_ALL": "C",
            "PYTHONUNBUFFERED": "1", **more}


def write_ini(path: Path, settings: Settings) -> None:
    """Write a configuration file as oslo.config reads it.

    Values go in as they are; a dollar sign would refer to another option.
    """
    lines: list[str] = []
    for section, options in settings.items():
        lines.append(f"[{section}]")
        lines += [f"{name} = {value}" for name, value in options.items()]
    path.write_text("\n".join(lines) + "\n")


def gunicorn(name: str, application: str, port: int, state: Path,
             environ: dict[str, str]) -> Process:
    """Return a web server for a WSGI application, not started yet.

    All options are in a file: some applications take the command line for
    theirs.

    :param application: module:name.
    :param port: of 127.0.0.1.
    :param state: directory for its files.
    :param environ: its whole environment.
    """
    options = {"wsgi_app": application, "bind": f"127.0.0.1:{port}",
               "workers": 1, "threads": 8, "timeout": 600,
               "graceful_timeout": 5, "control_socket_disable": True,
               "worker_tmp_dir": str(state)}
    config = state / f"{name}-gunicorn.py"
    config.write_text("".join(f"{option} = {value!r}\n"
                              for option, value in options.items()))
    return Process(name, [BIN / "gunicorn"],
                   log=state / f"{name}.out", cwd=state,
                   env={**environ, "GUNICORN_CMD_ARGS": f"--config {config}"})


def session(keystone: Keystone, account: Account,
            service: Account | None = None) -> ks_session.Session:
    """Return a keystoneauth session of an account.

    :param service: whose token to send along as X-Service-Token.
    """
    auth = identity.Password(**keystone.credentials(account))
    if service is not None:
        auth = service_token.ServiceTokenAuthWrapper(
            user_auth=auth,
            service_auth=identity.Password(**keystone.credentials(service)))
    return ks_session.Session(auth=auth)


def auth_options(keystone: Keystone, account: Account) -> dict[str, object]:
    """Return an account as the options of a [keystone_authtoken] or alike."""
    return {"auth_type": "password", **keystone.credentials(account)}


def database(path: Path) -> dict[str, object]:
    """Return the options of [database] for SQLite on a busy machine.

    Writers wait long for one another; what a power cut would lose is of no
    interest here.
    """
    return {"connection": f"sqlite:///{path}?timeout=120",
            "sqlite_synchronous": "false"}


def run(command: list[str | Path], environ: dict[str, str],
        timeout: float = 300) -> None:
    """Run a command to its end.

    :raises LabError: when it fails, with what it printed.
    """
    done = subprocess.run(command, env=environ, capture_output=True,
                          text=True, timeout=timeout)
    if done.returncode:
        raise LabError(f"{command[0]} ended with {done.returncode}:\n"
                       f"{(done.stdout + done.stderr)[-4000:]}")


def finished_database(name: str, into: Path, version: str,
                      make: Callable[[], None]) -> None:
    """Put a finished SQLite database in place, from the cache if there.

    :param name: names it in the cache.
    :param into: where it is wanted; nothing may be there yet.
    :param version: changes when the finished database would differ.
    :param make: makes it at `into` when it isn't in the cache.
    """
    CACHE.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256(version.encode())
    digest.update((TOP / "constraints-openstack.txt").read_bytes())
    kept = CACHE / f"{name}-{digest.hexdigest()[:16]}.sqlite"
    with (CACHE / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if kept.exists():
            shutil.copyfile(kept, into)
            return
        make()
        for old in CACHE.glob(f"{name}-*.sqlite"):
            old.unlink()
        with tempfile.TemporaryDirectory(dir=CACHE) as scratch:
            copy = Path(scratch) / "copy"
            shutil.copyfile(into, copy)
            copy.rename(kept)
