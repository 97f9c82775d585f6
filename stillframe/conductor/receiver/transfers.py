# SPDX-License-Identifier: Apache-2.0
"""One transfer: its credential, its state, and the upload that runs."""

from collections.abc import Callable
import dataclasses
import hashlib
import hmac
import threading
import time

from stillframe.conductor.receiver import body as bodies
from stillframe.conductor.receiver import errors
from stillframe.states.transfers import HELD
from stillframe.states.transfers import State

#: Seconds without a byte after which a new upload takes the place of one
#: that runs: its machine is gone, and the connection does not know yet.
SILENT = 5.0
# Seconds that an upload which was cut off gets to end.
_CUT_TIMEOUT = 20.0


@dataclasses.dataclass(frozen=True)
class Received:
    """How far a transfer is.

    :ivar bytes: that are here, or came of the upload that runs.
    :ivar total: bytes that the image will have; None: not known.
    :ivar state: of the database.
    :ivar receiving: whether an upload runs.
    :ivar rate: bytes a second since it was asked last.
    :ivar reason: why the last upload failed; None: none did.
    """

    bytes: int
    total: int | None
    state: State
    receiving: bool
    rate: float
    reason: str | None


def hash_of(password: str) -> str:
    """Give what is kept of a password.

    It has 256 bits from the kernel: nothing slower than a digest would
    make it harder to find.
    """
    return hashlib.sha256(password.encode()).hexdigest()


class Upload:
    """An upload that runs.

    :ivar total: bytes it will have; None: it comes in chunks.
    :ivar cut: ends its connection.
    :ivar reserved: bytes that were promised to it, where the file system
        could not take the room at once.
    """

    def __init__(self, body: bodies.Body, total: int | None,
                 cut: Callable[[], None],
                 clock: Callable[[], float] = time.monotonic):
        self.body = body
        self.total = total
        self.cut = cut
        self.reserved = 0
        self._clock = clock
        self._heard = (0, clock())

    def silence(self) -> float:
        """Tell for how many seconds it has not grown, as far as known."""
        taken, now = self.body.taken, self._clock()
        if taken != self._heard[0]:
            self._heard = (taken, now)
        return now - self._heard[1]


class Transfer:
    """One transfer; all methods may be called by any thread."""

    def __init__(self, name: str, snapshot_id: str, credential_hash: str,
                 state: State = State.WAITING, size: int = 0,
                 sha256: str | None = None,
                 clock: Callable[[], float] = time.monotonic):
        self.name = name
        self.snapshot_id = snapshot_id
        #: An empty file is shown: somebody has locked the name.
        self.locked = False
        self._hash = credential_hash
        self._clock = clock
        self._changed = threading.Condition()
        self._state = state
        self._size = size
        self._sha256 = sha256
        self._upload: Upload | None = None
        self._reason: str | None = None
        self._mark = (0, clock())
        self._rate = 0.0

    def knows(self, password: str) -> bool:
        """Tell whether a password is the one; takes always the same time."""
        return (hmac.compare_digest(self._hash, hash_of(password))
                and self._state is not State.CLOSED)

    @property
    def state(self) -> State:
        """What is here."""
        return self._state

    @property
    def sha256(self) -> str | None:
        """Of the image that is here."""
        return self._sha256

    @property
    def size(self) -> int:
        """Bytes of the image that is here."""
        return self._size

    def outstanding(self) -> int:
        """Tell how many bytes may still come without room of their own."""
        upload = self._upload
        if upload is None:
            return 0
        return max(0, upload.reserved - upload.body.taken)

    def begin(self, upload: Upload) -> None:
        """Let an upload begin; :meth:`end` has to follow.

        One that was silent is cut off for it.

        :raises Busy: another one runs.
        :raises Finished: no more data is taken.
        :raises Revoked: the transfer is closed.
        """
        with self._changed:
            if (old := self._upload) is not None:
                age = old.silence()
                if age < SILENT:
                    raise errors.Busy(age=age)
                old.cut()
                if not self._changed.wait_for(
                        lambda: self._upload is not old, _CUT_TIMEOUT):
                    raise errors.Busy(age=old.silence())
            if self._upload is not None:
                raise errors.Busy(age=0)
            self._may_change()
            self._upload = upload
            self._mark, self._rate = (0, self._clock()), 0.0

    def _may_change(self) -> None:
        if self._state is State.FINISHED:
            raise errors.Finished()
        if self._state is State.CLOSED:
            raise errors.Revoked()

    def drop(self) -> None:
        """Take the image that is here for not here; its file goes."""
        with self._changed:
            self._may_change()
            self._state = State.WAITING
            self._size, self._sha256 = 0, None

    def may_keep(self) -> None:
        """See that an image may arrive.

        :raises Revoked: the transfer was closed meanwhile.
        """
        with self._changed:
            self._may_change()

    def keep(self, size: int, sha256: str) -> None:
        """Take an image for arrived.

        :raises Revoked: the transfer was closed meanwhile.
        """
        with self._changed:
            self._may_change()
            self._state = State.ARRIVED
            self._size, self._sha256 = size, sha256
            self._reason = None

    def end(self, reason: str | None) -> None:
        """Let an upload end.

        :param reason: why it failed; None: it did not.
        """
        with self._changed:
            self._upload = None
            if reason is not None:
                self._reason = reason
            self._changed.notify_all()

    def finish(self) -> None:
        """Take no more data.

        :raises NotArrived: no whole image is here, or another one comes.
        """
        with self._changed:
            if self._upload is not None:
                raise errors.NotArrived(
                    reason='an upload of it still runs')
            if self._state not in HELD:
                raise errors.NotArrived(
                    reason=self._reason or 'nothing was sent')
            self._state = State.FINISHED

    def close(self) -> bool:
        """Let the credential die, and cut off an upload.

        :return: whether none runs any more.
        """
        with self._changed:
            self._state = State.CLOSED
            if self._upload is not None:
                self._upload.cut()
            return self._changed.wait_for(
                lambda: self._upload is None, _CUT_TIMEOUT)

    def progress(self) -> Received:
        """Tell how far it is."""
        with self._changed:
            upload, now = self._upload, self._clock()
            taken = self._size if upload is None else upload.body.taken
            before, since = self._mark
            if upload is None:
                self._rate = 0.0
            elif now - since >= 1.0:
                self._rate = (taken - before) / (now - since)
                self._mark = (taken, now)
            total = (self._size or None) if upload is None else upload.total
            return Received(
                bytes=taken, total=total, state=self._state,
                receiving=upload is not None, rate=self._rate,
                reason=self._reason)
