# SPDX-License-Identifier: Apache-2.0
"""What every image store does, whether Glance or a folder.

An image is made in two steps: a record without data (``queued``), then its
data. Who starts an image chooses its id and writes it down first, so that
whatever is left behind can be named and removed.
"""

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
import dataclasses
import importlib
from typing import Protocol

from oslo_config import cfg

from stillframe import exceptions

#: Names of an image's own fields, which a property cannot have.
RESERVED = frozenset((
    'checksum', 'container_format', 'created_at', 'deleted', 'deleted_at',
    'direct_url', 'disk_format', 'file', 'id', 'is_public', 'locations',
    'min_disk', 'min_ram', 'name', 'os_hash_algo', 'os_hash_value',
    'os_hidden', 'owner', 'protected', 'schema', 'self', 'size', 'status',
    'stores', 'tags', 'updated_at', 'virtual_size', 'visibility'))
#: How properties begin that say how an image was made.
OWN_PREFIX = 'stillframe_'

Buffer = bytes | bytearray | memoryview

#: How many more pieces may be taken while one of :class:`Lasting` is used.
LAG = 2

#: Begins the data of an image from its first byte; called again for
#: another try. A piece is good until the next is taken, unless the data is
#: :class:`Lasting`.
Source = Callable[[], Iterable[Buffer]]
#: Told how many bytes have been sent.
Progress = Callable[[int], None]
#: Called for each piece of an image that is read back; what it raises ends
#: that.
Check = Callable[[], None]


def unchecked() -> None:
    """Let a whole image be read back, however long it takes."""


class Lasting:
    """Data each piece of which stays good while LAG more are taken.

    Whoever digests it can then be some pieces behind whoever sends it.
    """

    def __init__(self, pieces: Iterable[Buffer]):
        self._pieces = pieces

    def __iter__(self) -> Iterator[Buffer]:
        return iter(self._pieces)


class StoreUnavailable(exceptions.ServiceUnavailable):
    """The store does not answer or has trouble of its own; try again."""

    template = ('The image store does not answer or has trouble of its own '
                '({reason}). Look at it, and try again.')
    code = 'stillframe.image_store_unavailable'


class ImageRefused(exceptions.StillframeError):
    """The store does not take the image; again would be no better."""

    template = 'The image store refused image {image}: {reason}'
    http_status = 400
    code = 'stillframe.image_refused'


class ImageNotQueued(ImageRefused):
    """The image has data, or is about to get some."""

    template = ('Image {image} is {status}, and only one that is queued can '
                'be given data. Make a new one, and try again with that.')
    code = 'stillframe.image_not_queued'


class ImageStoreFull(ImageRefused):
    """The store, or the share of its owner, has no room."""

    template = ('The image store has no room for image {image}: {reason} '
                'Make room there, and try again.')
    code = 'stillframe.image_store_full'


class ImageGone(exceptions.NotFound):
    """There is no such image, or no longer."""

    template = ('Image {image} was not found in the image store: it was '
                'deleted, or never made.')
    code = 'stillframe.image_gone'


class ImageDamaged(exceptions.StillframeError):
    """What the store has is not what was sent."""

    template = ('Image {image} did not arrive in the image store as it was '
                'sent: {reason}')
    code = 'stillframe.image_damaged'


@dataclasses.dataclass(frozen=True)
class Record:
    """An image without its data.

    :ivar id: a UUID that its maker chose.
    :ivar owner: project id.
    :ivar disk_format: what the data will be; an image that refers to
        volumes alone has none, and is called ``raw``.
    :ivar properties: further ones, all strings.
    """

    id: str
    name: str
    owner: str
    disk_format: str = 'qcow2'
    min_disk: int = 0
    properties: Mapping[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Stored:
    """Data that was verified where it arrived.

    :ivar size: bytes.
    :ivar algorithm: name of the digest.
    :ivar digest: hexadecimal; empty of what was not read, for it has a size
        that nobody wants.
    """

    size: int
    algorithm: str
    digest: str


class Store(Protocol):
    """Where images go.

    Every method raises StoreUnavailable when the store cannot be reached.
    """

    def create(self, record: Record) -> None:
        """Make the record of an image.

        :raises ImageRefused: the store will not have it.
        """

    def upload(self, image_id: str, source: Source, length: int,
               progress: Progress) -> Stored:
        """Send the data of an image, and verify it where it arrived.

        :param source: gives the data.
        :param length: bytes that it gives.
        :raises ImageGone: the record is not there, or no longer.
        :raises ImageRefused: the store will not have the data.
        :raises ImageDamaged: something else arrived.
        :raises: what ``source`` raises.
        """

    def update(self, image_id: str, properties: Mapping[str, str]) -> None:
        """Set further properties of an image.

        :raises ImageGone: the record is not there, or no longer.
        :raises ImageRefused: the store will not have them.
        """

    def activate_empty(self, image_id: str) -> None:
        """Make an image active that has no data: it refers to volumes.

        :raises ImageGone: the record is not there, or no longer.
        """

    def status(self, image_id: str) -> str | None:
        """Give the status of an image; None when it is not there."""

    def holds(self, image_id: str, algorithm: str | None = None,
              sizes: range | None = None, check: Check = unchecked
              ) -> Stored | None:
        """Tell what the store has of an image that is active.

        :param algorithm: name of the digest that is wanted: the image is
            read where the store has another one; None for the store's.
        :param sizes: bytes that it may have: one of another size is not
            read, and then has an empty digest; None for any.
        :param check: called for each piece that is read.
        :return: None when it is not active, or not there.
        :raises: what ``check`` raises.
        """

    def withdraw(self, image_id: str) -> None:
        """Let nobody use the data of an image that was found damaged.

        No error when it is not there.

        :raises ImageRefused: the store will not do that.
        """

    def properties(self, image_id: str, timeout: float) -> dict[str, str]:
        """Give what an image says of itself; empty when it is not there.

        :param timeout: seconds that a store elsewhere gets to answer.
        """

    def delete(self, image_id: str) -> None:
        """Remove an image and its data; no error when it is not there.

        :raises ImageRefused: the store will not remove it.
        """


_STORES = {'folder': 'stillframe.clients.image_folder',
           'glance': 'stillframe.clients.glance'}


def connect(conf: cfg.ConfigOpts) -> Store:
    """Open the store that the configuration names.

    Nothing is asked of it yet, so it need not be there.
    """
    # What one store needs may not be installed where the other is used.
    module = importlib.import_module(_STORES[conf.images.store])
    return module.connect(conf)
