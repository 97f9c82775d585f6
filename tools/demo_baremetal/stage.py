# SPDX-License-Identifier: Apache-2.0
"""The stage: a machine that runs, and Stillframe beside it."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

from tests.lab.processes import free_port
from tools.demo import stage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.lab.rack import Rack


@contextlib.contextmanager
def stillframe(rack: Rack, folder: Path, images: Path) -> Iterator[str]:
    """Run all of Stillframe in one process; yield its address.

    :param folder: for its files.
    :param images: the folder that images are allowed in.
    """
    address, seen = rack.network.listen, rack.network.address
    port, receiver = free_port(), free_port()
    with stage.running(folder, f"""\
[compute]
host = hypervisor-a
connection_uri = {rack.host.uri}
[api]
host = {address}
port = {port}
auth_strategy = noauth
[baremetal]
agent_api_url = http://{seen}:{port}
watch_interval = 0.5
[receiver]
host = {address}
port = {receiver}
public_url = https://{seen}:{receiver}
min_free = 64
[images]
url_prefixes = {images.as_uri()}
""", address, port):
        yield f"http://{address}:{port}"
