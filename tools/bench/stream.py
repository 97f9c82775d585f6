# SPDX-License-Identifier: Apache-2.0
"""A disk of a bare-metal machine, from its device to a verified file.

The disk has 6 GiB, 2.5 GiB of which are data, half of that in files that
were deleted. The agent is a process of its own that may not write to any
file; the receiver is the conductor's, in another. The ways that are compared
are taken in turn.
"""

from collections.abc import Callable
from collections.abc import Iterator
import contextlib
import dataclasses
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import time
from typing import Any
import uuid

from stillframe.conductor.receiver import verify
from tests.integration.receiver import daemon
from tests.lab import fuse
from tests.lab import processes
from tools.bench import figures
from tools.bench import narrow
from tools.bench import stream_disk
from tools.bench import stream_peers

_TOP = pathlib.Path(__file__).parents[2]
_LINK = 100_000_000 / 8
_PLAIN: dict[str, Any] = {}
_WAYS: dict[str, dict[str, Any]] = {
    'stream': _PLAIN,
    'stream_free': {'skip_free_space': True},
    'stream_zstd': {'compress': 'zstd'},
    'stream_zstd_free': {'compress': 'zstd', 'skip_free_space': True},
}


@dataclasses.dataclass(frozen=True)
class _Sent:
    """One image.

    :ivar took: seconds from the agent's start to the verified file.
    :ivar size: MiB of the file.
    :ivar peak: most memory of the agent, MiB.
    """

    took: float
    size: float
    peak: float


class _Site:
    """A disk, a receiver, and a database for it."""

    def __init__(self, device: pathlib.Path, folder: pathlib.Path,
                 store: pathlib.Path):
        self.device = device
        self.store = store
        self._database = f'sqlite:///{folder}/receiver.sqlite'
        self._ready = False

    @contextlib.contextmanager
    def receiver(self, tls: bool = False) -> Iterator[daemon.Daemon]:
        """Run a receiver."""
        made = daemon.Daemon(self.store, self._database, tls=tls)
        if not self._ready:
            subprocess.run(
                [sys.executable, '-m', 'stillframe.cmd.manage',
                 '--config-file', self.store / 'stillframe.conf', 'db',
                 'upgrade'], check=True, cwd=_TOP, capture_output=True)
            self._ready = True
        with made as running:
            yield running

    def open(self, receiver: daemon.Daemon) -> tuple[str, dict[str, Any]]:
        """Open a transfer; give the snapshot's id and the ticket."""
        snapshot = str(uuid.uuid4())
        return snapshot, receiver.ask('open', snapshot)

    def send(self, receiver: daemon.Daemon, way: dict[str, Any],
             rate: float | None = None) -> _Sent:
        """Send the disk by our agent.

        :param rate: bytes a second of the link; None for what there is.
        """
        snapshot, ticket = self.open(receiver)
        with contextlib.ExitStack() as stack:
            url = ticket['url']
            if rate is not None:
                port = re.search(r':(\d+)/', url)
                assert port is not None
                link = stack.enter_context(narrow.Narrow(int(port[1]), rate))
                url = url.replace(f':{port[1]}/', f':{link.port}/')
            order = {'version': 1, 'timeout': 60.0, **ticket, 'url': url,
                     **way}
            began = time.monotonic()
            told = json.loads(subprocess.run(
                [sys.executable, '-m', 'tests.integration.agent.arrivals',
                 self.device], input=json.dumps(order), cwd=_TOP,
                check=True, text=True, stdout=subprocess.PIPE,
                timeout=900).stdout)
            result = told['result']
            arrival = receiver.ask('finish', snapshot, result)
            verify.verify(pathlib.Path(arrival['path']), 'qcow2',
                          result['virtual_size'])
            took = time.monotonic() - began
        receiver.ask('close', snapshot)
        return _Sent(took, result['size'] / (1 << 20),
                     told['peak'] / (1 << 20))

    def curl(self, receiver: daemon.Daemon) -> float:
        """Send the disk by dd, zstd and curl; give the seconds."""
        snapshot, ticket = self.open(receiver)
        took = stream_peers.curl(self.device, ticket, stream_disk.SIZE)
        receiver.ask('close', snapshot)
        return took

    def davfs(self, receiver: daemon.Daemon) -> float:
        """Send the disk by davfs2 and qemu-img; give the seconds."""
        snapshot, ticket = self.open(receiver)
        with processes.state_dir('davfs') as folder:
            took = stream_peers.davfs(self.device, ticket, folder)
        if receiver.ask('progress', snapshot)['state'] != 'arrived':
            raise RuntimeError('what davfs2 sent did not arrive')
        receiver.ask('close', snapshot)
        return took

    def nbd(self) -> float:
        """Send the disk by NBD and qemu-img; give the seconds."""
        return stream_peers.nbd(self.device, stream_disk.SIZE, self.store)


@contextlib.contextmanager
def _site() -> Iterator[_Site]:
    """Make the disk and where it goes: both in memory, if that is there."""
    memory = pathlib.Path('/dev/shm')
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(processes.state_dir('stream'))
        store = folder
        if memory.is_dir() and os.access(memory, os.W_OK):
            store = memory / folder.name
            store.mkdir()
            stack.callback(subprocess.run, ['rm', '-r', store], check=False)
        disk = folder / 'disk.raw'
        stream_disk.make(disk)
        device = stack.enter_context(_device(disk))
        # Who reads it first would pay for the machine's cache.
        subprocess.run(['dd', f'if={device}', 'of=/dev/null', 'bs=4M',
                        'iflag=direct', 'status=none'], check=True)
        yield _Site(device, folder, store)


@contextlib.contextmanager
def _device(disk: pathlib.Path) -> Iterator[pathlib.Path]:
    """Show the disk as a block device, where we may; it has no holes."""
    if os.geteuid() != 0:
        yield disk
        return
    found = subprocess.run(
        ['losetup', '--find', '--show', '--read-only', disk], check=True,
        text=True, stdout=subprocess.PIPE).stdout.strip()
    try:
        yield pathlib.Path(found)
    finally:
        subprocess.run(['losetup', '--detach', found], check=True)


def measure(rounds: int, narrow_ways: int) -> list[figures.Figure]:
    """Measure all ways.

    :param rounds: of each.
    :param narrow_ways: how many of ours also go through a narrow link.
    """
    sent: dict[str, list[_Sent]] = {name: [] for name in _WAYS}
    peers: dict[str, list[float]] = {'davfs': [], 'nbd': [], 'curl': []}
    with _site() as site:
        with site.receiver() as receiver:
            others: dict[str, Callable[[], float]] = {
                'nbd': site.nbd, 'curl': lambda: site.curl(receiver)}
            if not fuse.why_no_davfs():
                others['davfs'] = lambda: site.davfs(receiver)
            for _ in range(rounds):
                for name, way in _WAYS.items():
                    sent[name].append(site.send(receiver, way))
                for name, take in others.items():
                    peers[name].append(take())
            shaped = {name: site.send(receiver, _WAYS[name], _LINK)
                      for name in list(_WAYS)[::-1][:narrow_ways]}
            memory = processes.peak(receiver.process.pid)
        with site.receiver(tls=True) as receiver:
            tls = [site.send(receiver, _PLAIN).took for _ in range(rounds)]
    return [*_ours(sent, tls), *_compared(sent, peers),
            *_through_link(shaped), *_memory(sent, memory)]


def _ours(sent: dict[str, list[_Sent]], tls: list[float]
          ) -> Iterator[figures.Figure]:
    """Give how long each of our ways takes."""
    for name, each in sent.items():
        yield figures.Figure(
            f'{name}_seconds', statistics.median(one.took for one in each),
            's', len(each), None,
            f'agent started to file verified, without TLS; '
            f'{each[0].size:.0f} MiB')
    yield figures.Figure('stream_tls_seconds', statistics.median(tls), 's',
                         len(tls), None, 'the same as stream, with TLS')


def _compared(sent: dict[str, list[_Sent]], peers: dict[str, list[float]]
              ) -> Iterator[figures.Figure]:
    """Give how our ways compare with others."""
    plain = statistics.median(one.took for one in sent['stream'])
    packed = statistics.median(one.took for one in sent['stream_zstd'])
    rounds = len(sent['stream'])
    if peers['davfs']:
        other = statistics.median(peers['davfs'])
        yield figures.Figure(
            'stream_vs_davfs', other / plain, 'times', rounds, None,
            f'{plain:.2f} s against {other:.2f} s of qemu-img convert onto '
            'a davfs2 mount of the same receiver, and umount',
            figures.Aim('at least', 7))
    other = statistics.median(peers['nbd'])
    yield figures.Figure(
        'stream_vs_nbd', plain / other, 'ratio', rounds, None,
        f'{plain:.2f} s against {other:.2f} s of qemu-img convert to '
        'qemu-nbd, which digests nothing, and qemu-img check',
        figures.Aim('at most', 1.2))
    other = statistics.median(peers['curl'])
    yield figures.Figure(
        'stream_zstd_vs_curl', packed / other, 'ratio', rounds, None,
        f'{packed:.2f} s against {other:.2f} s of dd | zstd -1 | curl to '
        'the same receiver, which is not verified')


def _through_link(shaped: dict[str, _Sent]) -> Iterator[figures.Figure]:
    for name, one in shaped.items():
        yield figures.Figure(
            f'{name}_100mbit_seconds', one.took, 's', 1, None,
            f'through a link of 100 Mbit/s, which carries {one.size:.0f} '
            f'MiB in {one.size * (1 << 20) / _LINK:.0f} s at best')


def _memory(sent: dict[str, list[_Sent]], receiver: float
            ) -> Iterator[figures.Figure]:
    peaks = [one.peak for each in sent.values() for one in each]
    yield figures.Figure(
        'stream_agent_rss', max(peaks), 'MiB', len(peaks), None,
        'most memory of any agent above', figures.Aim('under', 64))
    yield figures.Figure(
        'stream_agent_space', 0.0, 'MiB', len(peaks), None,
        'bytes written to files: the agents above were not allowed any',
        figures.Aim('at most', 0))
    yield figures.Figure(
        'stream_receiver_rss', receiver, 'MiB', 1, None,
        'most memory of the receiver in all of that; its process has the '
        'database and the libraries of a conductor too')
