# SPDX-License-Identifier: Apache-2.0
"""The shapes of what travels by RPC: plain data, described once.

Times that travel are wall-clock UTC in ISO 8601 with microseconds and no
zone (``2026-01-31T23:59:59.000001``), for people to read; no deadline is
ever computed from them. Durations are seconds as floats.
"""

from typing import Any
from typing import NotRequired
from typing import TypedDict


class Volume(TypedDict):
    """One disk of a server.

    :ivar volume_id: the disk's serial when that is a UUID, else a stable
        UUID made from the domain's UUID and the target.
    :ivar target: the target device in the domain (``vda``).
    :ivar device: the device as Nova would name it (``/dev/vda``).
    :ivar source: path or network name on the hypervisor; for
        administrators only.
    :ivar format: the driver type of the active layer as libvirt has it
        configured, never probed; None where it says nothing.
    """

    volume_id: str
    target: str
    device: str
    source: str | None
    format: str | None
    read_only: bool


class Server(TypedDict):
    """What a compute worker knows of one domain.

    :ivar power_state: a number of :mod:`stillframe.states.servers`.
    :ivar agent_state: ``absent`` (no channel), ``disconnected`` or
        ``connected``.
    :ivar flavor: name, vcpus, ram (MiB), disk, ephemeral (GiB), swap (MiB).
    :ivar launched_at: wall clock, None where nobody recorded it.
    """

    uuid: str
    name: str
    domain_name: str
    project_id: str
    user_id: str
    power_state: int
    agent_state: str
    flavor: dict[str, Any]
    image_id: str | None
    launched_at: str | None
    volumes: list[Volume]


class Outcome(TypedDict):
    """How a piece of work on a guest ended; kept until acknowledged.

    :ivar id: identifies this report; a second one changes nothing.
    :ivar kind: ``quiesce``, ``unquiesce``, ``reset`` (a request of the
        API's ended) or ``freeze_ended`` (a freeze ended that nobody asked
        to end) or ``thawed`` (a guest that had been given up as frozen was
        verified thawed after all) or ``volume_snapshot`` (a request for a
        volume's snapshot ended; the request id is that of the operation)
        or ``image`` (a request for an image of a server ended).
    :ivar request_id: the action's request id; for ``freeze_ended`` and
        ``thawed`` one that the worker made for the system's own action.
    :ivar freeze_id: the request id of the quiesce whose freeze this is
        about; None where there was none.
    :ivar result: a :class:`stillframe.states.servers.Result`.
    :ivar reason: a stable word: ``deadline``, ``rebooted``, ``stopped``,
        ``thawed_by_guest``, ``agent``, ``stale``, ``moved``, ``restarted``,
        … or the error's kind.
    :ivar message: sentence that any user of the server may read.
    :ivar detail: for administrators: exception text, counts.
    :ivar filesystems: file systems frozen; None where unknown.
    :ivar thawed: file systems that the thaw released; None where unknown.
    :ivar verified_thawed: whether the guest was seen thawed.
    :ivar started_at: wall clock at which the work began.
    :ivar finished_at: wall clock at which it ended.
    :ivar frozen_at: wall clock at which the freeze was acknowledged.
    :ivar ended_at: wall clock at which the freeze ended, as far as known.
    :ivar timeout: seconds from the freeze call to the deadline.
    :ivar freeze_call: seconds from freeze call to acknowledgement.
    :ivar thaw_call: seconds from thaw call to acknowledgement.
    :ivar frozen_for: seconds from the freeze call until the thaw was
        acknowledged.
    :ivar state: for ``reset``: the vm_state wished for.
    """

    id: str
    kind: str
    server_id: str
    request_id: str
    freeze_id: str | None
    result: str
    reason: str | None
    message: str
    detail: str | None
    filesystems: int | None
    thawed: int | None
    verified_thawed: bool | None
    started_at: str
    finished_at: str
    frozen_at: str | None
    ended_at: str | None
    timeout: float | None
    freeze_call: float | None
    thaw_call: float | None
    frozen_for: float | None
    state: NotRequired[str | None]
    snapshot: NotRequired['VolumeSnapshotEnd']
    image: NotRequired['ImageEnd | None']


class VolumeSnapshot(TypedDict):
    """A request for a volume snapshot, for the worker.

    :ivar operation_id: identifies the request.
    :ivar operation: ``create``, or else a merge: ``delete`` or ``undo``.
    :ivar new_file: of a create: the overlay's name.
    :ivar file_to_merge: of a merge; see
        :mod:`stillframe.compute.libvirt.chains`.
    :ivar merge_target_file: of a merge.
    :ivar require_quiesce: of a create: fail when the guest cannot be
        frozen for it.
    """

    operation_id: str
    operation: str
    server_id: str
    volume_id: str
    snapshot_id: str
    new_file: NotRequired[str]
    file_to_merge: NotRequired[str | None]
    merge_target_file: NotRequired[str | None]
    require_quiesce: NotRequired[bool]


class VolumeSnapshotClaim(TypedDict):
    """Whether a worker may begin the work of a request.

    :ivar go: if not, it was given up or belongs to another host.
    :ivar formats: known formats of the volume's files, by bare name.
    :ivar merged_before: this very merge was done by an earlier request.
    :ivar strays: names of files of which Cinder does not know.
    """

    go: bool
    formats: dict[str, str]
    merged_before: bool
    strays: NotRequired[list[str]]


class VolumeSnapshotEnd(TypedDict):
    """What the outcome of a volume snapshot says beyond any other.

    :ivar formats: format of the file that changed, by bare name; empty
        when none did.
    :ivar learned: formats of all files of the chain as it was seen last.
    :ivar chain_before, chain_after: the layers, active one first, each with
        ``path`` and ``format``; None where the disk could not be looked at.
    :ivar consistency: of a new snapshot: ``filesystem`` or ``crash``.
    :ivar freeze: of a new snapshot: whether and how the guest was frozen
        for it: ``by`` (``snapshot``, ``quiesce`` or None), ``window``
        (seconds), ``filesystems``, ``reason`` (why not).
    """

    operation_id: str
    formats: dict[str, str]
    learned: dict[str, str]
    chain_before: list[dict[str, str | None]] | None
    chain_after: list[dict[str, str | None]] | None
    consistency: str | None
    freeze: dict[str, Any] | None


class Image(TypedDict):
    """A request for an image of a server, for the worker.

    :ivar image_id: of the image that was made for the root disk; those of
        further disks follow from it.
    :ivar owner: project of the images.
    :ivar properties: of all images, beyond what the worker adds.
    :ivar require_quiesce: rather none than one of a server that was not
        frozen.
    :ivar token: of the user who asks: snapshots that Cinder makes for the
        image belong to whoever asks for them. It is kept nowhere.
    :ivar token_project: id of the project that the token is for.
    """

    server_id: str
    image_id: str
    name: str
    owner: str
    properties: dict[str, str]
    require_quiesce: bool
    token: NotRequired[str | None]
    token_project: NotRequired[str | None]


class ImageEnd(TypedDict):
    """What the outcome of an image that is complete says beyond any other.

    :ivar images: image id by disk target.
    :ivar snapshots: id of Cinder's snapshot by disk target.
    :ivar size: bytes of all images.
    :ivar method: how the point in time was taken: ``backup``, ``overlay``,
        ``stopped`` or ``volumes`` (all disks are Cinder's).
    :ivar consistency: ``filesystem`` or ``crash``.
    :ivar freeze: ``image`` (frozen for it), ``quiesce`` (frozen before, by
        a request) or ``none``.
    :ivar window: seconds for which the guest was frozen for it.
    :ivar why_not: why it is not consistent; None when it is.
    """

    image_id: str
    images: dict[str, str]
    snapshots: dict[str, str]
    size: int
    method: str
    consistency: str
    freeze: str
    window: float | None
    why_not: str | None


#: Answers to an outcome. Only ``stale`` asks something of the worker: a
#: freeze that nobody waits for any more is thawed at once, and snapshots in
#: Cinder for an image that was given up are removed.
APPLIED = 'applied'
DUPLICATE = 'duplicate'
STALE = 'stale'
UNKNOWN = 'unknown'


class Verdict(TypedDict):
    """What the conductor made of one outcome; each of the four acks it."""

    id: str
    verdict: str


class ServersReply(TypedDict):
    """The conductor's answer to a report of servers.

    :ivar quiesced: server id → freeze id of the servers that are shown as
        quiesced on this host. The worker answers for each that its journal
        does not know with a ``freeze_ended`` outcome.
    """

    quiesced: dict[str, str]


class ServiceReply(TypedDict):
    """The conductor's answer to a service report.

    :ivar resync: the conductor's picture differs; send all servers.
    """

    resync: bool
