# SPDX-License-Identifier: Apache-2.0
"""The disks of one domain: looking at them and changing their chains.

A domain is looked up anew for each call, so that work which outlives a
connection to libvirt goes on with the next one. Every call raises
:class:`~stillframe.compute.libvirt.troubles.AgentTrouble` and nothing else
for what libvirt has to say.
"""

from collections.abc import Callable
from collections.abc import Iterator
import contextlib
import dataclasses
from xml.etree import ElementTree
from xml.sax import saxutils

import libvirt

from stillframe.compute.libvirt import chains
from stillframe.compute.libvirt import domain_xml
from stillframe.compute.libvirt import errors

_SWITCH = (libvirt.VIR_DOMAIN_SNAPSHOT_CREATE_DISK_ONLY
           | libvirt.VIR_DOMAIN_SNAPSHOT_CREATE_NO_METADATA
           | libvirt.VIR_DOMAIN_SNAPSHOT_CREATE_REUSE_EXT)


# Where an operator may say of a domain that its snapshots need a freeze:
# <snapshot xmlns="urn:stillframe:snapshot:1" require_quiesce="yes"/>
_WISHES = 'urn:stillframe:snapshot:1'
_YES = frozenset(('yes', 'true', '1', 'on'))


@dataclasses.dataclass(frozen=True)
class Job:
    """A block job as libvirt shows it; both figures in the same unit."""

    done: int
    total: int


class DomainDisks:
    """The disks of one domain."""

    def __init__(self, lookup: Callable[[], libvirt.virDomain],
                 volume_id: str):
        """Take how to find the domain, and which disk it is about.

        :param lookup: gives the domain; raises libvirtError or
            AgentTrouble.
        """
        self._lookup = lookup
        self.volume_id = volume_id

    @contextlib.contextmanager
    def _domain(self) -> Iterator[libvirt.virDomain]:
        try:
            yield self._lookup()
        except libvirt.libvirtError as exc:
            raise errors.trouble(exc) from exc

    def running(self) -> bool:
        """Tell whether the guest runs, or is paused: QEMU has its files."""
        with self._domain() as domain:
            return bool(domain.isActive())

    def look(self) -> chains.Disk:
        """Give the disk as it is: live of a running guest, else as defined.

        :raises ChainError: see :func:`chains.find_disk`.
        """
        with self._domain() as domain:
            return chains.find_disk(domain.XMLDesc(0), self.volume_id)

    def requires_quiesce(self) -> bool:
        """Tell whether the domain's metadata ask for a freeze."""
        with self._domain() as domain:
            return requires_quiesce(domain.XMLDesc(0))

    def size(self, target: str) -> int:
        """Give the size in bytes of a running guest's disk."""
        with self._domain() as domain:
            return domain.blockInfo(target)[0]

    def switch(self, target: str, new: chains.Layer) -> None:
        """Put a prepared overlay on top of a disk; all others stay.

        It works for a guest that is stopped, too: then its definition is
        changed.
        """
        with self._domain() as domain:
            domain.snapshotCreateXML(
                _snapshot_xml(domain.XMLDesc(0), target, new), _SWITCH)

    def job(self, target: str) -> Job | None:
        """Give the block job of a disk, None when there is none."""
        with self._domain() as domain:
            info = domain.blockJobInfo(target, 0)
        return Job(info['cur'], info['end']) if info else None

    def start(self, plan: chains.Plan, target: str, bandwidth: int) -> None:
        """Start the block job of a plan.

        :param plan: made for the chain as it is now.
        :param bandwidth: MiB/s; 0 for no limit.
        """
        base = None if plan.base is None else _address(target, plan.base)
        with self._domain() as domain:
            if plan.kind == 'pull':
                # libvirt refuses a relative name for no file at all.
                domain.blockRebase(target, base, bandwidth, (
                    libvirt.VIR_DOMAIN_BLOCK_REBASE_RELATIVE if base else 0))
            elif plan.kind == 'active-commit':
                domain.blockCommit(
                    target, base, None, bandwidth,
                    libvirt.VIR_DOMAIN_BLOCK_COMMIT_ACTIVE)
            elif plan.kind == 'commit' and plan.top is not None:
                domain.blockCommit(
                    target, base, _address(target, plan.top), bandwidth,
                    libvirt.VIR_DOMAIN_BLOCK_COMMIT_RELATIVE)
            else:
                raise ValueError(f'no block job does a {plan.kind}')

    def pivot(self, target: str) -> None:
        """Let an active commit that is ready take over its target."""
        with self._domain() as domain:
            domain.blockJobAbort(
                target, libvirt.VIR_DOMAIN_BLOCK_JOB_ABORT_PIVOT)

    def cancel(self, target: str) -> None:
        """End a block job; the chain stays as it was."""
        with self._domain() as domain:
            domain.blockJobAbort(target, 0)

    def define(self, target: str, active: chains.Layer) -> None:
        """Give a stopped guest's disk another active file."""
        with self._domain() as domain:
            xml = domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE
                                 | libvirt.VIR_DOMAIN_XML_SECURE)
            domain.updateDeviceFlags(
                _disk_xml(xml, target, active),
                libvirt.VIR_DOMAIN_AFFECT_CONFIG)


def requires_quiesce(xml: str) -> bool:
    """Tell whether a domain's metadata ask for a freeze or nothing."""
    wish = domain_xml.root(xml).find(f'metadata/{{{_WISHES}}}snapshot')
    return (wish is not None
            and wish.get('require_quiesce', '').lower() in _YES)


def _address(target: str, layer: chains.Layer) -> str:
    """Name a layer for a block job: by libvirt's own number if it has one.

    The number is exact; a path is compared with those in the chain.
    """
    if layer.index is None:
        return layer.path
    return f'{target}[{layer.index}]'


def _snapshot_xml(xml: str, target: str, new: chains.Layer) -> str:
    """Describe a snapshot of one disk alone.

    A disk that is not mentioned would get an overlay, too.
    """
    parts = []
    for name in chains.targets(xml):
        if name != target:
            parts.append(f'<disk name={saxutils.quoteattr(name)} '
                         'snapshot="no"/>')
            continue
        parts.append(
            f'<disk name={saxutils.quoteattr(name)} snapshot="external" '
            f'type="file"><driver type="qcow2"/>'
            f'<source file={saxutils.quoteattr(new.path)}/></disk>')
    return ('<domainsnapshot><disks>' + ''.join(parts)
            + '</disks></domainsnapshot>')


def _disk_xml(xml: str, target: str, active: chains.Layer) -> str:
    """Write a disk's element anew with another active file."""
    disk = chains.element(xml, target)
    driver, source = disk.find('driver'), disk.find('source')
    if driver is None or source is None or active.format is None:
        raise chains.ChainError(f'the disk {target} has no format to change')
    driver.set('type', active.format)
    source.set('file', active.path)
    for below in disk.findall('backingStore'):
        disk.remove(below)
    return ElementTree.tostring(disk, encoding='unicode')
