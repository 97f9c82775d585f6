# SPDX-License-Identifier: Apache-2.0
"""What to say of images: their figures, their properties, what went wrong.

Pure functions. The sentences may be read by any user of the server: they
name no path, host or other tenant.
"""

from typing import Any

from stillframe import exceptions
from stillframe.clients import cinder
from stillframe.clients import cinder_snapshots
from stillframe.clients import images
from stillframe.compute import brief as brief_
from stillframe.compute import quiescing
from stillframe.compute.imaging import exports
from stillframe.compute.imaging import points
from stillframe.compute.imaging import streaming
from stillframe.compute.imaging import volumes
from stillframe.compute.libvirt import backup
from stillframe.compute.libvirt import domain_xml
from stillframe.compute.libvirt import image_disks
from stillframe.compute.libvirt.troubles import AgentTrouble
from stillframe.compute.libvirt.troubles import Trouble
from stillframe.nbd import client as nbd
from stillframe.qcow2 import writer
from stillframe.rpc import payloads


def describe(image_id: str, moment: brief_.Moment, method: str,
             snapshots: dict[str, str]) -> payloads.ImageEnd:
    """Give the figures of an image whose point in time was taken.

    :param method: how; see :mod:`stillframe.compute.imaging.points`.
    :param snapshots: ids of Cinder's snapshots by target.
    """
    if moment.quiesced:
        freeze = 'quiesce'
    else:
        freeze = 'image' if moment.frozen else 'none'
    return {
        'image_id': image_id, 'images': {}, 'snapshots': snapshots,
        'size': 0,
        'method': method,
        'consistency': 'filesystem' if moment.held else 'crash',
        'freeze': freeze, 'window': moment.window,
        'why_not': None if moment.held else moment.why_not
        or 'The server did not stay frozen.'}


def properties(end: payloads.ImageEnd) -> dict[str, str]:
    """Give the properties of an image that say how it was made."""
    found: dict[str, Any] = {
        'stillframe_method': end['method'],
        'stillframe_consistency': end['consistency'],
        'stillframe_freeze': end['freeze']}
    if end['window'] is not None:
        found['stillframe_freeze_window'] = f'{end["window"]:.3f}'
    return found


def sentence(end: payloads.ImageEnd) -> str:
    """Say what became of an image that is complete."""
    text = 'The image is complete and was verified.'
    if end['window'] is not None:
        text += f' The server was frozen for {end["window"]:.3f} seconds.'
    if end['why_not']:
        text += (f' It is what a crash would have left: {end["why_not"]}')
    return text


#: What is known to go wrong: the reason and the sentence. "{text}" is the
#: error's own text, for those whose text any user may read.
FAILURES: dict[type[Exception], tuple[str, str]] = {
    images.StoreUnavailable: ('store', '{text}'),
    images.ImageGone: ('image_deleted', 'The image was deleted while it was '
                       'being made.'),
    images.ImageRefused: ('store_refused', '{text}'),
    images.ImageDamaged: ('damaged', '{text}'),
    nbd.NBDError: ('disk_lost', 'The disks of the server could no longer be '
                   'read as they were. It may have been stopped, or the '
                   'host may be short of space for what it overwrote.'),
    writer.ShortRead: ('disk_lost', 'A disk of the server gave less data '
                       'than it should have.'),
    streaming.Interrupted: ('stopped', 'The compute worker was stopped '
                            'while it made the image. Try again.'),
    streaming.NoRoom: ('no_scratch', 'The host is short of room for what '
                       'the server overwrites while its image is made. An '
                       'administrator has to see to '
                       '[images]scratch_path.'),
    streaming.TooLong: ('timeout', 'The image was not complete within the '
                        'time that is allowed for one.'),
    brief_.NotThawed: ('freeze_failed', '{text}'),
    quiescing.Refused: ('busy', '{text}'),
    image_disks.DiskError: ('disk', '{text}'),
    domain_xml.BadXML: ('disk', 'The hypervisor describes the server in a '
                        'way that is not understood.'),
    exports.ExportFailed: ('disk', 'The disks of the server could not be '
                           'opened. It may just have been started.'),
    backup.SocketTooLong: ('no_scratch', 'The host has no usable place for '
                           'what the server overwrites while its image is '
                           'made. An administrator has to see to '
                           '[images]scratch_path.'),
    AgentTrouble: ('hypervisor', 'The hypervisor refused to take a point in '
                   'time of the disks of the server. Another job may be at '
                   'work on it; try again.'),
    volumes.NotInTime: ('cinder', 'The block storage service did not '
                        'complete the snapshots of the volumes of the '
                        'server in the time for which it may be frozen.'),
    cinder_snapshots.SnapshotFailed: (
        'cinder', 'The block storage service could not make a snapshot of a '
        'volume of the server.'),
    cinder.Unreachable: ('cinder', 'The block storage service does not '
                         'answer. Look at it, and try again.'),
    cinder.Refused: ('cinder', 'The block storage service refused to make '
                     'snapshots of the volumes of the server.'),
    cinder.Unknown: ('cinder', 'The block storage service does not know a '
                     'volume of the server any more.'),
    points.Busy: ('busy', '{text}'),
    points.NotReleased: ('hypervisor', 'The hypervisor did not end its '
                         'job.'),
    exceptions.StillframeError: ('error', '{text}'),
    OSError: ('host', 'The host could not do its part; an administrator '
              'finds the reason in the details.'),
}


def explain(exc: Exception) -> tuple[str, str]:
    """Say why an image failed.

    :param exc: of one of the kinds in :data:`FAILURES`.
    :return: a stable word, and the sentence.
    """
    if isinstance(exc, AgentTrouble) and exc.kind is Trouble.GONE:
        return 'gone', 'The server is not on its host any more.'
    for kind, (reason, text) in FAILURES.items():
        if isinstance(exc, kind):
            return reason, text.format(text=str(exc))
    raise AssertionError(exc)
