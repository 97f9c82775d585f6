# SPDX-License-Identifier: Apache-2.0
"""libvirt's event loop: one thread for all connections of the process."""

import threading

import libvirt

_lock = threading.Lock()
_users = 0
_thread: threading.Thread | None = None
_registered = False
_stopping = False


def start() -> None:
    """Run the loop, once, for one more user.

    Must come before the first connection is opened.
    """
    global _users, _thread, _registered, _stopping
    with _lock:
        if not _registered:
            libvirt.virEventRegisterDefaultImpl()
            _registered = True
        _users += 1
        if _thread is None:
            _stopping = False
            _thread = threading.Thread(
                target=_run, name='libvirt-events', daemon=True)
            _thread.start()


def stop() -> None:
    """Take one user away; with the last one the loop ends."""
    global _users, _thread, _stopping
    with _lock:
        _users -= 1
        if _users or _thread is None:
            return
        _stopping = True
        # A timer that is due makes the loop look at the flag.
        timer = libvirt.virEventAddTimeout(0, lambda *_args: None, None)
        _thread.join(10)
        libvirt.virEventRemoveTimeout(timer)
        _thread = None


def _run() -> None:
    while not _stopping:
        libvirt.virEventRunDefaultImpl()
