# SPDX-License-Identifier: Apache-2.0
"""How the laboratory's Cinder is configured.

The NFS driver is the real one; there just is no NFS.  Programs that come
first in Cinder's PATH stand in for `sudo`, `mount` and `mount.nfs`, and a
mount of the export becomes a bind mount of a local directory.  That
happens in a mount namespace of cinder-volume alone: nobody else sees the
mount, and it goes when the last process of the service goes.
"""

from __future__ import annotations

from pathlib import Path

from tests.lab import openstack
from tests.lab.keystone import REGION
from tests.lab.keystone import SERVICE
from tests.lab.keystone import Keystone

EXPORT = "127.0.0.1:/export"
#: Lets Cinder find out which of its volumes a test made; hexadecimal, for
#: Cinder's URLs take no other project.
PROJECT = "5f" * 16

# sudo [-E] cinder-rootwrap CONFIG COMMAND..., or sudo COMMAND...
_SUDO = """\
#!/bin/sh
while [ "${1#-}" != "$1" ]; do shift; done
[ "$1" != cinder-rootwrap ] || shift 2
exec "$@"
"""

# mount -t nfs [-o OPTIONS] EXPORT DIRECTORY
_MOUNT = """\
#!/bin/sh
[ "$1 $2" = "-t nfs" ] || exec /bin/mount "$@"
for directory; do :; done
exec /bin/mount --bind {share} "$directory"
"""

# The driver only wants to know that there is one.
_MOUNT_NFS = """\
#!/bin/sh
echo "usage: mount.nfs EXPORT DIRECTORY" >&2
exit 1
"""


def write_shims(directory: Path, share: Path) -> None:
    """Write the programs that stand in for those of an NFS client.

    :param directory: where to; to be put first in PATH.
    :param share: the local directory that plays the export.
    """
    directory.mkdir()
    for name, text in (("sudo", _SUDO),
                       ("mount", _MOUNT.format(share=share)),
                       ("mount.nfs", _MOUNT_NFS)):
        path = directory / name
        path.write_text(text)
        path.chmod(0o755)


def settings(path: Path, port: int, transport_url: str, compute_url: str,
             glance_url: str | None, keystone: Keystone | None
             ) -> dict[str, dict[str, object]]:
    """Return Cinder's whole configuration.

    :param path: its directory.
    :param port: of its API.
    :param transport_url: the broker, as oslo.messaging writes it.
    :param compute_url: where it asks for assisted snapshots; with a
        Keystone, that is found in the catalogue instead.
    """
    helper: dict[str, object] = {
        "helper_command": f"{openstack.BIN}/privsep-helper "
                          f"--config-file {path}/cinder.conf"}
    etc = openstack.VENV / "etc/cinder"
    config: dict[str, dict[str, object]] = {
        "DEFAULT": {
            "debug": "false",
            "log_dir": path / "log",
            "state_path": path / "state",
            "transport_url": transport_url,
            # Generous: these tests are not about a busy machine.
            "rpc_response_timeout": 180,
            "auth_strategy": "noauth",
            "api_paste_config": etc / "api-paste.ini",
            "resource_query_filters_file": etc / "resource_filters.json",
            "my_ip": "127.0.0.1",
            "host": "lab",
            "osapi_volume_listen": "127.0.0.1",
            "osapi_volume_listen_port": port,
            "osapi_volume_workers": 1,
            "enabled_backends": "nfs",
            "default_volume_type": "__DEFAULT__",
            # Baked into the database when that is made.
            "quota_volumes": -1,
            "quota_snapshots": -1,
            "quota_gigabytes": -1,
            "periodic_interval": 60,
            "report_interval": 10,
            "service_down_time": 120,
        },
        "nfs": {
            "volume_driver": "cinder.volume.drivers.nfs.NfsDriver",
            "volume_backend_name": "nfs",
            "nfs_shares_config": path / "shares",
            "nfs_mount_point_base": path / "mnt",
            "nfs_snapshot_support": "true",
            "nfs_mount_attempts": 1,
            # Snapshots need root's way of handling files, and the
            # hypervisor, who is somebody else, needs to write to them.
            "nas_secure_file_operations": "false",
            "nas_secure_file_permissions": "false",
        },
        "database": openstack.database(path / "cinder.sqlite"),
        "oslo_concurrency": {"lock_path": path / "lock"},
        "coordination": {"backend_url": f"file://{path}/state/coordination"},
        "nova": {"auth_type": "none", "endpoint": compute_url},
        "oslo_messaging_notifications": {"driver": "noop"},
        "privsep_osbrick": helper,
        "cinder_sys_admin": helper,
    }
    if glance_url is not None:
        config["DEFAULT"]["glance_api_servers"] = glance_url
    if keystone is not None:
        _ask_keystone(config, keystone)
    return config


def _ask_keystone(config: dict[str, dict[str, object]],
                  keystone: Keystone) -> None:
    config["DEFAULT"]["auth_strategy"] = "keystone"
    config["keystone_authtoken"] = {
        **openstack.auth_options(keystone, SERVICE),
        "www_authenticate_uri": keystone.url,
        "service_token_roles": "service",
        "service_token_roles_required": "true"}
    config["nova"] = {**openstack.auth_options(keystone, SERVICE),
                      "region_name": REGION, "interface": "internal"}
    config["service_user"] = {**openstack.auth_options(keystone, SERVICE),
                              "send_service_user_token": "true"}
