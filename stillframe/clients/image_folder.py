# SPDX-License-Identifier: Apache-2.0
"""A folder as image store, for a machine without the Image service.

``ID.json`` is the record, with the names of the Image API's fields; ``ID``
is the data, there only when the record says ``active``. Both appear whole
or not at all: they are written under names with a leading dot, synced and
renamed. Several processes may use a folder at once.
"""

from collections.abc import Iterator
from collections.abc import Mapping
import contextlib
import datetime
import fcntl
import json
import os
import pathlib
import tempfile
from typing import Any
import uuid

from oslo_config import cfg

from stillframe.clients import digesting
from stillframe.clients import images

#: What is sent is digested on this side alone, so the fastest of the
#: digests that are not broken will do.
_ALGORITHM = 'sha256'
# Bytes that are written before the disk is told to begin with them.
_FLUSH = 32 << 20


def connect(conf: cfg.ConfigOpts) -> 'FolderStore':
    """Open the store that the configuration names."""
    return FolderStore(pathlib.Path(conf.images.folder))


@contextlib.contextmanager
def _told() -> Iterator[None]:
    """Say of an operating-system error what it means for an image."""
    try:
        yield
    except OSError as exc:
        raise images.StoreUnavailable(
            reason=f'folder of images: {exc.strerror}') from exc


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).strftime('%Y-%m-%dT%H:%M:%SZ')


class FolderStore:
    """Images in a folder; see :class:`stillframe.clients.images.Store`."""

    def __init__(self, folder: pathlib.Path):
        self._folder = folder

    def create(self, record: images.Record) -> None:
        """See the protocol."""
        now = _now()
        with _told(), self._alone():
            if self._record(record.id).exists():
                raise images.ImageRefused(
                    image=record.id, reason='an image with this id exists.')
            self._write(record.id, dict(
                record.properties, id=record.id, name=record.name,
                owner=record.owner, status='queued', size=None,
                disk_format=record.disk_format, container_format='bare',
                visibility='private', min_disk=record.min_disk,
                os_hash_algo=None, os_hash_value=None, created_at=now,
                updated_at=now))

    def upload(self, image_id: str, source: images.Source, length: int,
               progress: images.Progress) -> images.Stored:
        """See the protocol."""
        self._queued(image_id)
        with _told():
            handle, name = tempfile.mkstemp(
                prefix=f'.{image_id}.', dir=self._folder)
        try:
            passage = digesting.Passage(source(), _ALGORITHM, progress)
            flushed = 0
            with contextlib.closing(passage), open(
                    handle, 'wb', buffering=0) as file:
                for piece in passage:
                    with _told():
                        _write_all(file.fileno(), piece)
                        flushed = _begin_flush(file.fileno(), flushed)
                with _told():
                    os.fsync(file.fileno())
                    size = os.fstat(file.fileno()).st_size
            stored = passage.stored()
            if not stored.size == size == length:
                raise images.ImageDamaged(
                    image=image_id, reason=f'{stored.size} bytes were sent '
                    f'and {size} arrived of {length}.')
            with _told(), self._alone():
                record = self._queued(image_id)
                os.rename(name, self._folder / image_id)
                self._write(image_id, dict(
                    record, status='active', size=size, updated_at=_now(),
                    os_hash_algo=stored.algorithm,
                    os_hash_value=stored.digest))
            return stored
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name)

    def update(self, image_id: str, properties: Mapping[str, str]) -> None:
        """See the protocol."""
        with _told(), self._alone():
            self._write(image_id, dict(
                self._read(image_id), **properties, updated_at=_now()))

    def activate_empty(self, image_id: str) -> None:
        """See the protocol."""
        with _told(), self._alone():
            self._write(image_id, dict(
                self._queued(image_id), status='active', size=0,
                updated_at=_now()))

    def status(self, image_id: str) -> str | None:
        """See the protocol."""
        try:
            with _told():
                return self._read(image_id)['status']
        except images.ImageGone:
            return None

    def holds(self, image_id: str, algorithm: str | None = None,
              sizes: range | None = None,
              check: images.Check = images.unchecked
              ) -> images.Stored | None:
        """See the protocol."""
        try:
            with _told():
                record = self._read(image_id)
                known = record['os_hash_algo']
                if record['status'] != 'active' or not known:
                    return None
                stored = images.Stored(record['size'], known,
                                       record['os_hash_value'])
                if algorithm is None or algorithm == known:
                    return stored
                if sizes is not None and stored.size not in sizes:
                    return images.Stored(stored.size, algorithm, '')
                with (self._folder / image_id).open('rb') as file:
                    return digesting.digest(digesting.pieces(file),
                                            algorithm, check)
        except images.ImageGone:
            return None

    def withdraw(self, image_id: str) -> None:
        """See the protocol."""
        with _told(), self._alone():
            try:
                record = self._read(image_id)
            except images.ImageGone:
                return
            (self._folder / image_id).unlink(missing_ok=True)
            self._write(image_id, dict(
                record, status='deactivated', updated_at=_now()))

    def properties(self, image_id: str, timeout: float) -> dict[str, str]:
        """See the protocol."""
        try:
            with _told():
                record = self._read(image_id)
        except images.ImageGone:
            return {}
        return {key: value for key, value in record.items()
                if isinstance(value, str)}

    def delete(self, image_id: str) -> None:
        """See the protocol.

        It also removes what a killed upload left.
        """
        with _told(), self._alone():
            # The record first: an upload that ends meanwhile has none.
            self._record(image_id).unlink(missing_ok=True)
            (self._folder / image_id).unlink(missing_ok=True)
            for left in self._folder.glob(f'.{image_id}.*'):
                left.unlink(missing_ok=True)

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Let one process at a time change records."""
        self._folder.mkdir(mode=0o750, parents=True, exist_ok=True)
        with (self._folder / '.lock').open('wb') as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _record(self, image_id: str) -> pathlib.Path:
        # An id becomes a file's name: nothing but a UUID may.
        return self._folder / f'{uuid.UUID(image_id)}.json'

    def _read(self, image_id: str) -> dict[str, Any]:
        try:
            return json.loads(self._record(image_id).read_text())
        except FileNotFoundError:
            raise images.ImageGone(image=image_id) from None

    def _queued(self, image_id: str) -> dict[str, Any]:
        with _told():
            record = self._read(image_id)
        if record['status'] != 'queued':
            raise images.ImageNotQueued(
                image=image_id, status=record['status'])
        return record

    def _write(self, image_id: str, record: Mapping[str, Any]) -> None:
        handle, name = tempfile.mkstemp(
            prefix=f'.{image_id}.', dir=self._folder)
        try:
            with open(handle, 'w') as file:
                json.dump(record, file, indent=2, sort_keys=True)
                file.flush()
                os.fsync(file.fileno())
            os.rename(name, self._record(image_id))
        except BaseException:
            os.unlink(name)
            raise
        folder = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _begin_flush(handle: int, flushed: int) -> int:
    """Have the disk begin with what was written, so that less waits for it.

    :param flushed: where the last call ended.
    :return: where this one ended.
    """
    written = os.lseek(handle, 0, os.SEEK_CUR)
    if written - flushed < _FLUSH:
        return flushed
    # Linux writes out what it is told will not be needed, and does not
    # wait for that.
    os.posix_fadvise(handle, flushed, written - flushed,
                     os.POSIX_FADV_DONTNEED)
    return written


def _write_all(handle: int, data: memoryview) -> None:
    while data:
        data = data[os.write(handle, data):]
