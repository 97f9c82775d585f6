# SPDX-License-Identifier: Apache-2.0
"""An image store that has trouble while a node is snapshotted."""

import pytest

from tests.integration.baremetal.site import Site
from tests.integration.baremetal.test_endings import check_as_before
from tests.integration.baremetal.test_endings import transfers
from tests.integration.images.glance_double import GlanceDouble
from tests.lab.processes import state_dir

IMAGES = """\
store = glance
upload_retries = 1
retry_wait = 0.2
silence_timeout = 5
[glance]
auth_type = none
endpoint_override = {url}
"""


@pytest.fixture(scope='module')
def glance():
    """A store that has trouble when asked to."""
    with GlanceDouble() as made:
        yield made


@pytest.fixture(scope='module')
def site(glance):
    """A site that uploads there."""
    with state_dir('bm') as folder, Site(
            folder, images=IMAGES.format(url=glance.url)) as made:
        made.all_in_one()
        yield made


def snapshot(site, glance, mac, trouble):
    """Snapshot a node into a store that gets trouble meanwhile.

    :return: the node, its last snapshot, the image's id.
    """
    node = site.make_node(mac)
    image = glance.queued()
    site.provision(node, 'snapshot', image_ref=image)
    site.in_phase(node, 'booting')
    trouble(image)
    site.agent(mac, site.disk(mac))
    found = site.settled(node)
    check_as_before(site, node)
    assert not transfers(site)
    return found, site.history(node)[0], image


def test_all_is_well(site, glance, mac):
    found, event, image = snapshot(site, glance, mac, lambda _image: None)
    assert found['provision_state'] == 'active', found['last_error']
    assert glance.images[image]['status'] == 'active'
    assert glance.images[image]['size'] == event['size']
    assert event['checksum'] == (
        f'sha512:{glance.images[image]["os_hash_value"]}')
    assert glance.images[image]['stillframe_consistency'] == 'filesystem'


def test_the_image_was_deleted(site, glance, mac):
    found, event, image = snapshot(site, glance, mac, glance.images.pop)
    assert found['provision_state'] == 'snapshot failed'
    assert f'Image {image} was not found' in found['last_error']
    assert event['outcome'] == 'failed'


def test_the_image_has_data_by_now(site, glance, mac):
    found, _, image = snapshot(
        site, glance, mac,
        lambda image: glance.images[image].update(status='active'))
    assert found['provision_state'] == 'snapshot failed'
    assert 'active' in found['last_error']


@pytest.mark.parametrize('status', [413, 503])
def test_uploads_are_refused(site, glance, mac, status):
    def refuse(_image):
        glance.refuse, glance.refusals = status, 9

    found, _, image = snapshot(site, glance, mac, refuse)
    glance.refuse, glance.refusals = None, 0
    assert found['provision_state'] == 'snapshot failed'
    assert found['last_error']
    # It can be tried again with the same image.
    assert glance.images[image]['status'] == 'queued'


def test_a_short_trouble_is_survived(site, glance, mac):
    def refuse(_image):
        glance.refuse, glance.refusals = 503, 1

    found, _, image = snapshot(site, glance, mac, refuse)
    glance.refuse = None
    assert found['provision_state'] == 'active', found['last_error']


def test_something_else_arrives(site, glance, mac):
    def damage(_image):
        glance.wrong_digest = True

    found, event, _ = snapshot(site, glance, mac, damage)
    glance.wrong_digest = False
    assert found['provision_state'] == 'snapshot failed'
    assert event['outcome'] == 'failed'
