# SPDX-License-Identifier: Apache-2.0
"""What every image store has to do; each has a test class of this."""

from collections.abc import Iterator
import hashlib
import json
import os
import subprocess
import uuid

import pytest

from stillframe.clients import images
from tests.lab import processes


class Trouble(Exception):
    """The source of the data fails."""


class StoreContract:
    """Tests of a store; ``store`` is a fixture of the subclass."""

    #: Of the data that a test sends: enough for several pieces.
    SIZE = 3 << 20

    @pytest.fixture
    def image(self, tmp_path) -> bytes:
        """A real qcow2 image: Glance looks at what it gets."""
        raw, path = tmp_path / 'raw', tmp_path / 'qcow2'
        raw.write_bytes(os.urandom(self.SIZE))
        subprocess.run(['qemu-img', 'convert', '-f', 'raw', '-O', 'qcow2',
                        raw, path], check=True)
        return path.read_bytes()

    @staticmethod
    def pieces(data: bytes, step: int = 300_000) -> Iterator[memoryview]:
        """Give data as a reader of disks does: in one reused buffer."""
        buffer = bytearray(step)
        for offset in range(0, len(data), step):
            part = data[offset:offset + step]
            buffer[:len(part)] = part
            yield memoryview(buffer)[:len(part)]

    @staticmethod
    def record(**kwargs) -> images.Record:
        values = {'id': str(uuid.uuid4()), 'name': 'web ü', 'owner': 'f' * 32,
                  'properties': {'stillframe_consistency': 'filesystem'}}
        return images.Record(**(values | kwargs))

    def read(self, store, image_id: str) -> tuple[dict, bytes | None]:
        """Give the record and the data, past the store's own code."""
        raise NotImplementedError

    def test_an_image_in_two_steps(self, store, image):
        record = self.record(min_disk=2)
        assert store.status(record.id) is None
        store.create(record)
        assert store.status(record.id) == 'queued'
        seen: list[int] = []
        stored = store.upload(record.id, lambda: self.pieces(image),
                              len(image), seen.append)
        assert stored.size == len(image) == seen[-1]
        assert len(seen) > 5
        assert seen == sorted(seen)
        assert stored.digest == hashlib.new(stored.algorithm,
                                            image).hexdigest()
        store.update(record.id, {'stillframe_window': '0.25'})
        shown, data = self.read(store, record.id)
        assert data == image
        wanted = {
            'id': record.id, 'name': 'web ü', 'status': 'active',
            'owner': 'f' * 32, 'disk_format': 'qcow2', 'size': len(image),
            'container_format': 'bare', 'visibility': 'private',
            'min_disk': 2, 'os_hash_algo': stored.algorithm,
            'os_hash_value': stored.digest,
            'stillframe_consistency': 'filesystem',
            'stillframe_window': '0.25'}
        assert {key: shown[key] for key in wanted} == wanted
        store.delete(record.id)
        assert store.status(record.id) is None
        assert self.read(store, record.id) == ({}, None)

    def test_what_it_holds(self, store, image):
        record = self.record()
        assert store.holds(record.id) is None
        store.create(record)
        assert store.holds(record.id) is None
        stored = store.upload(record.id, lambda: self.pieces(image),
                              len(image), id)
        assert store.holds(record.id) == stored
        # Also by a digest that the store does not keep.
        for algorithm in ('md5', 'sha256', 'sha512'):
            assert store.holds(record.id, algorithm) == images.Stored(
                len(image), algorithm,
                hashlib.new(algorithm, image).hexdigest())
        store.delete(record.id)

    def test_reading_it_can_be_ended(self, store, image):
        record = self.record()
        store.create(record)
        store.upload(record.id, lambda: self.pieces(image), len(image), id)
        calls: list[None] = []

        def check():
            calls.append(None)
            if len(calls) == 2:
                raise Trouble

        with pytest.raises(Trouble):
            store.holds(record.id, 'md5', check=check)
        assert len(calls) == 2
        # What has a wrong size is not read.
        assert store.holds(
            record.id, 'md5', range(len(image)), check) == images.Stored(
                len(image), 'md5', '')
        assert len(calls) == 2
        store.delete(record.id)

    def test_what_is_withdrawn_has_no_data(self, store, image):
        record = self.record()
        store.withdraw(record.id)
        store.create(record)
        store.upload(record.id, lambda: self.pieces(image), len(image), id)
        store.withdraw(record.id)
        assert store.status(record.id) == 'deactivated'
        assert store.holds(record.id) is None
        store.delete(record.id)

    def test_an_id_is_taken_once(self, store):
        record = self.record()
        store.create(record)
        with pytest.raises((images.ImageRefused,
                            images.StoreUnavailable)):
            store.create(record)
        store.delete(record.id)

    def test_delete_of_nothing_is_no_error(self, store):
        store.delete(str(uuid.uuid4()))

    def test_nothing_to_upload_to(self, store, image):
        with pytest.raises(images.ImageGone):
            store.upload(str(uuid.uuid4()), lambda: self.pieces(image),
                         len(image), id)

    def test_nothing_to_update(self, store):
        with pytest.raises(images.ImageGone):
            store.update(str(uuid.uuid4()), {'a': 'b'})
        with pytest.raises(images.ImageGone):
            store.activate_empty(str(uuid.uuid4()))

    def test_the_source_fails_half_way_and_goes_another_time(
            self, store, image):
        record = self.record()
        store.create(record)

        def broken() -> Iterator[memoryview]:
            yield from self.pieces(image[:self.SIZE // 2])
            raise Trouble

        with pytest.raises(Trouble):
            store.upload(record.id, broken, len(image), id)
        shown, data = self.read(store, record.id)
        assert shown['status'] in ('queued', 'saving')
        assert (shown['size'], data) == (None, None)
        # Glance may take a moment to see that the first try broke off.
        processes.wait_until(
            lambda: self.goes(store, record.id, image), 10,
            'the store to take the data again')
        assert self.read(store, record.id)[1] == image
        store.delete(record.id)

    def goes(self, store, image_id: str, image: bytes) -> bool:
        """Upload; False when another try may do better."""
        try:
            store.upload(image_id, lambda: self.pieces(image), len(image),
                         id)
        except images.StoreUnavailable:
            return False
        return True

    def test_less_data_than_was_said_is_damage(self, store, image):
        record = self.record()
        store.create(record)
        with pytest.raises(images.ImageDamaged, match='were sent'):
            store.upload(record.id, lambda: self.pieces(image),
                         len(image) + 1, id)
        store.delete(record.id)

    def test_deleted_while_it_is_sent(self, store, image):
        record = self.record()
        store.create(record)

        def source() -> Iterator[memoryview]:
            pieces = self.pieces(image)
            yield next(pieces)
            store.delete(record.id)
            yield from pieces

        with pytest.raises((images.ImageGone, images.StoreUnavailable)):
            store.upload(record.id, source, len(image), id)
        # However the store took that: nothing is left after a clean-up.
        store.delete(record.id)
        assert self.read(store, record.id) == ({}, None)

    def test_data_goes_in_once(self, store, image):
        record = self.record()
        store.create(record)
        store.upload(record.id, lambda: self.pieces(image), len(image), id)
        with pytest.raises((images.ImageRefused,
                            images.StoreUnavailable)):
            store.upload(record.id, lambda: self.pieces(image[::-1]),
                         len(image), id)
        assert self.read(store, record.id)[1] == image
        store.delete(record.id)

    def test_an_image_without_data(self, store):
        mapping = json.dumps([{'source_type': 'snapshot',
                               'snapshot_id': str(uuid.uuid4())}])
        record = self.record(disk_format='raw', properties={
            'block_device_mapping': mapping, 'bdm_v2': 'True'})
        store.create(record)
        store.activate_empty(record.id)
        shown, _ = self.read(store, record.id)
        assert (shown['status'], shown['size']) == ('active', 0)
        assert shown['block_device_mapping'] == mapping
        store.delete(record.id)
