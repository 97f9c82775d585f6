# SPDX-License-Identifier: Apache-2.0
"""A hypervisor, a worker beside it, and a place for its images."""

from collections.abc import Iterator
import contextlib
import json
import pathlib
import shutil
import subprocess
import uuid

from stillframe.clients import image_folder
from stillframe.clients import images
from tests.integration.compute.workers import Worker
from tests.lab.guests import Guest
from tests.lab.libvirtd import Libvirtd

OWNER = 'f' * 32


class Studio:
    """A hypervisor, a worker beside it, and a folder for its images."""

    def __init__(self, host: Libvirtd, worker: Worker, room: pathlib.Path):
        self.host = host
        self.worker = worker
        self.room = room
        self.store = image_folder.FolderStore(room / 'images')

    @property
    def folder(self) -> pathlib.Path:
        """Where the images are."""
        return self.room / 'images'

    def order(self, guest: Guest, require: bool = False,
              image_id: str | None = None) -> tuple[str, str]:
        """Ask for an image; return its id and the request's."""
        record = images.Record(image_id or str(uuid.uuid4()), 'picture',
                               OWNER)
        self.store.create(record)
        return record.id, self.cast(guest, record.id, require)

    def cast(self, guest: Guest, image_id: str,
             require: bool = False) -> str:
        """Hand the request to the worker."""
        return self.worker.cast('image_server', image={
            'server_id': guest.uuid, 'image_id': image_id,
            'name': 'picture', 'owner': OWNER,
            'properties': {'instance_uuid': guest.uuid},
            'require_quiesce': require})

    def outcome(self, request_id: str, timeout: float = 30) -> dict:
        """Wait until the worker has told how it went."""
        return self.worker.outcome(timeout, kind='image',
                                   request_id=request_id)

    def record(self, image_id: str) -> dict:
        """Give what the store says of an image."""
        return json.loads((self.folder / f'{image_id}.json').read_text())

    def raw(self, image_id: str) -> pathlib.Path:
        """Give the disk in an image, raw, after a look at the image."""
        image, raw = self.folder / image_id, self.room / f'{image_id}.raw'
        for words in (['check', '-f', 'qcow2', image],
                      ['convert', '-f', 'qcow2', '-O', 'raw', image, raw]):
            subprocess.run(['qemu-img', *words], check=True,
                           capture_output=True)
        return raw

    def left(self) -> list[pathlib.Path]:
        """Give what an image must not leave behind on the host."""
        return [*(self.room / 'scratch').glob('*'),
                *(self.worker.path / 'state/imaging').glob('*')]

    def has_job(self, guest: Guest) -> bool:
        """Tell whether a job is at work on a guest."""
        return bool(guest.domain.jobInfo()[0])


@contextlib.contextmanager
def studio_beside(host: Libvirtd, **settings: object) -> Iterator[Studio]:
    """Make a worker beside a hypervisor, with a folder as store."""
    room = host.path / f'room{uuid.uuid4().hex[:4]}'
    room.mkdir()
    own = dict({'store': 'folder', 'folder': room / 'images',
                'scratch_path': room / 'scratch', 'silence_timeout': 5,
                'retry_wait': 0.2}, **settings.pop('images', {}))
    try:
        with Worker(host, images=own, **settings) as worker:
            yield Studio(host, worker, room)
    finally:
        shutil.rmtree(room)
