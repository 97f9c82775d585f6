# SPDX-License-Identifier: Apache-2.0
"""A real PostgreSQL of our own, on loopback."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
import signal

import psycopg

from tests.lab.processes import LabError
from tests.lab.processes import Process
from tests.lab.processes import free_port
from tests.lab.processes import unprivileged_user
from tests.lab.service import Service


def programs() -> Path:
    """Return the directory of the newest installed PostgreSQL.

    :raises LabError: when there is none.
    """
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"),
                   key=lambda path: int(path.parts[-3]))
    if not found:
        raise LabError("PostgreSQL is missing: run tools/setup.sh test")
    return found[-1].parent


class Postgres(Service):
    """One database server: ``with Postgres() as db: db.create("x")``.

    The port and the data stay when it is stopped and started again.
    """

    purpose = "pg"

    def __init__(self) -> None:
        super().__init__()
        self._environment = {"PATH": os.defpath, "LC_ALL": "C.UTF-8"}
        self.port = 0

    def _set_up(self) -> None:
        self.port = free_port()
        # PostgreSQL refuses to run as root: all of it belongs to nobody.
        self.path.chmod(0o777)
        maker = Process(
            "initdb",
            [programs() / "initdb", "--pgdata", self.path / "data",
             "--username=root", "--auth=trust", "--encoding=UTF8",
             "--no-sync"],
            log=self.path / "log", env=self._environment, cwd=self.path,
            user=unprivileged_user()).start()
        code = maker.wait(60)
        maker.stop()
        if code:
            raise LabError(f"no PostgreSQL: {maker.tail()}")

    def start(self) -> None:
        """Start it; return when it answers."""
        process = Process(
            "postgres",
            [programs() / "postgres", "-D", self.path / "data",
             "-p", str(self.port), "-h", "127.0.0.1", "-k", self.path,
             "-c", "fsync=off", "-c", "max_connections=300"],
            log=self.path / "log", env=self._environment, cwd=self.path,
            user=unprivileged_user())
        self.process = process.start()
        process.wait_ready(self._answers)

    def _answers(self) -> bool:
        try:
            self._execute("SELECT 1")
        except psycopg.OperationalError:
            return False
        return True

    def _execute(self, statement: str) -> None:
        with psycopg.connect(host="127.0.0.1", port=self.port, user="root",
                             dbname="postgres", connect_timeout=5,
                             autocommit=True) as connection:
            connection.execute(statement.encode())

    def stop(self) -> None:
        """Stop it, not waiting for its clients; its data stays."""
        if self.process is not None:
            # SIGTERM would wait until the last client has gone.
            self.process.signal(signal.SIGINT)
            with contextlib.suppress(LabError):
                self.process.wait(10)
        super().stop()

    def create(self, name: str) -> str:
        """Make an empty database; return its SQLAlchemy URL."""
        self._execute(f'CREATE DATABASE "{name}"')
        return f"postgresql+psycopg://root@127.0.0.1:{self.port}/{name}"

    def drop(self, name: str) -> None:
        """Remove a database, with whoever uses it."""
        self._execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
