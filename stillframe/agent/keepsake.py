# SPDX-License-Identifier: Apache-2.0
"""What a restarted agent needs to go on: its token and its certificate.

The API gives a token once, and takes a certificate once. An agent that died
and was started again by the ramdisk's init would be locked out without
them. They lie in a folder on a tmpfs that only root can read, so they end
with the boot.
"""

import json
import os
import pathlib
import stat
from typing import Any

from stillframe.agent import certificate

_FILE = 'agent.json'


class Unsafe(Exception):
    """The folder can be read or written by others; the text names it."""


class Keepsake:
    """Keeps token and certificate of one node."""

    def __init__(self, folder: pathlib.Path):
        """Make the folder, if need be.

        :raises Unsafe: it is there and belongs to somebody else, or others
            may look into it.
        :raises OSError: it cannot be made.
        """
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = os.lstat(folder)
        if (not stat.S_ISDIR(status.st_mode) or status.st_mode & 0o077
                or status.st_uid != os.geteuid()):
            raise Unsafe(
                f'{folder} must be a folder of this user that nobody else '
                'may open; remove it or name another by --state-path.')
        self.folder = folder

    def _read(self) -> dict[str, Any]:
        try:
            found = json.loads((self.folder / _FILE).read_text())
        except (OSError, ValueError):
            # None yet, or one whose writer was killed: as after a boot.
            return {}
        return found if isinstance(found, dict) else {}

    def _write(self, content: dict[str, Any]) -> None:
        path = self.folder / _FILE
        temporary = path.with_suffix('.tmp')
        handle = os.open(temporary,
                         os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, 'w') as file:
            json.dump(content, file)
        temporary.replace(path)

    def token(self, node: str) -> str | None:
        """Give the token of a node, if it was kept."""
        kept = self._read()
        return kept.get('token') if kept.get('node') == node else None

    def keep_token(self, node: str, token: str) -> None:
        """Keep a token; what was kept of another node goes."""
        kept = self._read()
        if kept.get('node') != node:
            kept = {'node': node}
        if kept.get('token') != token:
            self._write(kept | {'token': token})

    def certificate(self, node: str, host: str,
                    now: float) -> certificate.Certificate:
        """Give the certificate of a node, made the first time.

        :param host: the address that it is for.
        :param now: seconds since 1970.
        """
        kept = self._read()
        if kept.get('node') != node:
            kept = {'node': node}
        if kept.get('host') != host:
            made = certificate.make(host, now)
            self._write(kept | {'host': host, 'certificate': made.pem,
                                'key': made.key_pem})
            return made
        return certificate.Certificate(kept['certificate'], kept['key'])
