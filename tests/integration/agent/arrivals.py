# SPDX-License-Identifier: Apache-2.0
"""Looking at what arrived; and streams in processes of their own.

``python -m tests.integration.agent.arrivals DISK`` reads an order from
standard input, sends the disk, and prints the result and the most memory
that this took. The process may not write to any file.
"""

import base64
import json
import pathlib
import re
import resource
import subprocess
import sys
from typing import Any

from stillframe.agent import disks
from stillframe.agent import orders
from stillframe.agent import stream

_TOP = pathlib.Path(__file__).parents[3]


def patch(result: orders.Result, received: pathlib.Path) -> None:
    """Put the header in its place, as a receiver does."""
    assert received.stat().st_size == result.size
    if result.patch:
        with received.open('r+b') as file:
            file.seek(result.patch['offset'])
            file.write(base64.b64decode(result.patch['data']))


def judge(result: orders.Result, disk: pathlib.Path,
          received: pathlib.Path) -> None:
    """Have qemu-img check an image and compare it with its disk.

    Its format is that of the order: nothing is probed.
    """
    patch(result, received)
    if result.disk_format == 'qcow2':
        qemu_img('check', '-f', 'qcow2', received)
    qemu_img('compare', '-f', 'raw', '-F', result.disk_format, disk,
             received)


def as_raw(result: orders.Result, received: pathlib.Path) -> pathlib.Path:
    """Give what the image reads as, as a file beside it."""
    patch(result, received)
    raw = received.with_suffix('.raw')
    qemu_img('convert', '-f', result.disk_format, '-O', 'raw', received,
             raw)
    return raw


def qemu_img(*words: object) -> None:
    """Run qemu-img."""
    subprocess.run(['qemu-img', *map(str, words)], check=True,
                   capture_output=True, timeout=300)


def in_a_process(order: dict[str, Any], disk: pathlib.Path) -> str:
    """Send a disk in a process of its own; give what it prints."""
    return subprocess.run(
        [sys.executable, '-m', 'tests.integration.agent.arrivals', disk],
        input=json.dumps(order), cwd=_TOP, check=True, text=True,
        stdout=subprocess.PIPE, timeout=300).stdout


def main() -> None:
    """Send the disk that is named."""
    order = orders.Order.parse(json.load(sys.stdin))
    # Nothing of the disk is kept here: no file may grow at all.
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    result = stream.Stream(order).run(disks.Disk(sys.argv[1], 0))
    # What getrusage tells is also of whom this was forked from.
    status = pathlib.Path('/proc/self/status').read_text()
    peak = int(re.search(r'VmHWM:\s+(\d+) kB', status)[1]) << 10
    print(json.dumps({'result': result.document(), 'peak': peak}))


if __name__ == '__main__':
    main()
