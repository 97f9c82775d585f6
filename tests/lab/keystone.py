# SPDX-License-Identifier: Apache-2.0
"""A real Keystone of our own, on loopback.

Making its database takes half a minute, so a finished copy of database and
keys is kept below .lab.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
import fcntl
import hashlib
from pathlib import Path
import shutil
import sqlite3
import tempfile
import typing
import urllib.error
import urllib.request

import openstack
from openstack.identity.v3._proxy import Proxy

from tests.lab import openstack as services
from tests.lab.processes import free_port
from tests.lab.service import Service

CACHE = services.TOP / ".lab" / "keystone"
REGION = "RegionOne"
#: What is in the finished copy; a change of it makes the copy anew.
LAYOUT = "1"


@dataclass(frozen=True)
class Account:
    """A user in a project.

    :param roles: what it may do in the project.
    """

    user: str
    password: str
    project: str
    roles: tuple[str, ...]


ADMIN = Account("admin", "adminpw", "admin", ("admin",))
#: What keystonemiddleware checks tokens with.
SERVICE = Account("stillframe", "stillframepw", "service",
                  ("admin", "service"))
ALICE = Account("alice", "alicepw", "red", ("member", "reader"))
BOB = Account("bob", "bobpw", "blue", ("member", "reader"))
ACCOUNTS = (SERVICE, ALICE, BOB)


def _identity(cloud: openstack.connection.Connection) -> Proxy:
    """Return the client of the identity service, version 3."""
    return typing.cast(Proxy, cloud.identity)


class Keystone(Service):
    """One Keystone: ``with Keystone() as keystone: keystone.url``."""

    purpose = "ks"

    def __init__(self) -> None:
        super().__init__()
        self.port = free_port()

    # --- the finished copy --------------------------------------------------

    def _set_up(self) -> None:
        """Put configuration, database and keys in place."""
        services.need_venv()
        self._configure()
        digest = hashlib.sha256(LAYOUT.encode() + repr(ACCOUNTS).encode())
        digest.update(
            (services.TOP / "constraints-openstack.txt").read_bytes())
        kept = CACHE / digest.hexdigest()[:16]
        CACHE.mkdir(parents=True, exist_ok=True)
        with (CACHE / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not kept.exists():
                self._make()
                for old in CACHE.iterdir():
                    if old.is_dir():
                        shutil.rmtree(old)
                with tempfile.TemporaryDirectory(dir=CACHE) as scratch:
                    copy = Path(scratch) / "copy"
                    shutil.copytree(self.path / "data", copy)
                    copy.rename(kept)
                return
        shutil.copytree(kept, self.path / "data", dirs_exist_ok=True)
        # The copy knows Keystone's own address of when it was made.
        database = sqlite3.connect(self.path / "data/db.sqlite")
        with contextlib.closing(database), database:
            database.execute("UPDATE endpoint SET url = ?", (self.url,))

    def _configure(self) -> None:
        data = self.path / "data"
        data.mkdir()
        services.write_ini(self.path / "keystone.conf", {
            "DEFAULT": {"log_file": self.path / "keystone.log"},
            "database": services.database(data / "db.sqlite"),
            "token": {"provider": "fernet"},
            "fernet_tokens": {"key_repository": data / "fernet"},
            "credential": {"key_repository": data / "credential"},
            "cache": {"enabled": "false"},
            # Cheap hashes: the passwords are no secrets.
            "identity": {"password_hash_algorithm": "bcrypt",
                         "password_hash_rounds": 4}})

    def _make(self) -> None:
        for command in (
                ["db_sync"],
                ["fernet_setup", "--keystone-user", "root",
                 "--keystone-group", "root"],
                ["credential_setup", "--keystone-user", "root",
                 "--keystone-group", "root"],
                ["bootstrap", "--bootstrap-password", ADMIN.password,
                 "--bootstrap-region-id", REGION,
                 "--bootstrap-public-url", self.url]):
            services.run([services.BIN / "keystone-manage", "--config-file",
                          self.path / "keystone.conf", *command],
                         self._environment())
        self.start()
        self._make_accounts()
        self.stop()

    def _make_accounts(self) -> None:
        with self.connect() as cloud:
            identity = _identity(cloud)
            roles = {role.name: role for role in identity.roles()}
            for account in ACCOUNTS:
                project = identity.create_project(
                    name=account.project, domain_id="default")
                user = identity.create_user(
                    name=account.user, password=account.password,
                    domain_id="default")
                for role in account.roles:
                    identity.assign_project_role_to_user(
                        project.id, user.id, roles[role].id)

    def _environment(self) -> dict[str, str]:
        return services.environment(
            HOME=str(self.path), OS_KEYSTONE_CONFIG_DIR=str(self.path),
            OS_KEYSTONE_CONFIG_FILES="keystone.conf")

    # --- life ---------------------------------------------------------------

    def start(self) -> None:
        """Start it; return when it answers."""
        process = services.gunicorn(
            "keystone", "keystone.wsgi.api:application", self.port,
            self.path, self._environment())
        self.process = process.start()
        process.wait_ready(self._answers, timeout=60)

    def _started(self) -> None:
        # keystonemiddleware looks for Keystone in the catalog.
        self.register("identity", "keystone", self.url)

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(self.url, timeout=10):
                return True
        except (urllib.error.URLError, OSError):
            return False

    # --- use ----------------------------------------------------------------

    @property
    def url(self) -> str:
        """What clients call auth_url."""
        return f"http://127.0.0.1:{self.port}/v3"

    def credentials(self, account: Account = ADMIN) -> dict[str, str]:
        """Return what a client needs to authenticate as an account."""
        return {"auth_url": self.url, "username": account.user,
                "password": account.password,
                "project_name": account.project,
                "user_domain_id": "default", "project_domain_id": "default"}

    def connect(self, account: Account = ADMIN
                ) -> openstack.connection.Connection:
        """Return an openstacksdk connection; close it after use."""
        return openstack.connect(
            auth=self.credentials(account), region_name=REGION,
            load_yaml_config=False, load_envvars=False)

    def token(self, account: Account = ADMIN) -> str:
        """Return a fresh token of an account."""
        with self.connect(account) as cloud:
            return str(cloud.auth_token)

    def register(self, service_type: str, name: str, url: str) -> None:
        """Put a service's address into the catalog, or a new address.

        :param url: may hold %(project_id)s.
        """
        with self.connect() as cloud:
            identity = _identity(cloud)
            service = next(iter(identity.services(type=service_type)), None)
            if service is None:
                service = identity.create_service(type=service_type,
                                                  name=name)
            for endpoint in identity.endpoints(service_id=service.id):
                identity.delete_endpoint(endpoint)
            for interface in ("public", "internal", "admin"):
                identity.create_endpoint(service_id=service.id, url=url,
                                         interface=interface,
                                         region_id=REGION)
