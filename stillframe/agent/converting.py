# SPDX-License-Identifier: Apache-2.0
"""Copying a disk into a file with ``qemu-img convert``.

For the transports that mount something. What only our own stream can do is
refused, not left out in silence.
"""

import hashlib
import pathlib

from stillframe.agent import children
from stillframe.agent import failures
from stillframe.agent import orders
from stillframe.agent import source
from stillframe.qcow2 import allocation
from stillframe.qcow2 import writer

_READ = 1 << 20
#: Bytes that an image may need beside what it was measured to.
SLACK = 4 << 20


def check(order: orders.Order) -> None:
    """See that qemu-img can do what is ordered.

    :raises BadOrder: it cannot, or is not there.
    """
    children.need('mount', 'umount', 'qemu-img')
    for asked, what in (
            (order.skip_free_space, 'skip_free_space'),
            (order.on_read_error != 'stop', 'on_read_error other than stop'),
            (order.bandwidth is not None, 'a limit of the bandwidth')):
        if asked:
            raise failures.BadOrder(
                f'The transport {order.transport} is without {what}; the '
                'transport webdav has it.')


def measure(opened: source.Source) -> writer.Layout:
    """Read all of a disk, and lay it out.

    :return: its length is a bound of what qemu-img will write.
    :raises ReadFailed, Stopped: as the source does.
    """
    used = allocation.Allocation(opened.size)
    for offset, length, buffer in opened.scan([(0, opened.size)]):
        used.scan(offset, buffer.memory, buffer.start, length)
    return writer.Layout(used)


def convert(runner: children.Children, order: orders.Order, disk: str,
            target: pathlib.Path, cache: str) -> None:
    """Copy a disk into a file.

    :param disk: path of the device; read as raw, whatever is in it.
    :param cache: qemu-img's mode for what it writes. In ``unsafe``, which
        is its own choice, it hears of no failure of a cache below it.
    :raises SendFailed: it was not copied.
    :raises Stopped: it was stopped.
    """
    options: tuple[str, ...] = ()
    if order.compress:
        options = ('-c', '-o', f'compression_type={order.compress}')
    # Past the cache of the source: three times as fast, measured.
    runner.run('qemu-img', 'convert', '-f', 'raw', '-T', 'none', '-t',
               cache, '-O', order.disk_format, *options, disk, str(target),
               silence=order.timeout)


def digest(path: pathlib.Path, runner: children.Children
           ) -> tuple[int, str]:
    """Read a file to its end.

    :return: its bytes, and their SHA-256 in hex.
    :raises SendFailed: it cannot be read.
    :raises Stopped: it was stopped.
    """
    size, found = 0, hashlib.sha256()
    try:
        with path.open('rb', buffering=0) as file:
            while data := file.read(_READ):
                runner.check()
                found.update(data)
                size += len(data)
    except OSError as exc:
        raise failures.SendFailed(
            'What was written cannot be read again: '
            f'{exc.strerror}.') from exc
    return size, found.hexdigest()
