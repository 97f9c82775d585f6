# SPDX-License-Identifier: Apache-2.0
"""Whether this machine can mount by FUSE, as davfs2 and nbdfuse do.

Ask when tests are collected, and skip what cannot be:
``pytest.mark.skipif(bool(fuse.why_not()), reason=fuse.why_not())``.
"""

from __future__ import annotations

import os


def why_not() -> str:
    """Say why nobody can mount by FUSE here; "" where one can."""
    try:
        # A kernel without FUSE may have the device all the same.
        os.close(os.open("/dev/fuse", os.O_RDWR))
    except OSError as exc:
        return f"this kernel has no FUSE for us: {exc}"
    return ""


def why_no_davfs() -> str:
    """Say why davfs2 cannot mount here; "" where it can."""
    # Others need a line in fstab.
    return "davfs2 mounts for root" if os.geteuid() else why_not()
