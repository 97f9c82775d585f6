# SPDX-License-Identifier: Apache-2.0
"""May the laboratory's hypervisor do to Cinder's files what it has to?

A real guest on a volume of a real Cinder, with the test in the place of a
compute service: it asks libvirt for the merges itself.
"""

from collections.abc import Callable
from xml.etree import ElementTree

import libvirt
import pytest

from tests.lab import disks
from tests.lab.compute_standin import ComputeStandIn
from tests.lab.compute_standin import backing_file
from tests.lab.guests import Guest
from tests.lab.libvirtd import Libvirtd
from tests.lab.processes import wait_until
from tests.lab.volumes import Volumes

pytestmark = pytest.mark.timeout(600)
CREATE = (libvirt.VIR_DOMAIN_SNAPSHOT_CREATE_DISK_ONLY
          | libvirt.VIR_DOMAIN_SNAPSHOT_CREATE_NO_METADATA
          | libvirt.VIR_DOMAIN_SNAPSHOT_CREATE_REUSE_EXT)


def _chain(guest: Guest) -> list[str]:
    """Names of the files that a guest's vda stands on, the active first."""
    layer = ElementTree.fromstring(  # noqa: S314
        guest.domain.XMLDesc()).find("devices/disk")
    names = []
    while layer is not None and (source := layer.find("source")) is not None:
        names.append(source.get("file", "").rpartition("/")[2])
        layer = layer.find("backingStore")
    return names


def _snapshot(volumes: Volumes, compute: ComputeStandIn, guest: Guest,
              volume: str) -> str:
    before = len(compute.requests)
    snapshot = volumes.begin_snapshot(volume)
    compute.wait_requests(before + 1)
    guest.domain.snapshotCreateXML(
        f"<domainsnapshot><disks><disk name='vda' snapshot='external'>"
        f"<driver type='qcow2'/>"
        f"<source file='{volumes.snapshot_path(volume, snapshot)}'/>"
        f"</disk></disks></domainsnapshot>", CREATE)
    _tell(volumes, snapshot, "creating")
    volumes.wait_snapshot(snapshot, "available")
    return snapshot


def _delete(volumes: Volumes, compute: ComputeStandIn, guest: Guest,
            snapshot: str, merge: Callable[[libvirt.virDomain], None]
            ) -> None:
    before = len(compute.requests)
    volumes.begin_delete(snapshot)
    compute.wait_requests(before + 1)
    merge(guest.domain)
    wait_until(lambda: not guest.domain.blockJobInfo("vda"), 60, "the merge")
    _tell(volumes, snapshot, "deleting")
    volumes.wait_snapshot(snapshot, "gone")


def _tell(volumes: Volumes, snapshot: str, status: str) -> None:
    volumes.client.volume_snapshots.update_snapshot_status(
        snapshot, {"status": status, "progress": "90%"})


def test_a_guest_lives_on_a_volume_through_its_snapshots(
        host_a: Libvirtd, volumes: Volumes, compute_standin: ComputeStandIn
        ) -> None:
    compute_standin.silent = True
    volume = volumes.create()
    volumes.make_ext4(volume)
    attachment = volumes.attach(volume)
    with Guest(host_a, "volume", domain_uuid=attachment.server, disk_count=0,
               volumes=(attachment.disk("vda"),)) as guest:
        names = [f"volume-{volume}"]
        snapshots = []
        for number in range(3):
            guest.run(f"echo {number} >/data/vda/{number}; sync")
            snapshots.append(_snapshot(volumes, compute_standin, guest,
                                       volume))
            names.insert(0, f"volume-{volume}.{snapshots[-1]}")
            assert _chain(guest) == names

        # The middle one, down into the one below.
        _delete(volumes, compute_standin, guest, snapshots[1],
                lambda domain: domain.blockCommit(
                    "vda", str(volumes.cinder.share / names[2]),
                    str(volumes.cinder.share / names[1]), 0,
                    libvirt.VIR_DOMAIN_BLOCK_COMMIT_RELATIVE))
        del names[1]
        assert _chain(guest) == names
        assert backing_file(volumes.cinder.share / names[0]) == names[1]

        # The active one: what is above the lowest is pulled up.
        _delete(volumes, compute_standin, guest, snapshots[2],
                lambda domain: domain.blockRebase(
                    "vda", str(volumes.cinder.share / names[2]), 0,
                    libvirt.VIR_DOMAIN_BLOCK_REBASE_RELATIVE))
        del names[1]
        assert _chain(guest) == names

        # The last: all is pulled up.
        _delete(volumes, compute_standin, guest, snapshots[0],
                lambda domain: domain.blockRebase("vda", None, 0, 0))
        del names[1:]
        assert _chain(guest) == volumes.files(volume) == names
        assert volumes.active_path(volume).name == names[0]

        # A cold start on what there is now.
        guest.destroy()
        copy = host_a.path / "copy.raw"
        disks.copy(volumes.active_path(volume), copy, "qcow2")
        # As after a power cut.
        disks.replay(copy)
        for number in range(3):
            assert disks.read_file(copy, f"/{number}") == b"%d\n" % number
        copy.unlink()
        before = guest.boots()
        guest.start()
        guest.wait_boots(before + 1)
        assert guest.run("cat /data/vda/[012]") == "0\n1\n2\n"
