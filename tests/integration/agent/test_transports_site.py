# SPDX-License-Identifier: Apache-2.0
"""Other transports, from the request to the image, as a conductor has it."""

import subprocess

import pytest

from tests.integration.baremetal.site import Site
from tests.lab import fuse
from tests.lab.processes import state_dir

MAC = '52:54:00:1b:a0:03'
MIB = 1 << 20


@pytest.fixture
def site():
    with state_dir('dav') as folder, Site(folder) as made:
        made.all_in_one()
        yield made


@pytest.mark.skipif(bool(fuse.why_no_davfs()), reason=fuse.why_no_davfs())
def test_davfs(site):
    node = site.make_node(MAC)
    disk = site.disk(MAC, 64 * MIB)
    path = site.snapshot(node, transport='davfs')
    site.in_phase(node, 'booting')
    site.agent(MAC, disk)
    settled = site.settled(node)
    assert settled['last_error'] is None
    entry = site.history(node)[0]
    assert (entry['outcome'], entry['size']) == ('done', path.stat().st_size)
    subprocess.run(['qemu-img', 'compare', '-f', 'raw', '-F', 'qcow2', disk,
                    path], check=True, capture_output=True)
