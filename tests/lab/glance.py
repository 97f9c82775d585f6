# SPDX-License-Identifier: Apache-2.0
"""The image service: a real Glance with a store of files."""

from __future__ import annotations

import json
from pathlib import Path
import shutil
import urllib.request

import glanceclient
from keystoneauth1 import session as ks_session
from keystoneauth1 import token_endpoint

from tests.lab import openstack
from tests.lab.keystone import ADMIN
from tests.lab.keystone import SERVICE
from tests.lab.keystone import Keystone
from tests.lab.processes import free_port
from tests.lab.service import Service


class Glance(Service):
    """One Glance: ``with Glance() as glance: ...``.

    Without a Keystone everybody is an administrator, whatever token comes
    along.

    :param keystone: asks it about tokens, and registers there.
    :param size_cap: the largest image in bytes that it takes.
    :param algorithm: of the digest that it makes of images.
    """

    purpose = "glance"
    # As in a crash; its images stay.
    patience = 0

    def __init__(self, keystone: Keystone | None = None, *,
                 size_cap: int = 1 << 40, algorithm: str = "sha512"):
        super().__init__()
        self.keystone = keystone
        self.size_cap = size_cap
        self.algorithm = algorithm
        self.port = free_port()

    # --- doors ------------------------------------------------------------

    @property
    def url(self) -> str:
        """What to give as endpoint_override; without a version."""
        return f"http://127.0.0.1:{self.port}"

    def client(self) -> glanceclient.Client:
        """Return a python-glanceclient of an administrator."""
        if self.keystone is not None:
            return glanceclient.Client(
                "2", endpoint_override=self.url,
                session=openstack.session(self.keystone, ADMIN))
        auth = token_endpoint.Token(self.url, "anybody")
        return glanceclient.Client("2",
                                   session=ks_session.Session(auth=auth))

    def files(self) -> list[Path]:
        """Give the files of data that it keeps; named by the image's id."""
        return sorted((self.path / "images").glob("*"))

    def lose_space(self) -> None:
        """Have every write to its store fail from now on."""
        shutil.rmtree(self.path / "images")
        (self.path / "images").write_text("no folder")

    # --- life -------------------------------------------------------------

    def start(self) -> None:
        """Start it, or start it again with what it had; wait for it."""
        process = openstack.gunicorn(
            "glance", "glance.wsgi.api:application", self.port, self.path,
            self._environment())
        self.process = process
        process.start()
        process.wait_ready(self._answers, 120)

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/healthcheck",
                                        timeout=5) as answer:
                return answer.status == 200
        except OSError:
            return False

    # --- below ------------------------------------------------------------

    def _environment(self) -> dict[str, str]:
        return openstack.environment(OS_GLANCE_CONFIG_DIR=str(self.path),
                                     HOME=str(self.path))

    def _set_up(self) -> None:
        openstack.need_venv()
        for name in ("images", "staging", "tasks", "lock"):
            (self.path / name).mkdir()
        policy = self.path / "policy.json"
        # Without Keystone a caller has no roles at all, and the usual
        # policies would allow nothing.
        policy.write_text(json.dumps(
            {} if self.keystone else {"context_is_admin": "@"}))
        config = self.path / "glance-api.conf"
        openstack.write_ini(config, self._settings(policy))
        openstack.finished_database(
            "glance", self.path / "glance.sqlite", "1",
            lambda: openstack.run(
                [openstack.BIN / "glance-manage", "--config-file", config,
                 "db_sync"], self._environment()))

    def _settings(self, policy: Path) -> dict[str, dict[str, object]]:
        database = self.path / "glance.sqlite"
        paste: dict[str, object] = {
            "config_file":
            openstack.VENV / "etc/glance/glance-api-paste.ini"}
        settings: dict[str, dict[str, object]] = {
            "DEFAULT": {
                "log_file": self.path / "glance.log",
                "enabled_backends": "fs:file",
                "use_keystone_limits": "false",
                "image_size_cap": self.size_cap,
                "hashing_algorithm": self.algorithm},
            "database": openstack.database(database),
            "glance_store": {"default_backend": "fs"},
            "fs": {"filesystem_store_datadir": self.path / "images"},
            "os_glance_staging_store": {
                "filesystem_store_datadir": self.path / "staging"},
            "os_glance_tasks_store": {
                "filesystem_store_datadir": self.path / "tasks"},
            "paste_deploy": paste,
            "oslo_policy": {"policy_file": policy},
            "oslo_concurrency": {"lock_path": self.path / "lock"},
            "oslo_messaging_notifications": {"driver": "noop"},
        }
        if self.keystone is not None:
            paste["flavor"] = "keystone"
            settings["keystone_authtoken"] = {
                **openstack.auth_options(self.keystone, SERVICE),
                "www_authenticate_uri": self.keystone.url}
            self.keystone.register("image", "glance", self.url)
        return settings
