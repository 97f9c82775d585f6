# SPDX-License-Identifier: Apache-2.0
"""Images of a server with 1 GiB of data.

The guest writes all the time. In turn with its images, ``qemu-img convert``
of a copy of its disk on which nothing runs: what an image costs that nobody
has to freeze, export, digest, sync or verify.
"""

from collections.abc import Iterator
import contextlib
import os
import pathlib
import statistics
import subprocess
import time
from typing import Any
import uuid

from tests.integration.images import studio as studios
from tests.lab import disks
from tests.lab import processes
from tests.lab.domain_xml import Disk
from tests.lab.guests import Guest
from tests.lab.libvirtd import Libvirtd
from tools.bench import figures as figures_

_DATA = 1 << 30
_DISK_MIB = 2048


@contextlib.contextmanager
def _server(host: Libvirtd) -> Iterator[Guest]:
    """Run a guest whose one disk has 1 GiB of data that nothing shrinks.

    Beside the disk is a copy of it, of the time before the guest ran.
    """
    path = host.disks / 'large.raw'
    source = host.path / 'content'
    source.mkdir()
    with (source / 'file').open('wb') as file:
        for _ in range(_DATA >> 20):
            file.write(os.urandom(1 << 20))
    disks.make_ext4(path, _DISK_MIB)
    subprocess.run(['mkfs.ext4', '-q', '-F', '-d', source, path],
                   check=True)
    (source / 'file').unlink()
    source.rmdir()
    subprocess.run(['cp', '--sparse=always', path, _copy(path)], check=True)
    host.give_away(path)
    disk = Disk('vda', path, 'raw', str(uuid.uuid4()))
    with Guest(host, 'large', disk_count=0, volumes=(disk,)) as guest:
        yield guest


def _copy(path: pathlib.Path) -> pathlib.Path:
    return path.with_name('copy.raw')


def _take(studio: studios.Studio, guest: Guest) -> tuple[float, dict]:
    """Make an image; give the seconds and what the worker says."""
    begun = time.monotonic()
    image_id, request_id = studio.order(guest)
    outcome = studio.outcome(request_id, 300)
    took = time.monotonic() - begun
    if outcome['result'] != 'success':
        raise RuntimeError(outcome['message'], outcome['detail'])
    studio.store.delete(image_id)
    return took, outcome['image']


def _convert(guest: Guest, target: pathlib.Path) -> float:
    """Convert the copy of the guest's disk; give the seconds."""
    begun = time.monotonic()
    subprocess.run(
        ['qemu-img', 'convert', '-f', 'raw', '-O', 'qcow2',
         _copy(guest.disks[0].path), target], check=True)
    took = time.monotonic() - begun
    target.unlink()
    return took


def figures(rounds: int = 5) -> list[dict[str, Any]]:
    """Measure; give the figures as they go into bench.json."""
    return [figure.document() for figure in measure(rounds)]


def measure(rounds: int) -> list[figures_.Figure]:
    """Measure images and conversions.

    :param rounds: of each.
    """
    with Libvirtd('img') as host, _server(host) as guest, \
            studios.studio_beside(host) as studio:
        before = processes.peak(studio.worker.process.pid)
        taken, converted = [], []
        for _ in range(rounds):
            taken.append(_take(studio, guest))
            converted.append(_convert(guest, studio.room / 'converted'))
        peak = processes.peak(studio.worker.process.pid)
    whole = statistics.median(took for took, _ in taken)
    plain = statistics.median(converted)
    return [
        figures_.of_samples(
            'image_window', [end['window'] for _, end in taken], 's',
            'a running server with 1 GiB of data: freeze call sent to thaw '
            'acknowledged', figures_.Aim('under', 0.5)),
        figures_.Figure(
            'image_copy_ratio', whole / plain, 'ratio', rounds, None,
            f'{whole:.2f} s from request to outcome, synced and digested, '
            f'against {plain:.2f} s of qemu-img convert of the same disk '
            'at rest, which is neither; medians, taken in turn',
            figures_.Aim('at most', 1.3)),
        figures_.Figure(
            'image_rss', peak, 'MiB', rounds, None,
            f'peak of the whole compute worker; {before:.0f} MiB before '
            'the first image'),
    ]
