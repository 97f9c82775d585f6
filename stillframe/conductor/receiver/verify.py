# SPDX-License-Identifier: Apache-2.0
"""Whether a file that a ramdisk sent is the image that it should be.

Its format is known from the order, never from its bytes. Our own reader
looks at the header first, so that qemu-img is never given a file that names
another one; then qemu-img checks the tables, with bounded memory and time.
"""

from collections.abc import Callable
import json
import os
import pathlib
import time

from oslo_config import cfg
from oslo_log import log

from stillframe import conf as stillframe_conf
from stillframe import qemu_img
from stillframe.conductor.receiver import errors
from stillframe.qcow2 import header

LOG = log.getLogger(__name__)

_MIB = 1 << 20
# Of the JSON of a file that is all right; more is no such file.
_SAID_MAX = 256 << 10
# qemu-img ended with it: some clusters are counted that nothing uses.
_LEAKS = 3


class CannotVerify(errors.ReceiverError):
    """qemu-img is not here, or did not come to an end."""

    template = 'The image that arrived could not be verified: {reason}.'
    code = 'stillframe.cannot_verify'


def verify(path: pathlib.Path, disk_format: str, virtual_size: int,
           why_stop: Callable[[], str | None] = lambda: None,
           conf: cfg.ConfigOpts = stillframe_conf.CONF,
           clock: Callable[[], float] = time.monotonic) -> None:
    """See that an image is whole, alone, and of its disk.

    :param path: of a file that nobody changes meanwhile; absolute.
    :param disk_format: ``qcow2`` or ``raw``.
    :param virtual_size: bytes of the disk that it is an image of.
    :param why_stop: asked now and then; what it says ends the work.
    :param conf: ``[receiver]`` bounds qemu-img.
    :raises BadImage: it is not.
    :raises CannotVerify: that could not be found out, or was stopped.
    """
    if disk_format == 'raw':
        # Whatever the disk held is its business; qemu-img knows no more.
        _raw(path, virtual_size)
    elif disk_format == 'qcow2':
        _qcow2(path, virtual_size)
        _Tool(conf, path, why_stop, clock).verify(virtual_size)
    else:
        raise errors.BadImage(reason=f'its format {disk_format} is not one '
                              'that is received here')


def _raw(path: pathlib.Path, virtual_size: int) -> None:
    size = path.stat().st_size
    if size != virtual_size:
        raise errors.BadImage(
            reason=f'it has {size} bytes, and its disk {virtual_size}')


def _qcow2(path: pathlib.Path, virtual_size: int) -> None:
    """Look at the header with our own reader; nothing else is opened."""
    try:
        found = header.read(path)
    except header.BadHeader as exc:
        raise errors.BadImage(reason=str(exc)) from None
    except OSError as exc:
        raise CannotVerify(
            reason=exc.strerror or type(exc).__name__) from exc
    for wrong, reason in (
            (found.backing_file is not None,
             'it refers to a backing file, and an image of a disk has none'),
            (found.data_file,
             'its data is said to lie in another file'),
            (found.encrypted, 'it is encrypted'),
            (found.corrupt, 'it is marked as damaged'),
            (found.snapshots, 'it has snapshots inside'),
            (found.size != virtual_size,
             f'it is of a disk of {found.size} bytes, and the disk of the '
             f'node has {virtual_size}')):
        if wrong:
            raise errors.BadImage(reason=reason)
    end = found.l1_offset + 8 * found.l1_entries
    if end > path.stat().st_size:
        raise errors.BadImage(reason='it ends before its L1 table does')


class _Tool:
    """Runs qemu-img on one file."""

    def __init__(self, conf: cfg.ConfigOpts, path: pathlib.Path,
                 why_stop: Callable[[], str | None],
                 clock: Callable[[], float]):
        group = conf.receiver
        self._path = path
        self._why_stop = why_stop
        self._clock = clock
        self._until = clock() + group.verify_timeout
        self._limits = qemu_img.Limits(
            memory=group.verify_memory * _MIB, written=0,
            said=_SAID_MAX, last=False)

    def verify(self, virtual_size: int) -> None:
        """See that qemu-img has nothing to say against the file."""
        info = self._run('info', (0,))
        for key, what in (('backing-filename', 'a backing file'),
                          ('full-backing-filename', 'a backing file')):
            if key in info:
                raise errors.BadImage(reason=f'it refers to {what}')
        data = (info.get('format-specific') or {}).get('data') or {}
        if 'data-file' in data:
            raise errors.BadImage(reason='its data lies in another file')
        if info.get('virtual-size') != virtual_size:
            raise errors.BadImage(
                reason=f'qemu-img sees a disk of {info.get("virtual-size")} '
                f'bytes, and the disk of the node has {virtual_size}')
        check = self._run('check', (0, 2, _LEAKS))
        broken = {key: check.get(key, 0)
                  for key in ('corruptions', 'check-errors')}
        if any(broken.values()):
            raise errors.BadImage(
                reason='qemu-img check found '
                f'{broken["corruptions"]} corruptions and could not look at '
                f'{broken["check-errors"]} places')
        if check.get('leaks'):
            LOG.warning('%s of its clusters are counted in image %s, and '
                        'used by nothing', check['leaks'], self._path.name)

    def _run(self, verb: str, good: tuple[int, ...]) -> dict:
        words = [verb, '-f', 'qcow2', '--output=json', str(self._path)]
        try:
            ended = qemu_img.run(words, str(self._path.parent), self._why,
                                 self._limits)
        except qemu_img.Stopped as exc:
            raise CannotVerify(reason=str(exc)) from None
        except qemu_img.TooMuch as exc:
            raise errors.BadImage(reason=str(exc)) from None
        except OSError as exc:
            raise CannotVerify(reason=f'qemu-img cannot be run here: '
                               f'{exc.strerror}') from exc
        if ended.status == 127 or ended.status == 126:
            raise CannotVerify(reason='qemu-img cannot be run here')
        if ended.status not in good:
            raise self._failed(verb, ended)
        try:
            return json.loads(ended.said)
        except ValueError:
            raise CannotVerify(
                reason=f'qemu-img {verb} gave no JSON') from None

    def _failed(self, verb: str, ended: qemu_img.Ended
                ) -> errors.ReceiverError:
        """Give what a run that failed says of the image."""
        text = ended.complained.decode(errors='replace').strip()
        last = (text.splitlines() or [''])[-1].replace(
            os.fspath(self._path), 'the image')
        if ended.status < 0 or 'allocate memory' in text:
            return errors.BadImage(
                reason=f'qemu-img {verb} needs more than is allowed for it '
                f'([receiver]verify_memory): {last[:200]}')
        return errors.BadImage(
            reason=f'qemu-img {verb} does not take it: {last[:200]}')

    def _why(self) -> str | None:
        if self._clock() > self._until:
            return 'it took longer than [receiver]verify_timeout allows'
        return self._why_stop()
