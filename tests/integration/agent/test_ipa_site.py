# SPDX-License-Identifier: Apache-2.0
"""The real ironic-python-agent, our API, our conductor, our receiver.

The machine is one of the fake kind: what a BMC would do, the test does.
"""

import pytest

from tests.integration.agent import ipa
from tests.integration.baremetal.site import Site
from tests.lab.network import TapNetwork
from tests.lab.processes import state_dir
from tests.lab.processes import wait_until

MAC = '52:54:00:1b:a0:02'
MIB = 1 << 20

pytestmark = pytest.mark.skipif(bool(ipa.why_not()), reason=ipa.why_not())


@pytest.fixture
def network():
    """A network namespace that the test is in."""
    with TapNetwork() as made, made.entered():
        yield made


@pytest.fixture
def folder():
    with state_dir('ipa') as one:
        yield one


@pytest.fixture
def options():
    """Of the group [baremetal]."""
    return {}


@pytest.fixture
def site(network, folder, options):
    with Site(folder, **options) as made:
        made.all_in_one()
        yield made


@pytest.fixture
def ramdisk(network, folder):
    """A ramdisk with a card of the node's address, to be booted."""
    where = folder / 'ramdisk'
    where.mkdir()
    one = ipa.Ramdisk(where, MAC)
    yield one
    one.stop()


def boot(site, ramdisk, disk, node):
    site.in_phase(node, 'booting')
    ramdisk.start(disk, '--api_url', f'http://127.0.0.1:{site.port}')


@pytest.mark.parametrize('more', [
    {'disk_format': 'raw'}, {'compress': True}])
def test_a_node_is_snapshotted(site, ramdisk, more):
    node = site.make_node(MAC)
    disk = site.disk(MAC)
    path = site.snapshot(node, **more)
    boot(site, ramdisk, disk, node)
    settled = site.settled(node)
    assert settled['provision_state'] == 'active', (
        settled['last_error'], ramdisk.log)
    assert settled['last_error'] is None
    entry = site.history(node)[0]
    assert entry['outcome'] == 'done'
    if 'disk_format' in more:
        assert path.read_bytes() == disk.read_bytes()
    assert entry['size'] == path.stat().st_size
    # The commands came over TLS, with a certificate of that agent's making.
    assert 'Started API service with TLS' in ramdisk.log


@pytest.mark.parametrize('options', [{'bandwidth': 0.1}])
def test_a_snapshot_is_aborted(site, ramdisk):
    """The agent cannot be told; its stream ends all the same."""
    node = site.make_node(MAC)
    disk = site.disk(MAC, 64 * MIB)
    site.snapshot(node, disk_format='raw')
    boot(site, ramdisk, disk, node)
    site.in_phase(node, 'streaming')
    site.provision(node, 'abort')
    settled = site.settled(node)
    assert settled['provision_state'] == 'snapshot failed'
    assert site.history(node)[0]['outcome'] == 'aborted'
    wait_until(lambda: 'Command failed: stream_image' in ramdisk.log, 60,
               'the stream to end', 0.2)
