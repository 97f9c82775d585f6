# SPDX-License-Identifier: Apache-2.0
"""The agent's record of what it sent, compared with what is here.

The record comes from a ramdisk: nothing of it is believed before it was
looked at. A compressed qcow2 file is written in one pass, so its header is
known last; the agent reports it, and it is put in its place here. Only what
is a header of such a file may be put there.
"""

import base64
import binascii
from collections.abc import Mapping
import dataclasses
import os
import pathlib
import re
from typing import Any

from stillframe.conductor.receiver import errors
from stillframe.conductor.receiver import storing
from stillframe.qcow2 import header

_SHA256 = re.compile(r'[0-9a-f]{64}')
# Of a header with its extensions; the writer's own has 112 bytes.
_PATCH_MAX = 4096


@dataclasses.dataclass(frozen=True)
class Wanted:
    """What the agent says that it sent.

    :ivar patch: the beginning of the file; None: it is as it was sent.
    """

    size: int
    sha256: str
    patch: bytes | None


def read(result: Mapping[str, Any]) -> Wanted:
    """Read an agent's record.

    :raises BadResult: something is missing or cannot be.
    """
    if result.get('version') != 1:
        raise errors.BadResult(reason='its version is not 1')
    size, sha256 = result.get('size'), result.get('sha256')
    if type(size) is not int or size <= 0:
        raise errors.BadResult(reason='its size is no number above zero')
    if not isinstance(sha256, str) or not _SHA256.fullmatch(sha256):
        raise errors.BadResult(reason='its sha256 is none')
    return Wanted(size, sha256, _patch(result))


def _patch(result: Mapping[str, Any]) -> bytes | None:
    patch = result.get('patch')
    if patch is None:
        return None
    if result.get('disk_format') != 'qcow2':
        raise errors.BadResult(
            reason='only a qcow2 file has a header to be completed')
    if (not isinstance(patch, dict) or type(patch.get('offset')) is not int
            or patch['offset'] != 0 or not isinstance(patch.get('data'), str)
            or len(patch['data']) > 2 * _PATCH_MAX):
        raise errors.BadResult(reason='its patch is no header')
    try:
        data = base64.b64decode(patch['data'], validate=True)
    except (binascii.Error, ValueError):
        raise errors.BadResult(reason='its patch is no base64') from None
    if not 0 < len(data) <= _PATCH_MAX:
        raise errors.BadResult(
            reason=f'its patch has {len(data)} bytes, where a header has at '
            f'most {_PATCH_MAX}')
    return data


def compare(wanted: Wanted, size: int, sha256: str | None) -> None:
    """See that what is here is what was sent.

    :raises Differs: it is not.
    """
    if wanted.size != size:
        raise errors.Differs(what='the size in bytes', here=size,
                             there=wanted.size)
    if wanted.sha256 != sha256:
        raise errors.Differs(what='the SHA-256', here=sha256,
                             there=wanted.sha256)


def complete(path: pathlib.Path, wanted: Wanted) -> None:
    """Put the header that was known last in its place, on the disk.

    :raises BadImage: it is no header of a file that stands alone.
    :raises StoreFailed: it cannot be written.
    """
    if wanted.patch is None:
        return
    with storing.told():
        handle = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            _complete(handle, wanted)
            os.fsync(handle)
        finally:
            os.close(handle)


def _complete(handle: int, wanted: Wanted) -> None:
    data = wanted.patch or b''
    blob = data + os.pread(handle, (2 << 20) - len(data), len(data))
    try:
        parsed = header.parse(blob)
    except header.BadHeader as exc:
        raise errors.BadImage(reason=str(exc)) from None
    if len(data) > 1 << parsed.cluster_bits:
        raise errors.BadImage(reason='its header is longer than a cluster')
    if parsed.backing_file is not None or parsed.data_file:
        raise errors.BadImage(reason='it refers to another file')
    written = os.pwrite(handle, data, 0)
    if written != len(data):
        raise errors.StoreFailed(reason='its header was written in part')
