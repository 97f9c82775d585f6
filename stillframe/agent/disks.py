# SPDX-License-Identifier: Apache-2.0
"""Which disks the machine has, as the kernel and its tools see them.

What identifies a disk is collected from sysfs, from udev's database and
from lsblk, each where it is there: they often disagree on serial numbers
and world-wide names (with or without a vendor's extension), and hints may
have been written by any of them. So these are lists here.
"""

import dataclasses
import json
import pathlib
import subprocess
from typing import Any

_SECTOR = 512
# Kernel names that are no disks of the machine: memory, removable media,
# files, network.
_NOT_DISKS = ('loop', 'ram', 'zram', 'sr', 'fd', 'nbd', 'mtdblock')
_LSBLK = ('lsblk', '--bytes', '--nodeps', '--json', '--output',
          'KNAME,SERIAL,WWN,MODEL,VENDOR,TRAN,HCTL')
_LSBLK_SECONDS = 30.0
# udev's names, which are those of the hints too.
_UDEV = {'ID_SERIAL_SHORT': 'serials', 'ID_SERIAL': 'serials',
         'ID_WWN': 'wwns', 'ID_WWN_WITH_EXTENSION': 'wwns_with_extension',
         'ID_WWN_VENDOR_EXTENSION': 'wwn_vendor_extensions',
         'ID_MODEL': 'models', 'ID_VENDOR': 'vendors', 'ID_BUS': 'tran'}


@dataclasses.dataclass(frozen=True)
class Disk:
    """One disk.

    :ivar name: path of its device node.
    :ivar size: bytes.
    :ivar rotational: whether it turns.
    :ivar sector: bytes of its logical sector.
    :ivar hctl: SCSI address ``host:channel:target:lun``, or ''.
    :ivar by_paths: names by which it is plugged in.
    :ivar kind: ``disk``, ``raid`` (an md array) or ``multipath``.
    :ivar used_by: kernel names of md arrays and multipath devices that it,
        or a partition of it, is a part of.
    """

    name: str
    size: int
    rotational: bool = False
    sector: int = _SECTOR
    serials: tuple[str, ...] = ()
    wwns: tuple[str, ...] = ()
    wwns_with_extension: tuple[str, ...] = ()
    wwn_vendor_extensions: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    vendors: tuple[str, ...] = ()
    tran: tuple[str, ...] = ()
    hctl: str = ''
    by_paths: tuple[str, ...] = ()
    kind: str = 'disk'
    used_by: tuple[str, ...] = ()

    def document(self) -> dict[str, Any]:
        """Give what a result says of it."""
        return {'name': self.name, 'serial': _first(self.serials),
                'wwn': _first(self.wwns), 'size': self.size,
                'model': _first(self.models)}

    def description(self) -> dict[str, Any]:
        """Describe it in the words of ironic-python-agent's inventory."""
        return {**self.document(), 'vendor': _first(self.vendors),
                'rotational': self.rotational,
                'wwn_with_extension': _first(self.wwns_with_extension),
                'wwn_vendor_extension': _first(self.wwn_vendor_extensions),
                'hctl': self.hctl or None, 'tran': _first(self.tran),
                'by_path': _first(self.by_paths),
                'logical_sectors': self.sector}

    def __str__(self) -> str:
        known = [f'{self.size} bytes']
        if self.serials:
            known.append(f'serial {self.serials[0]}')
        if self.wwns:
            known.append(f'wwn {self.wwns[0]}')
        return f'{self.name} ({", ".join(known)})'


def _first(values: tuple[str, ...]) -> str | None:
    return values[0] if values else None


def found(root: pathlib.Path = pathlib.Path('/'),
          lsblk: bool = True) -> list[Disk]:
    """List the disks of the machine, in the order of their names.

    :param root: where the machine's files begin.
    :param lsblk: also ask lsblk; it looks at this machine, whatever the
        root.
    """
    told = _ask_lsblk() if lsblk else {}
    paths = _by_path(root)
    disks = []
    for entry in sorted((root / 'sys/class/block').iterdir()):
        disk = _disk(root, entry, told.get(entry.name, {}),
                     paths.get(entry.name, ()))
        if disk is not None:
            disks.append(disk)
    return disks


def describe() -> list[dict[str, Any]]:
    """Describe the machine's disks, for an inventory."""
    return [disk.description() for disk in found()]


def _disk(root: pathlib.Path, entry: pathlib.Path, told: dict[str, Any],
          by_paths: tuple[str, ...]) -> Disk | None:
    name = entry.name
    if name.rstrip('0123456789') in _NOT_DISKS or (
            (entry / 'partition').exists() or _read(entry / 'hidden') == '1'):
        return None
    size = int(_read(entry / 'size') or 0) * _SECTOR
    kind = _kind(entry)
    if not size or kind is None:
        return None
    known = _identity(root, entry, told)
    return Disk(
        name=f'/dev/{name.replace("!", "/")}', size=size, kind=kind,
        rotational=_read(entry / 'queue/rotational') == '1',
        sector=int(_read(entry / 'queue/logical_block_size') or _SECTOR),
        hctl=_hctl(entry, told), by_paths=by_paths,
        used_by=_used_by(entry),
        **{field: tuple(dict.fromkeys(values))
           for field, values in known.items()})


def _kind(entry: pathlib.Path) -> str | None:
    """Say what a device is; None for what is no disk of its own."""
    if (entry / 'dm').exists():
        # LVM, LUKS and the like are content of a disk.
        uuid = _read(entry / 'dm/uuid')
        return 'multipath' if uuid.startswith('mpath-') else None
    return 'raid' if (entry / 'md').exists() else 'disk'


def _used_by(entry: pathlib.Path) -> tuple[str, ...]:
    holders = set()
    for path in (entry, *(one.parent for one in entry.glob('*/partition'))):
        for holder in path.glob('holders/*'):
            if _kind(holder) in ('raid', 'multipath'):
                holders.add(holder.name)
    return tuple(sorted(holders))


def _identity(root: pathlib.Path, entry: pathlib.Path,
              told: dict[str, Any]) -> dict[str, list[str]]:
    """Collect all that is said of who a disk is, best source first."""
    known: dict[str, list[str]] = {
        field: [] for field in dict.fromkeys(_UDEV.values())}

    def add(field: str, value: object) -> None:
        if isinstance(value, str) and value.strip('\0 \n'):
            known[field].append(value.strip('\0 \n'))

    udev = _udev(root, entry)
    for key, field in _UDEV.items():
        add(field, udev.get(key))
    for key, field in (('serial', 'serials'), ('wwn', 'wwns'),
                       ('model', 'models'), ('vendor', 'vendors'),
                       ('tran', 'tran')):
        add(field, told.get(key))
    add('serials', _read(entry / 'serial'))
    add('serials', _read(entry / 'device/serial'))
    add('serials', _page_80(entry / 'device/vpd_pg80'))
    for path in ('wwid', 'device/wwid'):
        add('wwns', _world_wide(_read(entry / path)))
    add('models', _read(entry / 'device/model'))
    add('vendors', _read(entry / 'device/vendor'))
    # Where there is no extension, udev has the plain name in its place.
    if not known['wwns_with_extension']:
        known['wwns_with_extension'] = list(known['wwns'])
    return known


def _udev(root: pathlib.Path, entry: pathlib.Path) -> dict[str, str]:
    """Give what udev's database has on a device."""
    database = root / 'run/udev/data' / f'b{_read(entry / "dev")}'
    lines = (line.partition(':') for line in _read(database).splitlines())
    return dict(rest.split('=', 1) for kind, _, rest in lines
                if kind == 'E' and '=' in rest)


def _page_80(path: pathlib.Path) -> str:
    """Give the serial number in SCSI's vital product data, page 0x80."""
    try:
        data = path.read_bytes()
    except OSError:
        return ''
    return data[4:].decode('ascii', 'replace')


def _world_wide(text: str) -> str:
    """Write the kernel's name as udev does; '' for what is none."""
    kind, _, rest = text.partition('.')
    if kind == 'naa':
        return f'0x{rest}'
    return text if kind in ('eui', 'nvme') else ''


def _hctl(entry: pathlib.Path, told: dict[str, Any]) -> str:
    if told.get('hctl'):
        return str(told['hctl'])
    address = (entry / 'device').resolve().name
    parts = address.split(':')
    return address if len(parts) == 4 and all(
        part.isdigit() for part in parts) else ''


def _by_path(root: pathlib.Path) -> dict[str, tuple[str, ...]]:
    """Give the names below /dev/disk/by-path of each device."""
    names: dict[str, tuple[str, ...]] = {}
    for link in sorted((root / 'dev/disk/by-path').glob('*')):
        device = link.resolve().name
        names[device] = (*names.get(device, ()),
                         f'/dev/disk/by-path/{link.name}')
    return names


def _ask_lsblk() -> dict[str, dict[str, Any]]:
    """Give what lsblk says, by kernel name; nothing where it is missing."""
    try:
        done = subprocess.run(_LSBLK, capture_output=True, check=True,
                              timeout=_LSBLK_SECONDS)
        devices = json.loads(done.stdout)['blockdevices']
        return {one['kname']: one for one in devices}
    except (OSError, subprocess.SubprocessError, ValueError, KeyError):
        return {}


def _read(path: pathlib.Path) -> str:
    """Read a small file; '' where it is not there."""
    try:
        return path.read_text('utf-8', 'replace').strip()
    except OSError:
        return ''
