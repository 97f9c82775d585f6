# SPDX-License-Identifier: Apache-2.0
"""What frames any demonstration: its last line, its status, Ctrl-C."""

from __future__ import annotations

from collections.abc import Callable
import json
import signal
import time
from typing import Any

import httpx
import libvirt

from tests.lab.processes import LabError


class DemoFailed(Exception):
    """The demonstration did not show what it promises."""


def _interrupt(_number: int, _frame: object) -> None:
    """Break off, once: no impatient second Ctrl-C disturbs the clean-up."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    print("\nInterrupted; cleaning up", flush=True)
    raise KeyboardInterrupt


def main(demonstrate: Callable[[], dict[str, Any]]) -> int:
    """Play a demonstration; return the exit status.

    :param demonstrate: returns its figures, and leaves nothing behind
        whatever it raises.
    """
    # A polite kill cleans up like Ctrl-C does.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupt)
    start = time.monotonic()
    try:
        figures = demonstrate()
    except KeyboardInterrupt:
        print("\nDEMO FAILED interrupted; all is cleaned up")
        return 130
    except (DemoFailed, LabError, httpx.HTTPError, libvirt.libvirtError,
            OSError) as error:
        print(f"\nDEMO FAILED {error}")
        return 1
    figures["seconds"] = round(time.monotonic() - start, 1)
    print(f"\nDEMO OK {json.dumps(figures)}")
    return 0
