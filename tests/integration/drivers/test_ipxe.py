# SPDX-License-Identifier: Apache-2.0
"""A virtual machine with a real iPXE, from power-on to the ramdisk's agent.

iPXE is in the ROM of QEMU's network card; QEMU's own DHCP leads it to the
script, as an operator's would.
"""

from collections.abc import Callable
from collections.abc import Iterator
import contextlib
import http.server
from pathlib import Path
import threading
from urllib import parse

import pytest

from stillframe.drivers import ipxe
from tests.lab import node_disk
from tests.lab import ramdisk
from tests.lab.processes import Process
from tests.unit.drivers.nodes import make_node

MAC = '52:54:00:6b:0e:42'
#: The host, as QEMU's user networking shows it to the machine.
HOST = '10.0.2.2'


class Site:
    """Serves the script and the files, and is the API that agents call.

    :ivar asked: path and query of each request, decoded.
    :ivar looked_up: set when an agent looks for its node.
    :ivar script: makes the script for a path.
    """

    def __init__(self, script: Callable[[], str]):
        self.script = script
        self.asked: list[str] = []
        self.looked_up = threading.Event()
        self.parts = ramdisk.ramdisk()
        site = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                status, body = site.answer(self.path)
                self.send_response(status)
                self.send_header('Content-Length', str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_args: object) -> None:
                """The list of requests is enough."""

        self._server = http.server.ThreadingHTTPServer(
            ('127.0.0.1', 0), Handler)
        self.url = f'http://{HOST}:{self._server.server_port}'

    @contextlib.contextmanager
    def serving(self) -> Iterator['Site']:
        """Answer."""
        thread = threading.Thread(target=self._server.serve_forever,
                                  args=(0.05,), daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            thread.join(10)
            self._server.server_close()

    def answer(self, path: str) -> tuple[int, bytes]:
        """Give status and body."""
        # iPXE writes the colons of an address as %3A.
        path = parse.unquote(path)
        self.asked.append(path)
        where = parse.urlsplit(path).path
        if where == f'/boot/ipxe/{MAC}':
            return 200, self.script().encode()
        if where == '/files/vmlinuz':
            return 200, self.parts.kernel.read_bytes()
        if where == '/files/initrd':
            # In this order: see the laboratory's boot medium.
            return 200, (self.parts.agent.read_bytes()
                         + self.parts.system.read_bytes())
        if where == '/':
            return 200, (b'{"default_version": {"version": "1.115"}, '
                         b'"versions": []}')
        if where == '/v1/lookup':
            self.looked_up.set()
        return 404, b''


def machine(folder: Path, site: Site, *options: str | Path) -> Process:
    """Describe a machine that boots from the network before all else."""
    return Process('machine', [
        'qemu-system-x86_64', '-machine', 'pc,accel=tcg', '-m', '320',
        '-display', 'none', '-nodefaults', '-no-reboot',
        '-serial', 'stdio', '-boot', 'order=nc',
        '-netdev', f'user,id=n,bootfile={site.url}/boot/ipxe/{MAC}',
        '-device', f'virtio-net-pci,netdev=n,mac={MAC}', *options],
        folder / 'console')


def node_at(site: Site, kernel: str = 'vmlinuz') -> dict:
    return make_node(driver_info={
        'deploy_kernel': f'{site.url}/files/{kernel}',
        'deploy_ramdisk': f'{site.url}/files/initrd',
        'kernel_append_params': ramdisk.KERNEL_OPTIONS})


@pytest.mark.timeout(200)
def test_the_ramdisk_is_booted_with_our_parameters(tmp_path: Path) -> None:
    site = Site(lambda: ipxe.script(
        node_at(site), {'ipa-api-url': site.url, 'sf.unused': 'a:b,c'}))
    with site.serving():
        process = machine(tmp_path, site).start()
        try:
            found = site.looked_up.wait(120)
        finally:
            process.stop(timeout=0)
    assert found, process.tail()
    paths = [parse.urlsplit(one) for one in site.asked]
    assert [one.path for one in paths][:4] == [
        f'/boot/ipxe/{MAC}', '/files/vmlinuz', '/files/initrd', '/']
    [lookup, *_] = [one for one in paths if one.path == '/v1/lookup']
    assert MAC in parse.parse_qs(lookup.query)['addresses'][0]


def boots_its_disk(tmp_path: Path, site: Site) -> None:
    disk = tmp_path / 'disk'
    node_disk.make_node_disk(disk)
    with site.serving():
        process = machine(
            tmp_path, site,
            '-drive', f'file={disk},format=raw,if=virtio').start()
        try:
            process.wait_ready(
                lambda: 'NODE BOOTED FROM DISK' in process.tail(20000), 120)
        finally:
            process.stop(timeout=0)


@pytest.mark.timeout(200)
def test_a_machine_that_boots_no_ramdisk_boots_its_disk(
        tmp_path: Path) -> None:
    site = Site(ipxe.local_boot)
    boots_its_disk(tmp_path, site)
    assert site.asked == [f'/boot/ipxe/{MAC}']


@pytest.mark.timeout(200)
def test_a_ramdisk_that_cannot_be_had(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It's tried a few times; then the disk comes up again."""
    monkeypatch.setattr(ipxe, '_PAUSE', 1)
    site = Site(lambda: ipxe.script(node_at(site, 'gone'), {}))
    boots_its_disk(tmp_path, site)
    assert site.asked == [f'/boot/ipxe/{MAC}', *['/files/gone'] * 5]
