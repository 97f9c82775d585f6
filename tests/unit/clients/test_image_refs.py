# SPDX-License-Identifier: Apache-2.0
"""What a user may name as the place of an image."""

from oslo_config import cfg
import pytest

from stillframe.clients import image_refs
from stillframe.conf import images

UUID = 'e0000000-0000-4000-8000-00000000000a'
PREFIXES = ['file:///srv/images', 'https://store.example.org:8443/a/']


@pytest.fixture
def conf():
    """A configuration with two prefixes."""
    made = cfg.ConfigOpts()
    images.register(made)
    made([], project='stillframe', default_config_files=[],
         default_config_dirs=[])
    made.set_override('url_prefixes', PREFIXES, 'images')
    return made


@pytest.mark.parametrize(('text', 'kind', 'where'), [
    (UUID, image_refs.Kind.IMAGE, UUID),
    (UUID.upper(), image_refs.Kind.IMAGE, UUID),
    ('file:///srv/images/a', image_refs.Kind.FILE, '/srv/images/a'),
    ('file:///srv/images/a-b/c_d.1.qcow2', image_refs.Kind.FILE,
     '/srv/images/a-b/c_d.1.qcow2'),
    ('https://store.example.org:8443/a/b@c', image_refs.Kind.HTTPS,
     'https://store.example.org:8443/a/b@c'),
])
def test_good(conf, text, kind, where):
    assert image_refs.parse(text, conf) == image_refs.ImageRef(kind, where)


@pytest.mark.parametrize('text', [
    '', 'x', UUID[:-1], f'{{{UUID}}}', UUID.replace('-', ''), f'{UUID}\n',
    'http://store.example.org/a', 'ftp://a/b', 'glance://' + UUID,
    'file:///etc/passwd', 'file:///srv/imagesx/a', 'FILE:///srv/images/a',
    'file://localhost/srv/images/a', 'file:///srv/images',
    'file:///srv/images/', 'file:///srv/images/a/', 'file:///srv/images//a',
    'file:///srv/images/../a', 'file:///srv/images/a/../../../etc/passwd',
    'file:///srv/images/.hidden', 'file:///srv/images/a/.b',
    'file:///srv/images/%2e%2e/a', 'file:///srv/images/a\\b',
    'file:///srv/images/a b', 'file:///srv/images/a\n',
    'file:///srv/images/a\0', 'file:///srv/images/a#b',
    'file:///srv/images/ä',
    'https://store.example.org/a/b', 'https://store.example.org:8443/b',
    'https://store.example.org:8443/a/b?c=d',
    'https://u:p@store.example.org:8443/a/b', 'a' * 2000])
def test_bad(conf, text):
    with pytest.raises(image_refs.InvalidImageRef) as caught:
        image_refs.parse(text, conf)
    assert len(str(caught.value)) < 400
    assert 'u:p' not in str(caught.value)


def test_none_are_allowed_by_default(conf):
    conf.clear_override('url_prefixes', 'images')
    with pytest.raises(image_refs.InvalidImageRef):
        image_refs.parse('file:///srv/images/a', conf)
