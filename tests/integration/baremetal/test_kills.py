# SPDX-License-Identifier: Apache-2.0
"""Conductors that are killed at each step: restarted, or succeeded.

Whatever the step, the node comes to rest: with the whole image and active,
or in "snapshot failed" with a reason; switched on as before, with its own
boot device; and nothing of the transfer is left.
"""

import hashlib
import uuid

import pytest

from tests.integration.baremetal.site import Site
from tests.integration.baremetal.test_endings import check_as_before
from tests.integration.baremetal.test_endings import transfers
from tests.integration.images.glance_double import GlanceDouble
from tests.lab.processes import state_dir

GLANCE = """\
store = glance
[glance]
auth_type = none
endpoint_override = {url}
"""
# Steps of a snapshot: a call of a driver that takes long, or a phase.
# By the call: what of the row says that it is being made.
SLOW = {'management.get_boot_device': 'uuid',
        'power.set_power_state': 'started_at',
        'boot.prepare_ramdisk': 'consistency'}
HELD = ('booting', 'streaming', 'verifying', 'uploading')


@pytest.fixture
def glance():
    """A store that holds uploads when asked to."""
    with GlanceDouble() as made:
        yield made


def bring_to(site, glance, mac, step):
    """Bring a node's snapshot to a step, and keep it there.

    :return: node, its disk, the image, and what lets it go on.
    """
    delays = {step: 6} if step in SLOW else {}
    node = site.make_node(mac)
    if delays:
        site.change(node, driver_info={'fake_delays': delays})
    disk, image = site.disk(mac), glance.queued()
    if step == 'uploading':
        glance.hold.set()
    site.provision(node, 'snapshot', image_ref=image)
    if step in SLOW:
        site.wait(lambda: site.history(node)[0][SLOW[step]], step)
    else:
        site.in_phase(node, 'booting')
    if step in HELD[1:]:
        site.agent(mac, disk)
        site.in_phase(node, step)
    if step == 'uploading':
        glance.began.wait(30)
    return node, disk, image


def check_ended(site, node):
    """See that all is as it has to be after an end.

    :return: the node.
    """
    found = site.settled(node)
    site.change(node, driver_info={})
    event = site.history(node)[0]
    assert event['finished_at'] is not None
    if found['provision_state'] == 'active':
        assert event['outcome'] == 'done'
    else:
        assert found['provision_state'] == 'snapshot failed'
        assert event['outcome'] == 'failed'
        assert event['reason'] == found['last_error']
    check_as_before(site, node)
    return found


@pytest.mark.parametrize('step', [*SLOW, *HELD])
def test_restarted(glance, mac, step):
    with state_dir('bm') as folder, Site(
            folder, images=GLANCE.format(url=glance.url),
            bandwidth=0.07 if step == 'streaming' else 0) as site:
        hold = site.hold_verification()
        if step != 'verifying':
            hold.unlink()
        site.all_in_one()
        node, disk, image = bring_to(site, glance, mac, step)
        site.kill('one')
        hold.unlink(missing_ok=True)
        glance.release()
        site.all_in_one()
        if step == 'booting':
            # As if nothing had happened.
            site.agent(mac, disk)
        found = check_ended(site, node)
        site.wait(lambda: not transfers(site), 'the file to be removed')
        if step in ('booting', 'verifying', 'uploading'):
            assert found['provision_state'] == 'active', found['last_error']
            assert glance.images[image]['status'] == 'active'
        else:
            assert found['provision_state'] == 'snapshot failed'
            assert found['last_error']
            # The image can be used again.
            assert glance.images[image]['status'] == 'queued'


@pytest.fixture
def cluster(rabbit, mariadb, glance):
    """Make a site for an API and conductors, with a database of its own.

    In a common one, conductors that were killed at the end of the test
    before pass for living ones until they have been silent for a while.
    """
    database = f'baremetal_{uuid.uuid4().hex}'
    with state_dir('bm') as folder, Site(
            folder, database=mariadb.create(database), transport=rabbit.url,
            images=GLANCE.format(url=glance.url), bandwidth=0) as made:
        yield made
    mariadb.drop(database)


@pytest.mark.parametrize('step', [*SLOW, *HELD])
def test_taken_over(cluster, glance, mac, step):
    site = cluster
    hold = site.hold_verification()
    if step != 'verifying':
        hold.unlink()
    site.set_option('bandwidth', 0.07 if step == 'streaming' else 0)
    site.conductors('c1', 'c2')
    node, disk, image = bring_to(site, glance, mac, step)
    victim = site.history(node)[0]['conductor']
    assert victim in ('c1', 'c2')
    site.kill(victim)
    if step == 'booting':
        other = 'c1' if victim == 'c2' else 'c2'
        site.wait(lambda: site.history(node)[0]['conductor'] == other,
                  'the other conductor')
        site.agent(mac, disk)
    found = check_ended(site, node)
    if step == 'booting':
        assert found['provision_state'] == 'active', found['last_error']
        assert glance.images[image]['status'] == 'active'
    else:
        assert found['provision_state'] == 'snapshot failed'
        assert victim in found['last_error']
    # What is on the dead one's disk is removed when it lives again.
    hold.unlink(missing_ok=True)
    glance.release()
    site.program('stillframe.cmd.conductor', victim)
    site.wait_ready(2)
    site.wait(lambda: not transfers(site), 'the file to be removed')
    assert site.settled(node)['provision_state'] == found['provision_state']


def sent_and_killed(site, glance, mac, **options):
    """Kill a conductor that has sent an image, before it hears so.

    :return: node, image, and the conductor's name.
    """
    site.conductors('c1', 'c2')
    glance.mute.set()
    node, image = site.make_node(mac), glance.queued()
    site.provision(node, 'snapshot', image_ref=image, **options)
    site.in_phase(node, 'booting')
    site.agent(mac, site.disk(mac))
    site.wait(lambda: glance.images[image]['status'] == 'active',
              'the image')
    victim = site.history(node)[0]['conductor']
    site.kill(victim)
    return node, image, victim


@pytest.mark.parametrize('disk_format', ['qcow2', 'raw'])
def test_an_image_that_the_dead_one_had_sent_is_found(
        cluster, glance, mac, disk_format):
    node, image, _ = sent_and_killed(cluster, glance, mac,
                                     disk_format=disk_format)
    found = check_ended(cluster, node)
    assert found['provision_state'] == 'active', found['last_error']
    event = cluster.history(node)[0]
    assert event['size'] == event['bytes_done'] == len(glance.data[image])
    digest = hashlib.sha256(glance.data[image]).hexdigest()
    assert event['checksum'] == f'sha256:{digest}'


def test_another_image_than_the_dead_one_had_is_not_taken_for_it(
        cluster, glance, mac):
    node, image, victim = sent_and_killed(cluster, glance, mac)
    # While nobody looks: of the same size.
    glance.data[image][-1] ^= 1
    found = check_ended(cluster, node)
    assert found['provision_state'] == 'snapshot failed'
    assert f'{victim}, which has the received image' in found['last_error']
    assert 'was not found where it belongs' in found['last_error']


def test_what_cannot_be_compared_is_not_called_done(cluster, glance, mac):
    node, _, victim = sent_and_killed(cluster, glance, mac, compress='zstd')
    found = check_ended(cluster, node)
    assert found['provision_state'] == 'snapshot failed'
    assert victim in found['last_error']
    assert 'is not known' in found['last_error']


def test_one_that_was_only_away_does_not_meddle(cluster, glance, mac):
    site = cluster
    site.set_option('bandwidth', 0.07)
    site.conductors('c1', 'c2')
    node, _, _ = bring_to(site, glance, mac, 'streaming')
    victim = site.history(node)[0]['conductor']
    process = site.process(victim)
    process.suspend()
    found = site.settled(node)
    assert found['provision_state'] == 'snapshot failed'
    process.resume()
    site.wait_ready(2)
    site.wait(lambda: not transfers(site), 'the file to be removed')
    assert site.settled(node)['last_error'] == found['last_error']
    assert len(site.history(node)) == 1
    assert site.node(node)['power_state'] == 'power on'


def test_an_image_of_a_server_outlives_its_conductor(cluster, glance, mac):
    site = cluster
    site.conductors('c1', 'c2')
    node = site.make_node(mac)
    server = str(uuid.uuid4())
    site.change(node, instance_uuid=server)
    site.wait(lambda: server in [one['id'] for one in site.get(
        '/v2.1/servers?all_tenants=1')['servers']], 'the server')
    site.request('POST', f'/v2.1/servers/{server}/action',
                 {'createImage': {'name': 'picture'}})
    site.in_phase(node, 'booting')
    event = site.history(node)[0]
    other = 'c1' if event['conductor'] == 'c2' else 'c2'
    site.kill(event['conductor'])
    site.wait(lambda: site.history(node)[0]['conductor'] == other,
              'the other conductor')
    site.agent(mac, site.disk(mac))
    assert site.settled(node)['provision_state'] == 'active'

    def ended():
        path = f'/v2.1/servers/{server}/os-instance-actions'
        found = site.get(f'{path}/{event["request_id"]}')['instanceAction']
        return found['events'][0]['result']

    assert site.wait(ended, 'the end of the image') == 'Success'
    assert glance.images[event['image_ref']]['status'] == 'active'
    found = site.get(f'/v2.1/servers/{server}')['server']
    assert found['status'] == 'ACTIVE'
    assert found['OS-EXT-SRV-ATTR:host'] == f'{other}-baremetal'


@pytest.mark.parametrize('step', ['streaming', 'verifying'])
def test_the_database_is_away_meanwhile(cluster, mariadb, glance, mac, step):
    site = cluster
    hold = site.hold_verification()
    if step == 'streaming':
        hold.unlink()
    site.set_option('bandwidth', 0.2 if step == 'streaming' else 0)
    site.conductors('c1')
    node, _, image = bring_to(site, glance, mac, step)
    mariadb.stop()
    hold.unlink(missing_ok=True)
    # By then everything has met the database's absence.
    for words in ('No snapshot was looked at', 'Nothing was taken up'):
        site.wait(lambda words=words: words in site.log('c1'), words)
    mariadb.start()
    found = check_ended(site, node)
    assert found['provision_state'] == 'active', found['last_error']
    assert glance.images[image]['status'] == 'active'


def test_the_broker_is_away_meanwhile(cluster, rabbit, glance, mac):
    site = cluster
    site.set_option('bandwidth', 0.2)
    site.conductors('c1')
    node, _, image = bring_to(site, glance, mac, 'streaming')
    rabbit.restart()
    found = check_ended(site, node)
    assert found['provision_state'] == 'active', found['last_error']
    assert glance.images[image]['status'] == 'active'
