# SPDX-License-Identifier: Apache-2.0
"""An image as a resource of a web server: one that misbehaves on demand."""

import hashlib
import os
import time

import pytest

from stillframe import exceptions
from stillframe.clients import image_puts
from stillframe.clients import images
from stillframe.conductor.baremetal import upload
from tests.integration.receiver.depot import qcow2
from tests.integration.receiver.test_image_stores import configured
from tests.integration.receiver.web_server import Handler
from tests.integration.receiver.web_server import WebServer
from tests.lab.processes import free_port


@pytest.fixture
def web(tmp_path):
    with WebServer(tmp_path) as made:
        yield made


@pytest.fixture
def conf(web):
    return configured(url_prefixes=[web.url], url_cafile=web.cafile)


@pytest.fixture
def image(tmp_path):
    qcow2(tmp_path, 2)
    return tmp_path / 'source.qcow2'


@pytest.fixture
def ref(web):
    return f'{web.url}/node.qcow2'


def send(conf, ref, image):
    return upload.Uploader(conf).send(ref, image, 'qcow2', lambda sent: None)


def test_an_image(conf, web, ref, image):
    uploader = upload.Uploader(conf)
    assert not uploader.arrived(ref, image)
    stored = send(conf, ref, image)
    assert stored.size == image.stat().st_size
    assert web.files == {'/images/node.qcow2': image.read_bytes()}
    assert uploader.arrived(ref, image)
    # One that may have been sent before is not sent again.
    assert upload.Uploader(conf).send(
        ref, image, 'qcow2', lambda sent: None, again=True) == stored
    # One that is there is not replaced.
    web.asked.clear()
    with pytest.raises(images.ImageRefused, match='one of that name'):
        send(conf, ref, image)
    assert web.asked == [('HEAD', '/images/node.qcow2')]


def test_trouble_while_it_is_asked_whether_it_was_sent(conf, web, ref, image):
    stored = send(conf, ref, image)
    web.unreadable = 503

    def recovers(_sent):
        web.unreadable = None

    assert upload.Uploader(conf).send(
        ref, image, 'qcow2', recovers, again=True) == stored


def test_trouble_that_passes(conf, web, ref, image):
    web.answers = [503, 500]
    send(conf, ref, image)
    assert web.files


@pytest.mark.parametrize(('status', 'error'), [
    (413, images.ImageStoreFull), (507, images.ImageStoreFull),
    (403, images.ImageRefused), (412, images.ImageRefused),
    (307, images.ImageRefused), (202, images.ImageRefused)])
def test_refused(conf, web, ref, image, status, error):
    web.answers = [status] * 9
    with pytest.raises(error) as caught:
        send(conf, ref, image)
    assert '127.0.0.1' not in caught.value.message
    assert web.files == {}
    # Only what failed on the server's side may be half there.
    assert [one for one, _ in web.asked] == [
        'HEAD', 'PUT', *(['GET'] if status == 507 else [])]


@pytest.mark.parametrize('how', [None, 408, 500, 503, 507])
def test_what_is_half_there_is_removed(conf, web, ref, image, how):
    web.halves = [how]
    conf.set_override('upload_retries', 0, 'images')
    with pytest.raises((images.StoreUnavailable, images.ImageStoreFull)):
        send(conf, ref, image)
    assert web.files == {}
    assert send(conf, ref, image).size == image.stat().st_size


@pytest.mark.parametrize('how', [None, 408, 500, 507])
@pytest.mark.parametrize('rival', ['short', 'as long', 'longer'])
def test_what_another_one_put_there_during_a_put_stays(
        conf, web, ref, image, how, rival):
    """Not every server knows the condition of a PUT, or tells in time."""
    ours = image.read_bytes()
    theirs = {'short': b'precious', 'as long': ours[:-1] + b'?',
              'longer': ours + b'?'}[rival]
    assert theirs[-1:] != ours[-1:]
    web.rivals = [(theirs, how)]
    conf.set_override('upload_retries', 0, 'images')
    with pytest.raises((images.StoreUnavailable, images.ImageStoreFull)):
        send(conf, ref, image)
    assert web.files == {'/images/node.qcow2': theirs}


class Ended(exceptions.StillframeError):
    """As when the node is another conductor's, or this one is to end."""

    template = 'ended'


def end(uploader, image, how):
    """End an upload from here, in its middle."""
    if how == 'stopped':
        uploader.stop()
    elif how == 'raised':
        raise Ended()
    else:
        os.truncate(image, {'shorter': 1 << 20, 'empty': 0}[how])


def end_when_begun(conf, web, ref, image, how, error):
    """Have an upload end when the server has some of the image."""
    uploader = upload.Uploader(conf)
    web.streams = True

    def progress(_sent):
        assert web.begun.wait(30)
        end(uploader, image, how)

    with pytest.raises(error):
        uploader.send(ref, image, 'qcow2', progress)


@pytest.mark.parametrize(('how', 'error'), [
    ('stopped', upload.UploadStopped), ('raised', Ended),
    ('shorter', upload.FileChanged), ('empty', upload.FileChanged)])
def test_what_an_end_from_here_leaves_is_removed(
        conf, web, ref, image, how, error):
    end_when_begun(conf, web, ref, image, how, error)
    assert web.asked[-1][0] == 'DELETE'
    assert web.files == {}


@pytest.mark.parametrize('how', ['mute', 'drips'])
def test_an_end_from_here_waits_for_no_server(
        conf, web, ref, image, how, monkeypatch):
    monkeypatch.setattr(image_puts, '_PARTING', 1.0)
    monkeypatch.setattr(image_puts, '_PARTING_SILENCE', 1.0)
    web.mute = how == 'mute'
    web.endless = 0.1
    begin = time.monotonic()
    end_when_begun(conf, web, ref, image, 'stopped', upload.UploadStopped)
    assert time.monotonic() - begin < 20
    assert [one for one, _ in web.asked] == ['HEAD', 'PUT', 'GET']


@pytest.mark.parametrize('size', [0, 1, 1 << 20])
def test_what_a_killed_conductor_left_half_there(
        conf, web, ref, image, size):
    web.files['/images/node.qcow2'] = image.read_bytes()[:size]
    upload.Uploader(conf).send(ref, image, 'qcow2', lambda sent: None,
                               again=True)
    assert web.files == {'/images/node.qcow2': image.read_bytes()}


def test_another_ones_is_not_taken_for_half_an_image(conf, web, ref, image):
    web.files['/images/node.qcow2'] = b'precious'
    with pytest.raises(images.ImageRefused, match='one of that name'):
        upload.Uploader(conf).send(ref, image, 'qcow2', lambda sent: None,
                                   again=True)
    assert web.files == {'/images/node.qcow2': b'precious'}


@pytest.mark.parametrize('how', ['stopped', 'raised', 'too long'])
def test_reading_back_ends(conf, web, ref, how):
    """Asked by who takes over: there is no file here."""
    web.files['/images/node.qcow2'] = b'a'
    web.endless = 0.05
    uploader = upload.Uploader(conf)
    if how == 'too long':
        conf.set_override('max_duration', 1.0, 'images')

    def progress(_sent):
        if how != 'too long':
            end(uploader, None, how)

    begin = time.monotonic()
    with pytest.raises(Ended if how == 'raised' else upload.UploadStopped,
                       match='max_duration' if how == 'too long' else None):
        uploader.sent(ref, images.Stored(1 << 40, 'sha256', ''), progress)
    assert time.monotonic() - begin < 20


def test_who_takes_over_finds_the_image(conf, web, ref, image):
    stored = send(conf, ref, image)
    sent = upload.Uploader(conf).sent
    assert sent(ref, stored, lambda sent: None)
    assert not sent(ref, images.Stored(
        stored.size, 'sha256', hashlib.sha256(b'').hexdigest()), id)
    web.files.clear()
    assert not sent(ref, stored, lambda sent: None)


def test_what_has_a_wrong_size_is_not_read(conf, web, ref, image):
    size = send(conf, ref, image).size

    def check():
        pytest.fail('It was read.')

    for sizes in (range(size), range(size + 1, size + 2)):
        assert image_puts.holds(conf, ref, sizes, check) == images.Stored(
            size, 'sha256', '')


def test_what_another_one_put_there_meanwhile_stays(conf, web, ref, image):
    real = Handler.do_PUT

    def do_put(handler):
        web.files['/images/node.qcow2'] = b'precious'
        real(handler)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Handler, 'do_PUT', do_put)
        with pytest.raises(images.ImageRefused, match='one of that name'):
            send(conf, ref, image)
    assert web.files == {'/images/node.qcow2': b'precious'}


@pytest.mark.parametrize(('endless', 'said'), [
    (0, 'not the same'), (0.2, 'max_duration')])
def test_an_image_that_has_no_end(conf, web, ref, image, endless, said):
    web.endless = endless
    if endless:
        conf.set_override('max_duration', 10.0, 'images')
    with pytest.raises(images.ImageDamaged, match=said):
        send(conf, ref, image)
    assert web.files == {}


def test_something_else_arrived(conf, web, ref, image):
    web.damage = True
    with pytest.raises(images.ImageDamaged):
        send(conf, ref, image)
    assert web.files == {}


@pytest.mark.parametrize('status', [401, 403, 405])
def test_what_cannot_be_read_back_is_not_called_done(
        conf, web, ref, image, status):
    web.unreadable = status
    with pytest.raises(images.ImageDamaged, match='read back'):
        send(conf, ref, image)
    assert web.files == {}


def test_an_answer_is_lost(conf, web, ref, image):
    web.lose = True
    send(conf, ref, image)
    assert [one for one, _ in web.asked].count('PUT') == 1


def test_nobody_there(image):
    url = f'https://127.0.0.1:{free_port()}/images'
    with pytest.raises(images.StoreUnavailable):
        send(configured(url_prefixes=[url], upload_retries=1), f'{url}/x',
             image)


def test_a_certificate_that_nobody_trusts(web, ref, image):
    conf = configured(url_prefixes=[web.url], upload_retries=0)
    with pytest.raises(images.StoreUnavailable):
        send(conf, ref, image)
    assert web.asked == []


def test_no_password_of_the_environment_is_sent(
        conf, web, ref, image, monkeypatch, tmp_path):
    netrc = tmp_path / 'netrc'
    netrc.write_text('machine 127.0.0.1 login a password b\n')
    monkeypatch.setenv('NETRC', str(netrc))
    monkeypatch.setenv('https_proxy', 'http://127.0.0.1:1')
    seen = []
    real = Handler.do_PUT

    def do_put(handler):
        seen.append(handler.headers['Authorization'])
        real(handler)

    monkeypatch.setattr(Handler, 'do_PUT', do_put)
    send(conf, ref, image)
    assert seen == [None]
