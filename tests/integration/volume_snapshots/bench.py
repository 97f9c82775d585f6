# SPDX-License-Identifier: Apache-2.0
"""A guest, a Stillframe and a stand-in for Cinder, for trouble of all kinds.

The stand-in takes and checks the status updates; the test makes the files
and sends the requests as Cinder would.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import subprocess
import uuid

import libvirt

from tests.integration.volume_snapshots.daemon import Stillframe
from tests.integration.volume_snapshots.scene import live_chain
from tests.lab import disks
from tests.lab.cinder_double import CinderDouble
from tests.lab.guests import Guest
from tests.lab.libvirtd import Libvirtd
from tests.lab.processes import wait_until

PROJECT = '0123456789abcdef0123456789abcdef'


def qemu_img(*words: object) -> None:
    """Run qemu-img; its formats are all given."""
    subprocess.run(['qemu-img', *map(str, words)], check=True, timeout=60,
                   capture_output=True)


class Bench:
    """What a test of one volume works with.

    The guest's first disk is the volume; its files lie in one folder.
    """

    def __init__(self, host: Libvirtd, guest: Guest, stillframe: Stillframe,
                 double: CinderDouble):
        self.host = host
        self.guest = guest
        self.stillframe = stillframe
        self.double = double
        self.volume = guest.disks[0].serial or ''
        self.base = guest.disks[0].path.name
        self.folder = guest.disks[0].path.parent
        self._base_format = guest.disks[0].image_format
        self._written: dict[str, str] = {}
        stillframe.wait_server(guest.uuid)

    def form(self, name: str) -> str:
        """The format of one of the volume's files."""
        return self._base_format if name == self.base else 'qcow2'

    # --- requests -----------------------------------------------------------

    def overlay(self, below: str | None = None, name: str | None = None,
                claim: str | None = None) -> str:
        """Make a file for a new snapshot as Cinder does; give its name.

        :param below: the file below; None: the active one.
        :param claim: the format that the header says it has.
        """
        below = below or self.chain()[0]
        name = name or f'{self.base}.{uuid.uuid4()}'
        path = self.folder / name
        form = claim or self.form(below)
        qemu_img('create', '-f', 'qcow2', '-b', self.folder / below, '-F',
                 self.form(below), path)
        qemu_img('rebase', '-u', '-f', 'qcow2', '-b', below, '-F', form,
                 path)
        self.host.give_away(path)
        return name

    def ask_create(self, name: str | None = None,
                   snapshot: str | None = None) -> tuple[str, str]:
        """Ask for a snapshot; give its id and the file's name."""
        snapshot = snapshot or str(uuid.uuid4())
        name = name or self.overlay()
        self.double.add_snapshot(snapshot, self.volume, 'creating')
        answer = self.stillframe.create(self.volume, snapshot, name)
        assert answer.status_code == 200, answer.text
        return snapshot, name

    def create(self, name: str | None = None) -> tuple[str, str]:
        """Make a snapshot; give its id and the file's name."""
        snapshot, name = self.ask_create(name)
        self.stillframe.wait_shown(snapshot, state='done')
        self.wait_told(snapshot, 'available')
        return snapshot, name

    def create_stopped(self) -> tuple[str, str]:
        """Make a snapshot of a stopped guest; give id and file."""
        return self.create(self.overlay(self.defined()))

    def ask_delete(self, snapshot: str, file_to_merge: str | None,
                   target: str | None) -> None:
        """Ask for a merge."""
        self.double.add_snapshot(snapshot, self.volume, 'deleting')
        answer = self.stillframe.delete(self.volume, snapshot,
                                        file_to_merge, target)
        assert answer.status_code == 204, answer.text

    def delete(self, snapshot: str, file_to_merge: str | None,
               target: str | None) -> dict:
        """Have it merged; give what is shown."""
        self.ask_delete(snapshot, file_to_merge, target)
        shown = self.stillframe.wait_shown(snapshot, operation='delete',
                                           state='done')
        self.wait_told(snapshot, 'gone')
        return shown

    def wait_told(self, snapshot: str, status: str) -> None:
        """Wait until Cinder's side has a snapshot in this status."""
        self.double.wait_status(snapshot, status, 120)

    def told(self, snapshot: str) -> list[dict]:
        """What was sent of an outcome, taken or not, in order."""
        return [one.body['os-update_snapshot_status'] for one
                in self.double.updates(snapshot)
                if one.body['os-update_snapshot_status'].get('progress')
                != '0%']

    # --- data ---------------------------------------------------------------

    def write(self, name: str, mib: int = 1) -> None:
        """Have the guest write a file, durably."""
        self._written[name] = self.guest.run(
            f'dd if=/dev/urandom of=/data/vda/{name} bs=1M count={mib} '
            f'2>/dev/null; sync; md5sum </data/vda/{name}',
            timeout=60).split()[0]

    def check_data(self) -> None:
        """Make sure that the guest reads what it wrote."""
        for name, digest in self._written.items():
            assert self.guest.run(f'md5sum </data/vda/{name}',
                                  timeout=60).split()[0] == digest, name

    def check_file(self, name: str, *written: str) -> None:
        """Make sure that a file holds what was written before it ended."""
        copy = self.host.path / 'copy.raw'
        disks.copy(self.folder / name, copy, self.form(name))
        disks.replay(copy)
        try:
            for one in written:
                digest = hashlib.md5(disks.read_file(  # noqa: S324
                    copy, f'/{one}')).hexdigest()
                assert digest == self._written[one], one
        finally:
            copy.unlink()

    def cold_start(self) -> None:
        """Pull the plug, start anew from headers alone, and read all."""
        boots = self.guest.boots()
        if self.guest.domain.isActive():
            # Of two of its threads that see QEMU end, libvirt lets the one
            # that was asked for it fail now and then.
            with contextlib.suppress(libvirt.libvirtError):
                self.guest.destroy()
            wait_until(lambda: not self.guest.domain.isActive(), 10,
                       'the guest to be off')
        self.guest.start()
        self.guest.wait_boots(boots + 1)
        self.check_data()

    # --- the chain ----------------------------------------------------------

    def chain(self) -> list[str]:
        """Names of the files that the guest has, the active one first."""
        return [name for name, _ in live_chain(self.guest)]

    def check_chain(self, *names: str) -> None:
        """Make sure that these are it, in the formats that they are."""
        assert live_chain(self.guest) == [
            (name, self.form(name)) for name in names]

    def defined(self) -> str:
        """Name of the file that a stopped guest will start from."""
        return self.chain()[0]

    def check_stopped(self, *names: str) -> None:
        """Make sure that a stopped guest will start from these files."""
        assert self.defined() == names[0]
        told = json.loads(subprocess.run(
            ['qemu-img', 'info', '--backing-chain', '--output=json', '-f',
             self.form(names[0]), self.folder / names[0]], check=True,
            capture_output=True, timeout=30).stdout)
        assert [one['filename'].rpartition('/')[2] for one in told] == [
            *names]
        assert [one['format'] for one in told] == [
            self.form(name) for name in names]

    # --- block jobs ---------------------------------------------------------

    def wait_job(self) -> dict:
        """Wait until a block job runs; give its figures."""
        return wait_until(
            lambda: self.guest.domain.blockJobInfo('vda', 0), 20,
            'a block job', 0.005)

    def hurry(self) -> None:
        """Let a slow block job run as fast as it can, if it is not over."""
        with contextlib.suppress(libvirt.libvirtError):
            self.guest.domain.blockJobSetSpeed('vda', 0, 0)

