# SPDX-License-Identifier: Apache-2.0
"""Backing chains: reading them, and deciding what a request does to one.

Pure functions. A chain is a tuple of layers, the active one first. What a
layer's format is comes from libvirt's configuration of the disk, from a
qcow2 header that names it, or from what is already known; it is never taken
from the bytes of a file that a guest may have written.

The shapes of the requests are those that Cinder's file-based drivers send:
a ``merge_target_file`` means commit (``file_to_merge`` goes down into it);
without one it means pull (the active file takes up all that lies above
``file_to_merge``, or everything when there is none).
"""

from collections.abc import Mapping
import dataclasses
import posixpath
from xml.etree import ElementTree

from stillframe.compute.libvirt import domain_xml

Formats = Mapping[str, str]

# libvirt and QEMU refuse longer ones themselves.
_MOST_LAYERS = 200


class ChainError(Exception):
    """The chain does not allow what is asked; the text says why.

    The text may be read by administrators: it names files, without their
    folders.
    """


@dataclasses.dataclass(frozen=True)
class Layer:
    """One file of a chain.

    :ivar path: where libvirt has it.
    :ivar format: ``raw``, ``qcow2``, …; None where nobody said.
    :ivar index: libvirt's number for it in this run of the guest.
    """

    path: str
    format: str | None
    index: int | None = None

    @property
    def name(self) -> str:
        """The file's name without its folder, as Cinder knows it."""
        return posixpath.basename(self.path)


Chain = tuple[Layer, ...]


@dataclasses.dataclass(frozen=True)
class Disk:
    """A disk of a guest.

    :ivar target: the target device (``vda``).
    :ivar chain: its layers, as far as libvirt shows them.
    :ivar complete: whether libvirt shows the chain to its end; it does for
        a running guest only.
    :ivar job: type of the block job that has a mirror, None without.
    :ivar ready: that job waits for its pivot.
    """

    target: str
    chain: Chain
    complete: bool
    job: str | None = None
    ready: bool = False

    @property
    def active(self) -> Layer:
        """The file that the guest writes to."""
        return self.chain[0]


def find_disk(xml: str, volume_id: str) -> Disk:
    """Find the disk of a volume in a domain's XML.

    :param volume_id: as the inventory names it: the disk's serial when
        that is a UUID, else made from domain and target.
    :raises ChainError: there is none, more than one, or none in files.
    :raises BadXML: the XML cannot be read.
    """
    found = [volume['target'] for volume in domain_xml.parse(xml).volumes
             if volume['volume_id'] == volume_id]
    if not found:
        raise ChainError(f'no disk of the server is the volume {volume_id}')
    if len(found) > 1:
        raise ChainError(f'{len(found)} disks of the server are the volume '
                         f'{volume_id}')
    return _disk(element(xml, found[0]), found[0])


def targets(xml: str) -> list[str]:
    """Give the target devices of all that a domain has for disks.

    CD and floppy drives are among them.
    """
    return [target.get('dev', '') for target
            in domain_xml.root(xml).iterfind('devices/disk/target')]


def element(xml: str, target: str) -> ElementTree.Element:
    """Give the XML element of a disk.

    :raises ChainError: there is no such disk.
    """
    for disk in domain_xml.root(xml).iterfind('devices/disk'):
        found = disk.find('target')
        if found is not None and found.get('dev') == target:
            return disk
    raise ChainError(f'the disk {target} is not in the XML')


def _disk(disk: ElementTree.Element, target: str) -> Disk:
    kind = disk.get('type')
    if kind != 'file':
        raise ChainError(f'the disk {target} is of type {kind}; only disks '
                         'in files can be snapshotted this way')
    if disk.find('transient') is not None:
        raise ChainError(f'the disk {target} is transient')
    driver = disk.find('driver')
    layers = [_layer(disk, target,
                     None if driver is None else driver.get('type'))]
    below = disk.find('backingStore')
    while below is not None and len(below):
        form = below.find('format')
        layers.append(_layer(below, target,
                             None if form is None else form.get('type')))
        if len(layers) > _MOST_LAYERS:
            raise ChainError(f'the disk {target} has too many layers')
        below = below.find('backingStore')
    mirror = disk.find('mirror')
    return Disk(
        target, tuple(layers), complete=below is not None,
        job=None if mirror is None else mirror.get('job') or 'copy',
        ready=mirror is not None and mirror.get('ready') == 'yes')


def _layer(store: ElementTree.Element, target: str,
           form: str | None) -> Layer:
    source = store.find('source')
    path = None if source is None else source.get('file')
    if source is None or not path:
        raise ChainError(f'a layer of the disk {target} is not a file')
    index = source.get('index') or store.get('index') or ''
    return Layer(path, form, int(index) if index.isdecimal() else None)


def with_known(chain: Chain, known: Formats) -> Chain:
    """Fill in formats that libvirt does not say from those known already.

    :param known: format by file name.
    :raises ChainError: what libvirt says is not what is known. Whoever
        says so has probed a file, or has it from a wrong header.
    """
    filled = []
    for layer in chain:
        format_ = known.get(layer.name)
        if layer.format and format_ and layer.format != format_:
            raise ChainError(
                f'the file {layer.name} is known to be {format_}, but is '
                f'used as {layer.format}; it is left alone')
        filled.append(dataclasses.replace(
            layer, format=layer.format or format_))
    return tuple(filled)


def formats(chain: Chain) -> dict[str, str]:
    """Give the formats of a chain's files by file name."""
    return {layer.name: layer.format for layer in chain if layer.format}


def same_files(one: Chain, other: Chain) -> bool:
    """Tell whether two chains are of the same files in the same order."""
    return [layer.path for layer in one] == [layer.path for layer in other]


def check_name(name: str) -> str:
    """Make sure that a name of a request is the bare name of a file.

    :return: the name.
    :raises ChainError: it could lead elsewhere.
    """
    # A colon would let QEMU take what is before it for a protocol.
    if (not name or '/' in name or ':' in name or name in ('.', '..')
            or not name.isprintable() or len(name.encode()) > 255):
        raise ChainError(f'{name[:64]!r} is not the bare name of a file')
    return name


@dataclasses.dataclass(frozen=True)
class Plan:
    """What is to be done to a chain.

    :ivar kind: ``create``, ``pull``, ``commit``, ``active-commit`` or
        ``nothing`` (the chain is as the request wants it).
    :ivar before: the chain that the plan is made for.
    :ivar after: the chain that must be there in the end.
    :ivar changed: the file that is written: its format is what Cinder is
        told.
    :ivar top: the layer that is merged away, of a commit.
    :ivar base: the layer that is merged into, of a commit; the layer that
        becomes the one below the active one, of a pull (None: none).
    """

    kind: str
    before: Chain
    after: Chain
    changed: Layer
    top: Layer | None = None
    base: Layer | None = None


def plan_create(chain: Chain, new_file: str) -> Plan:
    """Plan an overlay on top of a chain.

    :param new_file: name of the file that was made for it, which lies
        beside the active one.
    :raises ChainError: it cannot be.
    """
    check_name(new_file)
    active = chain[0]
    new = Layer(posixpath.join(posixpath.dirname(active.path), new_file),
                'qcow2')
    if active.path == new.path:
        return Plan('nothing', chain, chain, active)
    if any(layer.path == new.path for layer in chain):
        raise ChainError(f'the file {new_file} is in use below the active '
                         'one')
    if active.format is None:
        raise ChainError(f'the format of {active.name} is not known')
    return Plan('create', chain, (new, *chain), new, base=active)


def plan_delete(chain: Chain, file_to_merge: str | None,
                merge_target_file: str | None,
                merged_before: bool = False) -> Plan:
    """Plan a merge.

    :param merged_before: this very merge is known to have been done.
    :raises ChainError: it cannot be.
    """
    for layer in chain:
        if layer.format is None:
            raise ChainError(f'the format of {layer.name} is not known')
    if merge_target_file is None:
        return _plan_pull(chain, file_to_merge)
    if file_to_merge is None:
        raise ChainError('a merge_target_file needs a file_to_merge')
    return _plan_commit(chain, file_to_merge, merge_target_file,
                        merged_before)


def _plan_pull(chain: Chain, base_name: str | None) -> Plan:
    active = chain[0]
    if base_name is None:
        rest: Chain = ()
    else:
        position = _position(chain, base_name)
        if position == 0:
            raise ChainError(f'{base_name} is the active file; it cannot '
                             'lie below itself')
        rest = chain[position:]
    after = (active, *rest)
    kind = 'nothing' if len(after) == len(chain) else 'pull'
    if kind == 'pull' and active.format == 'raw':
        raise ChainError(f'{active.name} is raw and cannot have files below')
    return Plan(kind, chain, after, active, base=rest[0] if rest else None)


def _plan_commit(chain: Chain, top_name: str, base_name: str,
                 merged_before: bool) -> Plan:
    base_position = _position(chain, base_name)
    base = chain[base_position]
    if merged_before and all(layer.name != top_name for layer in chain):
        return Plan('nothing', chain, chain, base, base=base)
    position = _position(chain, top_name)
    if base_position != position + 1:
        # Files between the two would be merged away, too, and with them
        # the snapshots that they hold.
        raise ChainError(f'{base_name} is not directly below {top_name}')
    top = chain[position]
    after = chain[:position] + chain[base_position:]
    return Plan('commit' if position else 'active-commit', chain, after,
                base, top=top, base=base)


def _position(chain: Chain, name: str) -> int:
    check_name(name)
    found = [number for number, layer in enumerate(chain)
             if layer.name == name]
    if len(found) != 1:
        raise ChainError(
            f'the file {name} is not in the chain of the disk '
            f'({describe(chain)})' if not found
            else f'the file name {name} is there {len(found)} times in the '
            'chain of the disk')
    return found[0]


def replan(plan: Plan, live: Chain) -> Plan:
    """Give a plan the layers of the live chain, with libvirt's numbers.

    :param live: the same files as the plan's chain before.
    """
    by_path = {layer.path: layer for layer in live}

    def found(layer: Layer | None) -> Layer | None:
        return None if layer is None else by_path.get(layer.path, layer)

    return dataclasses.replace(plan, top=found(plan.top),
                               base=found(plan.base))


def describe(chain: Chain) -> str:
    """Name the files of a chain for a person, the active one first."""
    return ' -> '.join(layer.name for layer in chain)


def is_done(plan: Plan, live: Disk) -> bool:
    """Tell whether the live chain shows what the plan was to reach.

    Formats count where libvirt says them: a file that has suddenly another
    format is not the one that was meant.
    """
    if not live.complete or live.job or not same_files(plan.after,
                                                       live.chain):
        return False
    return all(not seen.format or not wanted.format
               or seen.format == wanted.format
               for wanted, seen in zip(plan.after, live.chain, strict=True))


def is_untouched(plan: Plan, live: Disk) -> bool:
    """Tell whether the live chain is the one from before."""
    return live.job is None and same_files(plan.before, live.chain)


def changed_format(plan: Plan, live: Chain) -> dict[str, str]:
    """Give the format of the file that changed, by its bare name.

    From the live chain; where that does not say, by the rule: a commit
    keeps its target's format, a pull that of the active file, and a new
    overlay is qcow2, which was checked before the switch.
    """
    for layer in live:
        if layer.path == plan.changed.path and layer.format:
            return {layer.name: layer.format}
    if plan.changed.format is None:
        raise ChainError(f'the format of {plan.changed.name} is not known')
    return {plan.changed.name: plan.changed.format}


def to_data(chain: Chain) -> list[dict[str, str | None]]:
    """Write a chain for a file or a report."""
    return [{'path': layer.path, 'format': layer.format} for layer in chain]


def from_data(data: list[dict[str, str | None]]) -> Chain:
    """Read what :func:`to_data` wrote."""
    return tuple(Layer(str(one['path']), one['format']) for one in data)
