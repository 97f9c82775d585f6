# SPDX-License-Identifier: Apache-2.0
"""From the intermediate store to where the image was asked for.

It is the owner's image: whatever goes wrong it is left such that the
snapshot can be taken again with it, or, where it has wrong data, such that
nobody can use it.
"""

from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
import os
import pathlib
import threading
import time
import types
from typing import Any
from typing import TypeVar

from oslo_config import cfg
from oslo_log import log

from stillframe import exceptions
from stillframe.clients import digesting
from stillframe.clients import image_files
from stillframe.clients import image_puts
from stillframe.clients import image_refs
from stillframe.clients import images

LOG = log.getLogger(__name__)

_PIECE = 1 << 20
# Seconds between two calls of a progress that has nothing to tell.
_TELL = 1.0
# Of a property's value; Glance takes no more.
_VALUE_MAX = 255
_T = TypeVar('_T')
_NONE: Mapping[str, str] = types.MappingProxyType({})


class UploadStopped(exceptions.StillframeError):
    """The upload was given up from here."""

    template = 'The image was not uploaded: {reason}.'
    code = 'stillframe.upload_stopped'


class FileChanged(exceptions.StillframeError):
    """The file is not what it was when it was verified."""

    template = ('The image changed on the disk of the conductor before it '
                'was uploaded. Look after that disk, and take the snapshot '
                'again.')
    code = 'stillframe.upload_file_changed'


def properties(consistency: str, disk: Mapping[str, Any]) -> dict[str, str]:
    """Give the properties that say how the image of a node was made.

    :param consistency: ``clean``: the node was shut down before; ``crash``.
    :param disk: what the agent says of it; nothing of that is believed.
    """
    found = {
        f'{images.OWN_PREFIX}method': 'ramdisk',
        f'{images.OWN_PREFIX}consistency':
            'filesystem' if consistency == 'clean' else 'crash'}
    for key in ('name', 'model', 'serial', 'wwn', 'size'):
        value = disk.get(key)
        if isinstance(value, int | str) and value:
            text = ''.join(one for one in str(value) if one.isprintable())
            found[f'{images.OWN_PREFIX}disk_{key}'] = text[:_VALUE_MAX]
    return found


class Uploader:
    """Sends images; one a conductor.

    :param clock: seconds, for the bound of an upload.
    """

    def __init__(self, conf: cfg.ConfigOpts,
                 clock: Callable[[], float] = time.monotonic):
        self._conf = conf
        self._clock = clock
        self._store = images.connect(conf)
        self._stopping = threading.Event()

    def stop(self) -> None:
        """End what runs, and begin nothing more."""
        self._stopping.set()

    def check(self, image_ref: str) -> None:
        """See that an image could be sent, before a machine is stopped.

        An image of the store is not asked for: the API has just done so.

        :raises InvalidImageRef: no administrator allows it, or no longer.
        :raises ImageRefused: it could not be put there.
        :raises StoreUnavailable: the other side cannot be reached.
        """
        ref = image_refs.parse(image_ref, self._conf)
        if ref.kind is image_refs.Kind.FILE:
            image_files.check(ref.where, self._conf.images.url_prefixes)
        elif ref.kind is image_refs.Kind.HTTPS:
            image_puts.check(self._conf, ref.where)

    def arrived(self, image_ref: str, path: pathlib.Path,
                check: images.Check = images.unchecked
                ) -> images.Stored | None:
        """Give what is where the image was asked for, if it is the image.

        That is so when a conductor was killed, or an answer was lost,
        right after it had been sent. What is there is digested. When it is
        half the image, which a conductor that was killed may leave at a web
        server, it is removed.

        :param path: of the image that is here.
        :param check: called for each piece that is read.
        :raises InvalidImageRef: no administrator allows it, or no longer.
        :raises StoreUnavailable: the other side cannot be reached.
        :raises FileChanged: the file here cannot be read.
        :raises: what ``check`` raises.
        """
        ref = image_refs.parse(image_ref, self._conf)
        length = path.stat().st_size
        # Elsewhere an image is there as a whole, or not at all.
        least = 0 if ref.kind is image_refs.Kind.HTTPS else length
        held = self._held(ref, range(least, length + 1), None, check)
        if held is None or not digesting.begins(
                lambda: _pieces(path, length), held, check):
            return None
        if held.size == length:
            return held
        image_puts.remove(self._conf, ref.where)
        return None

    def sent(self, image_ref: str, image: images.Stored,
             progress: images.Progress) -> bool:
        """Tell whether an image is where it was asked for.

        For who has its record, and not its file: another conductor had it,
        and died. What is there is read.

        :param image: what has to be there; its digest is a SHA-256.
        :param progress: called each second while it is read, and while the
            other side has trouble; what it raises goes to the caller.
        :raises InvalidImageRef: no administrator allows it, or no longer.
        :raises ImageRefused: it cannot be looked at.
        :raises ImageDamaged: it cannot be read.
        :raises StoreUnavailable: also after all tries.
        :raises UploadStopped: it was stopped, or took too long.
        """
        ref = image_refs.parse(image_ref, self._conf)
        until = self._clock() + self._conf.images.max_duration
        sizes = range(image.size, image.size + 1)
        check = self._checking(until, progress)
        return self._insist(
            ref, until, progress, lambda _first: self._held(
                ref, sizes, image.algorithm, check) == image)

    def _held(self, ref: image_refs.ImageRef, sizes: range,
              algorithm: str | None, check: images.Check
              ) -> images.Stored | None:
        # By URL there are SHA-256 alone.
        if ref.kind is image_refs.Kind.FILE:
            return image_files.holds(
                ref.where, self._conf.images.url_prefixes, sizes, check)
        if ref.kind is image_refs.Kind.HTTPS:
            return image_puts.holds(self._conf, ref.where, sizes, check)
        return self._store.holds(ref.where, algorithm, sizes, check)

    def _checking(self, until: float, progress: images.Progress
                  ) -> images.Check:
        """Make what ends the reading of an image.

        It may be called often; the caller's progress, which may ask a
        database, is told once a second.
        """
        last = self._clock()

        def check() -> None:
            nonlocal last
            self._check(until)
            now = self._clock()
            if now - last >= _TELL:
                last = now
                progress(0)

        return check

    def send(self, image_ref: str, path: pathlib.Path, disk_format: str,
             progress: images.Progress,
             properties: Mapping[str, str] = _NONE,
             again: bool = False) -> images.Stored:
        """Send an image to where it was asked for, and verify it there.

        When the other side has trouble, it is tried again as ``[images]``
        says.

        :param path: of a verified image that nobody changes.
        :param disk_format: ``qcow2`` or ``raw``.
        :param progress: told how many bytes have been sent, from zero again
            for another try, and each second while nothing is sent; what it
            raises ends the upload, and goes to the caller.
        :param properties: of an image of the store; see
            :func:`properties`.
        :param again: it may have been sent before, whole or in part.
        :raises InvalidImageRef: no administrator allows it, or no longer.
        :raises ImageNotQueued: the image is not queued, or no longer.
        :raises ImageGone: it was deleted.
        :raises ImageStoreFull: there is no room, or no quota.
        :raises ImageRefused: the other side will not have it.
        :raises ImageDamaged: something else arrived; nobody can use it.
        :raises StoreUnavailable: also after all tries.
        :raises UploadStopped: it was stopped, or took too long.
        :raises FileChanged: the file is not readable, or not whole.
        """
        ref = image_refs.parse(image_ref, self._conf)
        until = self._clock() + self._conf.images.max_duration
        length = path.stat().st_size

        # Not in the source: it is begun again to see what a PUT that was
        # ended has left.
        def told(sent: int) -> None:
            progress(sent)
            self._check(until)

        def attempt(first: bool) -> images.Stored:
            held = None
            if again or not first:
                held = self.arrived(image_ref, path,
                                    self._checking(until, progress))
            return held or self._try(
                ref, lambda: _pieces(path, length), length, disk_format,
                told, properties)

        return self._insist(ref, until, progress, attempt)

    def _insist(self, ref: image_refs.ImageRef, until: float,
                progress: images.Progress,
                attempt: Callable[[bool], _T]) -> _T:
        """Try until the other side has no trouble, a few times at most.

        :param attempt: told whether it is the first time.
        """
        wait, tries = self._conf.images.retry_wait, 0
        while True:
            self._check(until)
            try:
                return attempt(tries == 0)
            except images.StoreUnavailable as exc:
                tries += 1
                if tries > self._conf.images.upload_retries:
                    raise
                LOG.warning('Trying again with the image at %s in %.1f s: '
                            '%s', ref.where, wait, exc)
            self._wait(wait, progress)
            wait *= 2

    def _try(self, ref: image_refs.ImageRef, source: images.Source,
             length: int, disk_format: str, progress: images.Progress,
             properties: Mapping[str, str]) -> images.Stored:
        if ref.kind is image_refs.Kind.FILE:
            return image_files.write(
                ref.where, self._conf.images.url_prefixes, source, length,
                progress)
        if ref.kind is image_refs.Kind.HTTPS:
            return image_puts.put(self._conf, ref.where, source, length,
                                  progress)
        self._check_queued(ref.where)
        self._store.update(ref.where, {
            **properties, 'disk_format': disk_format,
            'container_format': 'bare'})
        try:
            return self._store.upload(ref.where, source, length, progress)
        except images.ImageDamaged:
            self._withdraw(ref.where)
            raise
        except images.ImageRefused as exc:
            # Glance has several words for an image that was deleted.
            if self._store.status(ref.where) is None:
                raise images.ImageGone(image=ref.where) from exc
            raise

    def _check_queued(self, image_id: str) -> None:
        status = self._store.status(image_id)
        if status is None:
            raise images.ImageGone(image=image_id)
        if status == 'saving':
            # It takes a moment to see that a try before has broken off.
            raise images.StoreUnavailable(
                reason=f'it still takes other data for image {image_id}')
        if status != 'queued':
            raise images.ImageNotQueued(image=image_id, status=status)

    def _withdraw(self, image_id: str) -> None:
        try:
            self._store.withdraw(image_id)
        except exceptions.StillframeError as exc:
            LOG.error('Image %s has wrong data, and could not be '
                      'deactivated: %s', image_id, exc)

    def _wait(self, seconds: float, progress: images.Progress) -> None:
        until = self._clock() + seconds
        while (left := until - self._clock()) > 0:
            progress(0)
            if self._stopping.wait(min(left, _TELL)):
                return

    def _check(self, until: float) -> None:
        if self._stopping.is_set():
            raise UploadStopped(reason='the conductor is being stopped')
        if self._clock() > until:
            raise UploadStopped(
                reason='it took longer than [images]max_duration, '
                f'{self._conf.images.max_duration:g} s')


def _pieces(path: pathlib.Path, length: int) -> Iterator[memoryview]:
    """Read a file; all pieces are in the same buffer.

    :raises FileChanged: it cannot be read, or not so much of it.
    """
    buffer = memoryview(bytearray(_PIECE))
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        with open(handle, 'rb', buffering=0) as file:
            while length:
                count = file.readinto(buffer[:min(length, _PIECE)])
                if not count:
                    raise FileChanged()
                length -= count
                yield buffer[:count]
    except OSError as exc:
        raise FileChanged() from exc
