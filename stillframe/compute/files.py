# SPDX-License-Identifier: Apache-2.0
"""Files that are either whole or not there, also after a power cut.

Standard library only: the guard uses this too.
"""

import os
import pathlib
import time

_SUFFIX = '.tmp'
_DAMAGED = '.damaged'
# Seconds for which a damaged file is there to be looked at.
_KEPT = 30 * 86400


def sync_folder(folder: pathlib.Path) -> None:
    """Make the names in a folder durable."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write(path: pathlib.Path, text: str, durably: bool = True) -> None:
    """Replace a file; readers see the old text or the new.

    :param durably: also after a power cut. Without it the new text
        outlives every process, and after a power cut it may be the old
        one.
    :raises OSError: the disk refused it; the old file is untouched.
    """
    temporary = path.with_name(path.name + _SUFFIX)
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        with os.fdopen(handle, 'w', encoding='utf-8') as file:
            file.write(text)
            if durably:
                file.flush()
                os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    if durably:
        sync_folder(path.parent)


def remove(path: pathlib.Path) -> None:
    """Remove a file durably; one that is gone already is no error."""
    path.unlink(missing_ok=True)
    sync_folder(path.parent)


def set_aside(path: pathlib.Path) -> None:
    """Put a file that cannot be understood out of the way.

    It is kept for 30 days, for administrators; then sweep() removes it.
    """
    aside = path.with_name(path.name + _DAMAGED)
    path.replace(aside)
    os.utime(aside)


def sweep(folder: pathlib.Path, ending: str) -> None:
    """Remove what nobody needs any more from a folder.

    That are the halves that a killed writer left, and files that were set
    aside long ago. To be called by the only writer of files with this name
    ending, before it writes.
    """
    for path in folder.glob('*' + ending + _SUFFIX):
        path.unlink(missing_ok=True)
    for path in folder.glob('*' + ending + _DAMAGED):
        if path.is_file() and time.time() - path.stat().st_mtime > _KEPT:
            path.unlink(missing_ok=True)
