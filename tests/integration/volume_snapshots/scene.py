# SPDX-License-Identifier: Apache-2.0
"""A guest whose disk is a volume of the real Cinder, and a Stillframe.

Whatever a test does, the data that the guest wrote must be there after a
cold start.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import libvirt

from tests.integration.volume_snapshots.daemon import Stillframe
from tests.lab import disks
from tests.lab.guests import Guest
from tests.lab.libvirtd import Libvirtd
from tests.lab.processes import LabError
from tests.lab.processes import wait_until
from tests.lab.volumes import Volumes


def live_chain(guest: Guest, target: str = 'vda') -> list[tuple[str, str]]:
    """Name and format of each file of a disk, the active one first."""
    for disk in ElementTree.fromstring(  # noqa: S314
            guest.domain.XMLDesc()).findall('devices/disk'):
        if disk.find('target').get('dev') == target:
            break
    found = [(Path(disk.find('source').get('file')).name,
              disk.find('driver').get('type'))]
    layer = disk.find('backingStore')
    while layer is not None and layer.find('source') is not None:
        found.append((Path(layer.find('source').get('file')).name,
                      layer.find('format').get('type')))
        layer = layer.find('backingStore')
    return found


class Scene:
    """``with Scene(host, volumes, stillframe) as scene: ...``."""

    def __init__(self, host: Libvirtd, volumes: Volumes,
                 stillframe: Stillframe, **guest: Any):
        self.host = host
        self.volumes = volumes
        self.stillframe = stillframe
        self._options = guest
        self._written: dict[str, str] = {}

    def __enter__(self) -> Scene:
        self.volume = self.volumes.create()
        self.volumes.make_ext4(self.volume)
        self.attachment = self.volumes.attach(self.volume)
        self.guest = Guest(
            self.host, f'on-{self.volume[:8]}', disk_count=0,
            domain_uuid=self.attachment.server,
            volumes=(self.attachment.disk('vda'),), **self._options)
        self.guest.__enter__()
        self.stillframe.wait_server(self.server)
        self.volumes.cinder.compute.point_at(self.stillframe.port)
        return self

    def __exit__(self, *exc: object) -> None:
        self.guest.__exit__(*exc)

    @property
    def server(self) -> str:
        """The server's id."""
        return self.attachment.server

    @property
    def base(self) -> str:
        """Name of the volume's own file."""
        return f'volume-{self.volume}'

    def file(self, snapshot: str) -> str:
        """Name of the file that is begun with a snapshot."""
        return f'{self.base}.{snapshot}'

    # --- what the guest writes --------------------------------------------

    def write(self, name: str, mib: int = 1) -> None:
        """Have the guest write a file of its own making, durably."""
        self._written[name] = self.guest.run(
            f'dd if=/dev/urandom of=/data/vda/{name} bs=1M count={mib} '
            f'2>/dev/null; sync; md5sum </data/vda/{name}',
            timeout=60).split()[0]

    def sums(self) -> dict[str, str]:
        """Let the guest read all that it wrote."""
        return {name: self.guest.run(
            f'md5sum </data/vda/{name}', timeout=60).split()[0]
            for name in self._written}

    def check_snapshot(self, path: Path, *names: str) -> None:
        """Make sure that a file of the chain holds what was written."""
        copy = self.host.path / f'copy-{path.name[-36:]}.raw'
        form = 'raw' if path.name == self.base else 'qcow2'
        disks.copy(path, copy, form)
        disks.replay(copy)
        try:
            for name in names:
                digest = hashlib.md5(disks.read_file(  # noqa: S324
                    copy, f'/{name}')).hexdigest()
                assert digest == self._written[name], name
        finally:
            copy.unlink()

    def needs_recovery(self, path: Path) -> bool:
        """Tell whether a file of the chain is as after a power cut."""
        copy = self.host.path / 'look.raw'
        disks.copy(path, copy, 'raw' if path.name == self.base else 'qcow2')
        try:
            return disks.needs_recovery(copy)
        finally:
            copy.unlink()

    # --- the chain --------------------------------------------------------

    def chain(self) -> list[str]:
        """Names of the files of the live chain, the active one first."""
        return [name for name, _ in live_chain(self.guest)]

    def formats(self) -> list[tuple[str, str]]:
        """Name and format of each file, the active one first."""
        return live_chain(self.guest)

    def check_chain(self, *names: str) -> None:
        """Make sure that these are the chain, live and defined."""
        live = live_chain(self.guest)
        assert [name for name, _ in live] == list(names)
        assert [form for _, form in live] == [
            'raw' if name == self.base else 'qcow2' for name in names]
        defined = ElementTree.fromstring(  # noqa: S314
            self.guest.domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE))
        source = defined.find('devices/disk/source').get('file')
        assert Path(source).name == names[0]

    def wait_job(self, snapshot: str) -> None:
        """Wait until the merge of a snapshot runs in the guest."""
        try:
            wait_until(lambda: self.guest.domain.blockJobInfo('vda', 0), 60,
                       'the merge', 0.01)
        except LabError as exc:
            raise AssertionError(
                f'{self.volumes.snapshot_status(snapshot)} '
                f'{self.stillframe.shown(snapshot)} '
                f'{self.volumes.cinder.log_tail("volume")} '
                f'{self.stillframe.log[-3000:]}') from exc

    # --- a cold start -----------------------------------------------------

    def cold_start(self, from_cinder: bool = True) -> None:
        """Pull the plug, start anew, and read all that was written.

        :param from_cinder: with the file and format that Cinder says, as
            Nova would; else with the domain's own definition.
        """
        boots = self.guest.boots()
        self.guest.destroy()
        if from_cinder:
            told = self.volumes.connection_info(self.attachment)
            self._redefine(told['name'], told['format'])
        self.guest.start()
        self.guest.wait_boots(boots + 1)
        self.guest.wait_agent()
        assert self.sums() == self._written

    def _redefine(self, name: str, form: str) -> None:
        tree = ElementTree.fromstring(  # noqa: S314
            self.guest.domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE))
        disk = tree.find('devices/disk')
        for below in disk.findall('backingStore'):
            disk.remove(below)
        disk.find('source').set(
            'file', str(self.volumes.cinder.share / name))
        disk.find('driver').set('type', form)
        self.host.connection.defineXML(
            ElementTree.tostring(tree, encoding='unicode'))
