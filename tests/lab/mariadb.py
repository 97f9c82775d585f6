# SPDX-License-Identifier: Apache-2.0
"""A real MariaDB of our own, on loopback."""

from __future__ import annotations

import os
import subprocess

import pymysql

from tests.lab.processes import LabError
from tests.lab.processes import Process
from tests.lab.processes import free_port
from tests.lab.processes import unprivileged_user
from tests.lab.service import Service


class MariaDB(Service):
    """One database server: ``with MariaDB() as db: db.create("x")``.

    The port and the data stay when it is stopped and started again.
    """

    purpose = "my"
    patience = 30

    def __init__(self) -> None:
        super().__init__()
        self.port = 0

    def _set_up(self) -> None:
        self.port = free_port()
        user = unprivileged_user()
        if user is not None:
            subprocess.run(["chown", user, self.path], check=True)
        done = subprocess.run(
            ["mariadb-install-db", "--no-defaults",
             f"--datadir={self.path / 'data'}",
             "--auth-root-authentication-method=normal", "--skip-test-db",
             *([f"--user={user}"] if user else [])],
            capture_output=True, text=True, timeout=120, cwd=self.path)
        if done.returncode:
            raise LabError(f"no MariaDB: {done.stdout}{done.stderr}")

    def start(self) -> None:
        """Start it; return when it answers."""
        process = Process(
            "mariadb",
            ["mariadbd", "--no-defaults", f"--datadir={self.path / 'data'}",
             f"--socket={self.path / 'socket'}", "--bind-address=127.0.0.1",
             f"--port={self.port}", "--innodb-flush-log-at-trx-commit=0",
             "--innodb-buffer-pool-size=64M", "--max-connections=300",
             "--skip-log-bin", "--skip-name-resolve"],
            log=self.path / "log", cwd=self.path,
            env={"PATH": os.defpath + ":/usr/sbin:/sbin"},
            user=unprivileged_user())
        self.process = process.start()
        process.wait_ready(self._answers, timeout=60)

    def _answers(self) -> bool:
        try:
            self._execute("SELECT 1")
        except pymysql.err.OperationalError:
            return False
        return True

    def _execute(self, statement: str) -> None:
        connection = pymysql.connect(host="127.0.0.1", port=self.port,
                                     user="root", connect_timeout=5)
        with connection, connection.cursor() as cursor:
            cursor.execute(statement)

    def create(self, name: str) -> str:
        """Make an empty database; return its SQLAlchemy URL."""
        self._execute(f"CREATE DATABASE `{name}` CHARACTER SET utf8mb4")
        return f"mysql+pymysql://root@127.0.0.1:{self.port}/{name}"

    def drop(self, name: str) -> None:
        """Remove a database."""
        self._execute(f"DROP DATABASE IF EXISTS `{name}`")
