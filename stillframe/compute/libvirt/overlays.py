# SPDX-License-Identifier: Apache-2.0
"""Checks of qcow2 files against the chain that they are, or will be, in.

libvirt takes an overlay whose header is wrong without a word: the running
guest goes on with the chain that libvirt built, and reads garbage at its
next cold start, when the header counts. So headers are checked before a
switch and after a merge.
"""

import os
import stat

from stillframe.compute.libvirt import chains
from stillframe.compute.libvirt.chains import ChainError
from stillframe.qcow2 import header

# A loop of headers must end somewhere.
_MOST_LAYERS = 200


def _read(layer: chains.Layer, empty: bool = False) -> header.Header:
    try:
        found = header.read(layer.path, empty)
    except header.BadHeader as exc:
        raise ChainError(f'{layer.name} is not a usable qcow2 file: '
                         f'{exc}') from exc
    except OSError as exc:
        raise ChainError(f'{layer.name} cannot be read: '
                         f'{exc.strerror}') from exc
    if found.data_file:
        raise ChainError(f'{layer.name} keeps its data in another file, '
                         'which is not allowed')
    if found.encrypted:
        raise ChainError(f'{layer.name} is encrypted, which is not '
                         'supported')
    if found.corrupt:
        raise ChainError(f'{layer.name} is marked as corrupt')
    return found


def _check_backing(layer: chains.Layer, found: header.Header,
                   below: chains.Layer | None) -> None:
    if below is None:
        if found.backing_file is not None:
            raise ChainError(f'the header of {layer.name} names the backing '
                             f'file {found.backing_file[-64:]!r}, but it '
                             'has none')
        return
    if found.backing_file != below.name:
        raise ChainError(
            f'the header of {layer.name} names the backing file '
            f'{(found.backing_file or "(none)")[-64:]!r}; it must be '
            f'{below.name!r}, without a folder')
    if found.backing_format is None:
        raise ChainError(f'the header of {layer.name} does not say what '
                         f'format {below.name} has')
    if found.backing_format != below.format:
        raise ChainError(
            f'the header of {layer.name} says that {below.name} is '
            f'{found.backing_format}, but it is {below.format}')


def check_new(new: chains.Layer, active: chains.Layer, size: int) -> None:
    """Make sure that an overlay may be put on top of the active file.

    :param new: the file that was made for it.
    :param active: the file that will be below; its format is known.
    :param size: bytes of the disk as the guest sees it.
    :raises ChainError: the guest would not come up from it, or not with
        the same content.
    """
    found = _read(new, empty=True)
    _check_backing(new, found, active)
    if found.snapshots:
        raise ChainError(f'{new.name} has snapshots of its own')
    if found.size != size:
        raise ChainError(f'{new.name} is for a disk of {found.size} bytes; '
                         f'the disk has {size}')


def check_chain(chain: chains.Chain) -> None:
    """Make sure that a cold start would build this very chain.

    :param chain: complete, with all formats known.
    :raises ChainError: a header says something else.
    """
    for layer, below in zip(chain, [*chain[1:], None], strict=True):
        if layer.format == 'qcow2':
            _check_backing(layer, _read(layer), below)
        elif below is not None:
            raise ChainError(f'{layer.name} is {layer.format} and cannot '
                             'have files below')


def walk(active: chains.Layer) -> chains.Chain:
    """Give the chain that a cold start from a file would build.

    This is for a stopped guest, of which libvirt shows the active file
    alone. Only files that are said to be qcow2, by the domain or by the
    header above, are opened.

    :param active: its format is known.
    :raises ChainError: a header leaves open what is below, or leads out
        of the folder.
    """
    chain = [active]
    while chain[-1].format == 'qcow2':
        layer = chain[-1]
        found = _read(layer)
        if found.backing_file is None:
            break
        name = chains.check_name(found.backing_file)
        if found.backing_format is None:
            raise ChainError(f'the header of {layer.name} does not say what '
                             f'format {name} has')
        path = os.path.join(os.path.dirname(layer.path), name)
        if any(one.path == path for one in chain):
            raise ChainError(f'{layer.name} and {name} are below each other')
        if len(chain) == _MOST_LAYERS:
            raise ChainError(f'the chain of {active.name} is too long')
        chain.append(chains.Layer(path, found.backing_format))
    return tuple(chain)


def size(layer: chains.Layer) -> int:
    """Give the size in bytes of the disk in a file that nobody runs from.

    :raises ChainError: it cannot be told.
    """
    if layer.format == 'qcow2':
        return _read(layer).size
    if layer.format != 'raw':
        raise ChainError(f'{layer.name} is {layer.format}; only raw and '
                         'qcow2 are supported')
    try:
        found = os.stat(layer.path, follow_symlinks=False)
    except OSError as exc:
        raise ChainError(f'{layer.name} cannot be read: '
                         f'{exc.strerror}') from exc
    if not stat.S_ISREG(found.st_mode):
        raise ChainError(f'{layer.name} is not a regular file')
    return found.st_size
