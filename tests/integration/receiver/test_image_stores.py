# SPDX-License-Identifier: Apache-2.0
"""From the intermediate store to Glance, real and misbehaving, or a file."""

import json
import os
import pathlib
import urllib.request
import uuid

from oslo_config import cfg
import pytest

from stillframe.clients import image_refs
from stillframe.clients import images
from stillframe.conductor.baremetal import upload
from stillframe.conf import default as default_conf
from stillframe.conf import glance as glance_conf
from stillframe.conf import images as images_conf
from tests.integration.images.glance_double import GlanceDouble
from tests.integration.receiver.depot import qcow2
from tests.lab import glance as glance_lab

MIB = 1 << 20


def configured(url=None, **settings):
    """Make a configuration of the image store; a Glance's at a URL."""
    conf = cfg.ConfigOpts()
    for module in (default_conf, images_conf, glance_conf):
        module.register(conf)
    conf([], default_config_files=[])
    if url is not None:
        settings['store'] = 'glance'
        conf.set_override('auth_type', 'none', group='glance')
        conf.set_override('endpoint_override', url, group='glance')
    for key, value in ({'retry_wait': 0.1} | settings).items():
        conf.set_override(key, value, group='images')
    return conf


@pytest.fixture
def image(tmp_path):
    """The path of an image that was received and verified."""
    qcow2(tmp_path)
    return tmp_path / 'source.qcow2'


def queued(client, **fields):
    """Make an image as its owner does."""
    return client.images.create(name='node ü', **fields).id


def send(conf, ref, image, progress=lambda sent: None, **properties):
    return upload.Uploader(conf).send(ref, image, 'qcow2', progress,
                                      properties)


@pytest.mark.parametrize('fields', [
    {}, {'disk_format': 'raw', 'container_format': 'ova'},
    {'disk_format': 'qcow2', 'container_format': 'bare'}])
def test_to_glance(glance, image, fields):
    client = glance.client()
    image_id = queued(client, **fields)
    seen = []
    properties = upload.properties('clean', {
        'name': '/dev/sda', 'serial': 'S\x00N1', 'wwn': None,
        'size': 4 * MIB, 'model': ['?']})
    conf = configured(glance.url)
    assert not upload.Uploader(conf).arrived(image_id, image)
    stored = send(conf, image_id, image, seen.append, **properties)
    assert upload.Uploader(conf).arrived(image_id, image)
    shown = client.images.get(image_id)
    wanted = {
        'status': 'active', 'disk_format': 'qcow2',
        'container_format': 'bare', 'size': image.stat().st_size,
        'os_hash_value': stored.digest, 'name': 'node ü',
        'stillframe_method': 'ramdisk',
        'stillframe_consistency': 'filesystem',
        'stillframe_disk_name': '/dev/sda', 'stillframe_disk_serial': 'SN1',
        'stillframe_disk_size': str(4 * MIB)}
    assert {key: shown[key] for key in wanted} == wanted
    assert 'stillframe_disk_model' not in shown
    assert seen[-1] == stored.size == image.stat().st_size
    with urllib.request.urlopen(
            f'{glance.url}/v2/images/{image_id}/file', timeout=60) as got:
        assert got.read() == image.read_bytes()
    # A second one does not fit.
    with pytest.raises(images.ImageNotQueued, match='is active'):
        send(conf, image_id, image)
    client.images.delete(image_id)
    with pytest.raises(images.ImageGone):
        send(conf, image_id, image)


def test_ended_from_here(glance, image):
    """The image is queued again, for another try."""
    client = glance.client()
    image_id = queued(client)

    class Ended(Exception):
        pass

    def progress(sent):
        raise Ended

    conf = configured(glance.url)
    with pytest.raises(Ended):
        send(conf, image_id, image, progress)
    uploader = upload.Uploader(conf)
    with pytest.raises(upload.UploadStopped, match='being stopped'):
        uploader.send(image_id, image, 'qcow2', lambda sent: uploader.stop())
    # Glance takes a moment to see that it broke off.
    stored = send(configured(glance.url, upload_retries=8), image_id, image)
    assert client.images.get(image_id).os_hash_value == stored.digest
    client.images.delete(image_id)


def test_glance_goes_away_and_comes_back(image):
    with glance_lab.Glance() as glance:
        client = glance.client()
        image_id = queued(client)
        glance.stop()
        with pytest.raises(images.StoreUnavailable):
            send(configured(glance.url, upload_retries=1), image_id, image)
        waits = []

        def progress(sent):
            if not sent and not waits:
                waits.append(sent)
                glance.start()

        stored = send(configured(glance.url, upload_retries=9, retry_wait=1),
                      image_id, image, progress)
        assert client.images.get(image_id).os_hash_value == stored.digest


def test_glance_is_full(image):
    with glance_lab.Glance(size_cap=MIB) as glance:
        client = glance.client()
        image_id = queued(client)
        with pytest.raises(images.ImageStoreFull):
            send(configured(glance.url), image_id, image)
        assert client.images.get(image_id).status == 'queued'
        glance.lose_space()
        with pytest.raises((images.StoreUnavailable, images.ImageRefused)):
            send(configured(glance.url), image_id, image)
        assert client.images.get(image_id).status in ('queued', 'killed')


# --- what the real one cannot be made to do ----------------------------------

@pytest.fixture
def double():
    with GlanceDouble() as made:
        yield made


def doubled(double):
    image_id = str(uuid.uuid4())
    double.images[image_id] = {
        'id': image_id, 'status': 'queued', 'size': None,
        'os_hash_algo': None, 'os_hash_value': None, 'disk_format': None,
        'container_format': None}
    return image_id


@pytest.mark.parametrize('status', [500, 502, 503, 504, 409, 429])
def test_trouble_that_passes(double, image, status):
    double.refuse, double.refusals = status, 2
    image_id = doubled(double)
    send(configured(double.url), image_id, image)
    assert double.images[image_id]['status'] == 'active'


@pytest.mark.parametrize(('status', 'error'), [
    (503, images.StoreUnavailable), (507, images.ImageStoreFull),
    (413, images.ImageStoreFull), (403, images.ImageRefused),
    (415, images.ImageRefused)])
def test_trouble_that_stays(double, image, status, error):
    double.refuse, double.refusals = status, 99
    image_id = doubled(double)
    with pytest.raises(error):
        send(configured(double.url), image_id, image)
    assert double.images[image_id]['status'] == 'queued'
    # Every retry has an end, and what cannot change is not tried again.
    assert 99 - double.refusals == (3 if status == 503 else 1)


def test_something_else_arrived(double, image):
    double.wrong_digest = True
    image_id = doubled(double)
    with pytest.raises(images.ImageDamaged):
        send(configured(double.url), image_id, image)
    assert double.images[image_id]['status'] == 'deactivated'


def test_deleted_meanwhile(double, image):
    """Glance on SQLite is locked while it takes data; others are not."""
    image_id = doubled(double)
    with pytest.raises(images.ImageGone):
        send(configured(double.url), image_id, image,
             lambda sent: double.images.pop(image_id, None))
    assert double.images == {}


def test_an_answer_is_lost(double, image):
    """It is not sent again, and not taken for another one's."""
    double.lost_answers = 1
    image_id = doubled(double)
    stored = send(configured(double.url), image_id, image)
    assert stored.size == image.stat().st_size
    assert double.lost_answers == 0
    assert double.images[image_id]['status'] == 'active'


def test_an_answer_is_lost_and_the_data_is_wrong(double, image):
    double.lost_answers, double.wrong_digest = 1, True
    image_id = doubled(double)
    with pytest.raises(images.ImageNotQueued):
        send(configured(double.url), image_id, image)


def test_it_takes_too_long(double, image):
    image_id = doubled(double)
    times = iter([0.0, 0.0, *[1e9] * 99])
    uploader = upload.Uploader(configured(double.url),
                               clock=lambda: next(times))
    with pytest.raises(upload.UploadStopped, match='max_duration'):
        uploader.send(image_id, image, 'qcow2', lambda sent: None)


def test_the_file_is_not_whole_any_more(double, image):
    image_id = doubled(double)

    def progress(sent):
        os.truncate(image, MIB)

    with pytest.raises(upload.FileChanged):
        send(configured(double.url), image_id, image, progress)
    assert double.images[image_id]['status'] == 'queued'


# --- without an image store --------------------------------------------------

def test_to_a_folder_of_images(image, tmp_path):
    conf = configured(store='folder', folder=str(tmp_path / 'store'))
    store = images.connect(conf)
    record = images.Record(str(uuid.uuid4()), 'node', 'owner', 'raw')
    store.create(record)
    send(conf, record.id, image, stillframe_method='ramdisk')
    shown = json.loads((tmp_path / 'store' / f'{record.id}.json').read_text())
    assert (shown['status'], shown['disk_format'],
            shown['stillframe_method']) == ('active', 'qcow2', 'ramdisk')
    assert (tmp_path / 'store' / record.id).read_bytes() == (
        image.read_bytes())


def test_to_a_file(image, tmp_path):
    folder = tmp_path / 'out'
    folder.mkdir()
    conf = configured(url_prefixes=[f'file://{folder}'])
    ref = f'file://{folder}/node.qcow2'
    uploader = upload.Uploader(conf)
    assert not uploader.arrived(ref, image)
    send(conf, ref, image)
    assert pathlib.Path(folder, 'node.qcow2').read_bytes() == (
        image.read_bytes())
    assert uploader.arrived(ref, image)
    with pytest.raises(images.ImageRefused):
        send(conf, ref, image)
    with pytest.raises(image_refs.InvalidImageRef):
        send(conf, f'file://{tmp_path}/other', image)
