# SPDX-License-Identifier: Apache-2.0
"""What the conductor orders, and what the agent answers.

Both are plain dicts on the way, with a version. An order of another
version is refused; a key that is not known here is of a newer conductor
that can do without it, and is ignored.
"""

from collections.abc import Mapping
import dataclasses
import datetime
from typing import Any
import urllib.parse

from stillframe.agent import failures

VERSION = 1

TRANSPORTS = ('webdav', 'davfs', 'nfs')
DISK_FORMATS = ('qcow2', 'raw')
COMPRESSIONS = (None, 'zstd')
ON_READ_ERROR = ('stop', 'zero')
#: What ``device`` is when the root disk is meant.
ROOT = 'root'

_SCHEMES = {'webdav': ('https', 'http'), 'davfs': ('https', 'http'),
            'nfs': ('nfs',)}
_TIMEOUT = 60.0


@dataclasses.dataclass(frozen=True)
class Order:
    """One disk to send.

    :ivar url: where to; one name, for this image alone.
    :ivar transport: one of :data:`TRANSPORTS`.
    :ivar ca: certificates (PEM) that the receiver's has to be signed by;
        None for those that the system trusts.
    :ivar disk_format: one of :data:`DISK_FORMATS`.
    :ivar compress: one of :data:`COMPRESSIONS`; for qcow2 alone.
    :ivar skip_free_space: leave out what the file systems say is free.
    :ivar device: :data:`ROOT`, or hints for another disk.
    :ivar root_device: the node's hints for its root disk, if it has any.
    :ivar skip_block_devices: hints for disks that are not to be considered.
    :ivar root_uuid_or_disk_id: what the root disk held when the node was
        deployed: the UUID of a file system, or the identifier of a disk.
    :ivar on_read_error: ``stop``, or ``zero``: fill with zeroes, and list.
    :ivar bandwidth: bytes a second, at most; None for no limit.
    :ivar timeout: seconds without progress after which the receiver is
        given up.
    """

    url: str
    transport: str = 'webdav'
    username: str = ''
    password: str = dataclasses.field(default='', repr=False)
    ca: str | None = dataclasses.field(default=None, repr=False)
    disk_format: str = 'qcow2'
    compress: str | None = None
    skip_free_space: bool = False
    device: str | Mapping[str, Any] = ROOT
    root_device: Mapping[str, Any] | None = None
    skip_block_devices: tuple[Mapping[str, Any], ...] = ()
    root_uuid_or_disk_id: str | None = None
    on_read_error: str = 'stop'
    bandwidth: int | None = None
    timeout: float = _TIMEOUT

    def __post_init__(self) -> None:
        """Check all values.

        :raises BadOrder: one is not what it may be.
        """
        _one_of('transport', self.transport, TRANSPORTS)
        _one_of('disk_format', self.disk_format, DISK_FORMATS)
        _one_of('compress', self.compress, COMPRESSIONS)
        _one_of('on_read_error', self.on_read_error, ON_READ_ERROR)
        for name in ('url', 'username', 'password'):
            _is_a(name, getattr(self, name), str)
        _is_a('skip_free_space', self.skip_free_space, bool)
        for name in ('ca', 'root_uuid_or_disk_id'):
            _is_a(name, getattr(self, name), str, type(None))
        if self.device != ROOT:
            _is_a('device', self.device, Mapping)
        _is_a('root_device', self.root_device, Mapping, type(None))
        for one in self.skip_block_devices:
            _is_a('skip_block_devices', one, Mapping)
        if self.bandwidth is not None:
            _is_positive('bandwidth', self.bandwidth)
        _is_positive('timeout', self.timeout)
        if self.compress and self.disk_format != 'qcow2':
            raise failures.BadOrder(
                f'An image of format {self.disk_format} cannot be '
                'compressed.')
        self._check_url()

    def _check_url(self) -> None:
        try:
            parts = urllib.parse.urlsplit(self.url)
            host = parts.hostname
            # Reading the port is what checks it.
            parts.port  # noqa: B018
        except ValueError:
            raise failures.BadOrder('The url of the order is none.') from None
        _one_of("url's scheme", parts.scheme, _SCHEMES[self.transport])
        if not host or not self.url.isascii() or not self.url.isprintable():
            raise failures.BadOrder('The url of the order is none.')
        if parts.username is not None or parts.password is not None:
            raise failures.BadOrder(
                'The url of the order has a credential in it; it belongs '
                'into username and password.')

    @classmethod
    def parse(cls, document: Mapping[str, Any]) -> 'Order':
        """Read an order as it came.

        :raises BadOrder: it cannot be understood.
        """
        _is_a('order', document, Mapping)
        if document.get('version') != VERSION:
            raise failures.BadOrder(
                f'This agent understands orders of version {VERSION}, not '
                f'{document.get("version")!r}.')
        names = {one.name for one in dataclasses.fields(cls)}
        values = {name: value for name, value in document.items()
                  if name in names}
        if 'url' not in values:
            raise failures.BadOrder('The order has no url.')
        skipped = values.get('skip_block_devices') or ()
        _is_a('skip_block_devices', skipped, list, tuple)
        values['skip_block_devices'] = tuple(skipped)
        return cls(**values)

    def document(self) -> dict[str, Any]:
        """Give the order as it is sent, secrets included."""
        values = {one.name: getattr(self, one.name)
                  for one in dataclasses.fields(self)}
        values['skip_block_devices'] = list(self.skip_block_devices)
        return {'version': VERSION, **values}


def _one_of(name: str, value: object, allowed: tuple) -> None:
    if value not in allowed:
        raise failures.BadOrder(
            f'The {name} of the order is none of '
            f'{", ".join(map(str, allowed))}.')


def _is_a(name: str, value: object, *kinds: type) -> None:
    if not isinstance(value, kinds):
        raise failures.BadOrder(
            f'The {name} of the order is of a wrong type, '
            f'{type(value).__name__}.')


def _is_positive(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or (
            not 0 < value < float('inf')):
        raise failures.BadOrder(
            f'The {name} of the order is no number above 0.')


def now() -> str:
    """Tell the time as results have it."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec='seconds')


@dataclasses.dataclass
class Result:
    """What was sent.

    :ivar disk: the disk that it is an image of: name, serial, wwn, size,
        model.
    :ivar size: bytes that were sent, which is the length of the file.
    :ivar virtual_size: bytes of the disk.
    :ivar sha256: digest, in hex, of what was sent: where there is a patch,
        of the file before it.
    :ivar patch: None, or what the receiver has to write over the file's
        beginning: ``{"offset": 0, "data": <base64>}``.
    :ivar duration: seconds.
    :ivar zero_bytes: bytes of the disk that were left out as zeroes, or
        (raw) were not read, being a hole.
    :ivar free_bytes: bytes of the disk that were not read, being free.
    :ivar read_errors: ranges ``[offset, length]`` of the disk, in bytes,
        that could not be read and are zeroes in the image.
    :ivar started_at: ISO 8601, UTC, by the ramdisk's clock; likewise
        ``finished_at``.
    :ivar notes: sentences on what somebody should know.
    """

    transport: str
    disk_format: str
    disk: dict[str, Any]
    virtual_size: int
    started_at: str
    size: int = 0
    sha256: str = ''
    patch: dict[str, Any] | None = None
    duration: float = 0.0
    zero_bytes: int = 0
    free_bytes: int = 0
    read_errors: list[list[int]] = dataclasses.field(default_factory=list)
    finished_at: str = ''
    notes: list[str] = dataclasses.field(default_factory=list)

    def document(self) -> dict[str, Any]:
        """Give the result as it is sent."""
        return {'version': VERSION, **dataclasses.asdict(self)}
