# SPDX-License-Identifier: Apache-2.0
"""The folder as image store."""

import json
import os
import pathlib
import threading
import uuid

import pytest

from stillframe.clients import image_folder
from stillframe.clients import images
from tests.unit.clients import image_store


class TestFolder(image_store.StoreContract):
    """What every store does, and what is a folder's own."""

    @pytest.fixture
    def store(self, tmp_path):
        folder = tmp_path / 'a' / 'images'
        yield image_folder.FolderStore(folder)
        # Nothing that a test made may be left over but the lock.
        assert [path.name for path in folder.glob('*')
                if path.name != '.lock'] == []

    @pytest.fixture
    def folder(self, store, tmp_path) -> pathlib.Path:
        return tmp_path / 'a' / 'images'

    def read(self, store, image_id):
        folder = store._folder
        record, data = folder / f'{image_id}.json', folder / image_id
        return (json.loads(record.read_text()) if record.exists() else {},
                data.read_bytes() if data.exists() else None)

    def test_delete_removes_what_a_killed_upload_left(self, store, folder):
        record = self.record()
        store.create(record)
        (folder / f'.{record.id}.abcdef').write_bytes(b'half')
        store.delete(record.id)

    @pytest.mark.parametrize('name', ('../../etc/passwd', 'x', ''))
    def test_an_id_that_is_none_is_no_path(self, store, name):
        store.delete(str(uuid.uuid4()))
        for call in (store.status, store.delete, store.activate_empty):
            with pytest.raises(ValueError, match='UUID'):
                call(name)

    def test_a_full_file_system(self, store, image, monkeypatch):
        record = self.record()
        store.create(record)

        def full(handle: int, data: memoryview) -> int:
            raise OSError(28, os.strerror(28))

        monkeypatch.setattr(os, 'write', full)
        with pytest.raises(
                images.StoreUnavailable, match='No space') as error:
            store.upload(record.id, lambda: self.pieces(image),
                         len(image), id)
        monkeypatch.undo()
        # While the error is kept, nothing but an end ends the digesting.
        assert 'digest_0' not in [
            thread.name for thread in threading.enumerate()], error
        assert store.status(record.id) == 'queued'
        store.delete(record.id)
