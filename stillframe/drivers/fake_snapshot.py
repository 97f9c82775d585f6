# SPDX-License-Identifier: Apache-2.0
"""The snapshot of a machine that does not exist.

The disk is made up, but what is sent is a real image by the real way, so
that receiving, verifying and uploading can be tried out with any number of
nodes. It lives in this process: another one says that it failed, as an
agent would after a reboot.
"""

from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from dataclasses import dataclass
import hashlib
import time
from typing import Any
import uuid

from stillframe.agent import failures
from stillframe.agent import orders
from stillframe.agent import upload
from stillframe.drivers import base
from stillframe.drivers import errors
from stillframe.drivers import fake
from stillframe.drivers.driver_info import Property
from stillframe.qcow2 import allocation
from stillframe.qcow2 import writer

SIZE = Property('fake_disk_mib', 'Size of the disk that is not there, in '
                'MiB. Default 4; at most 65536.')
_LARGEST = 65536
_MIB = 1 << 20
# The disk has so much data in its middle, if it is as large as that.
_DATA = 1 << 20


@dataclass(frozen=True)
class _Work:
    """An order that a machine carries out.

    :ivar due: when its data is to be sent, on the monotonic clock.
    """

    id: str
    order: orders.Order
    due: float


class FakeSnapshot(fake.Fake, base.SnapshotInterface):
    """Sends a small image of no disk, when it is asked how far it is."""

    properties = (*fake.COMMON, SIZE)
    needs_ramdisk = False

    def validate(self, node: base.Node) -> None:
        """See the base class."""
        super().validate(node)
        _size(node)

    def start(self, node: base.Node, order: Mapping[str, Any]) -> str:
        """See the base class."""
        self._happen(node, 'start')
        _size(node)
        try:
            parsed = orders.Order.parse(order)
        except failures.BadOrder as exc:
            raise errors.AgentRefused(
                node=node['uuid'], command='the order', status=400,
                reason=str(exc)) from exc
        work = _Work(str(uuid.uuid4()), parsed, time.monotonic()
                     + fake.delay_of(node, 'snapshot.transfer'))
        self._machines().begin(node['uuid'], work)
        return work.id

    def poll(self, node: base.Node, command_id: str,
             ) -> base.Progress | base.Done | base.Failed:
        """Send the data when it is due, and tell how that went."""
        self._happen(node, 'poll')
        work = self._machines().work(node['uuid'])
        if not isinstance(work, _Work) or work.id != command_id:
            return base.Failed('The machine knows of no such order (any '
                               'more).')
        if time.monotonic() < work.due:
            return base.Progress()
        try:
            return base.Done(_send(node, work.order).document())
        except failures.AgentError as exc:
            return base.Failed(str(exc))
        finally:
            self._machines().end(node['uuid'])

    def stop(self, node: base.Node, command_id: str) -> None:
        """See the base class."""
        self._happen(node, 'stop')
        self._machines().end(node['uuid'])


def _size(node: base.Node) -> int:
    """Give the bytes of a machine's disk."""
    value = node['driver_info'].get(SIZE.key, 4)
    if (not isinstance(value, int) or isinstance(value, bool)
            or not 0 < value <= _LARGEST):
        raise errors.InvalidDriverInfo(
            node=node['uuid'], key=SIZE.key,
            reason=f'it has to be a whole number from 1 to {_LARGEST}.')
    return value * _MIB


def _send(node: base.Node, order: orders.Order) -> orders.Result:
    """Send the image of a machine's disk.

    :raises AgentError: it did not arrive.
    """
    size = _size(node)
    disk = allocation.Allocation(size)
    disk.mark((size - _DATA) // 2, _DATA)
    pieces: Iterator[writer.Buffer]
    if order.disk_format == 'raw':
        length, pieces = size, _raw(node['uuid'], size)
    else:
        layout = writer.Layout(disk)
        length = layout.length
        pieces = layout.stream(
            lambda asked: _read(node['uuid'], size, asked), _MIB)
    begin, started_at = time.monotonic(), orders.now()
    digest = hashlib.sha256()
    with upload.Put(order) as put:
        put.begin(length, length)
        for piece in pieces:
            digest.update(piece)
            put.write(piece)
        put.end()
    return orders.Result(
        transport=order.transport, disk_format=order.disk_format,
        disk={'name': '/dev/fake', 'serial': node['uuid'], 'wwn': None,
              'size': size, 'model': 'fake'},
        virtual_size=size, started_at=started_at, size=length,
        sha256=digest.hexdigest(), duration=time.monotonic() - begin,
        zero_bytes=0 if order.disk_format == 'raw' else size - _DATA,
        finished_at=orders.now())


def _raw(seed: str, size: int) -> Iterator[bytes]:
    return _read(seed, size, ((offset, _MIB)
                              for offset in range(0, size, _MIB)))


def _read(seed: str, size: int,
          asked: Iterable[tuple[int, int]]) -> Iterator[bytes]:
    """Read the disk: always the same of one machine, never zeroes.

    :param asked: pairs of offset and length.
    """
    data = (size - _DATA) // 2, (size - _DATA) // 2 + _DATA
    stamp = hashlib.sha256(seed.encode()).digest()
    for offset, length in asked:
        content = bytearray(length)
        begin = max(offset, data[0])
        end = min(offset + length, data[1])
        if begin < end:
            # begin and end are multiples of the stamp's length.
            content[begin - offset:end - offset] = (
                stamp * ((end - begin) // len(stamp)))
        yield bytes(content)
