# SPDX-License-Identifier: Apache-2.0
"""A real Glance as image store."""

import json
import urllib.error
import urllib.request

import pytest

from stillframe.clients import images
from tests.integration.images.conftest import glance_settings
from tests.lab import glance as glance_lab
from tests.unit.clients import image_store


def get(url: str) -> bytes | None:
    """Ask Glance past our client; None where there is nothing."""
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return answer.read() if answer.status == 200 else None
    except urllib.error.HTTPError as exc:
        if exc.code == 404:
            return None
        raise


class TestGlance(image_store.StoreContract):
    """What every store does, and what is Glance's own."""

    @pytest.fixture
    def store(self, glance):
        yield images.connect(glance_settings(glance.url))
        listed = json.loads(get(f'{glance.url}/v2/images'))
        assert listed['images'] == []
        assert glance.files() == []

    @pytest.fixture(autouse=True)
    def address(self, glance):
        self.url = glance.url

    def read(self, store, image_id):
        record = get(f'{self.url}/v2/images/{image_id}')
        return (json.loads(record) if record else {},
                get(f'{self.url}/v2/images/{image_id}/file'))

    def test_another_digest_is_compared_by_reading_back(
            self, store, glance, image):
        other = images.connect(
            glance_settings(glance.url, hash_algorithm='sha256'))
        record = self.record()
        other.create(record)
        stored = other.upload(record.id, lambda: self.pieces(image),
                              len(image), id)
        assert stored.algorithm == 'sha256'
        store.delete(record.id)

    def test_data_of_another_format_is_refused(self, store):
        record = self.record()
        store.create(record)
        with pytest.raises(images.ImageRefused, match='does not match'):
            store.upload(record.id, lambda: self.pieces(b'raw' * 100000),
                         300000, id)
        store.delete(record.id)


class TestHurtGlance:
    """Glance is down, full, or goes away while it is used."""

    @pytest.fixture
    def glance(self):
        with glance_lab.Glance(size_cap=1 << 20) as lab:
            yield lab

    def test_down_full_and_small(self, glance):
        contract = image_store.StoreContract
        store = images.connect(glance_settings(glance.url))
        small, large = (contract.record() for _ in range(2))
        store.create(small)
        store.create(large)

        # One Glance for three troubles: each start takes seconds.
        data = b'QFI\xfb' + bytes(2 << 20)
        with pytest.raises((images.ImageRefused, images.StoreUnavailable)):
            store.upload(large.id, lambda: contract.pieces(data),
                         len(data), id)
        assert store.status(large.id) in ('queued', 'killed')
        store.delete(large.id)

        def stops():
            pieces = contract.pieces(data)
            yield next(pieces)
            glance.stop()
            for _ in range(40):
                yield bytes(1 << 20)

        with pytest.raises(images.StoreUnavailable):
            store.upload(small.id, stops, len(data), id)
        with pytest.raises(images.StoreUnavailable, match='Unable to'):
            store.status(small.id)
        with pytest.raises(images.StoreUnavailable):
            store.create(contract.record())
        with pytest.raises(images.StoreUnavailable):
            store.delete(small.id)

        glance.lose_space()
        glance.start()
        with pytest.raises((images.StoreUnavailable, images.ImageRefused)):
            store.upload(small.id, lambda: contract.pieces(data[:4096]),
                         4096, id)
        assert store.status(small.id) != 'active'
        store.delete(small.id)
        assert store.status(small.id) is None
