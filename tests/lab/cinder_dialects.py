# SPDX-License-Identifier: Apache-2.0
"""What a Cinder takes as the news of a snapshot from its compute side.

Two dialects of the body of `os-update_snapshot_status`: the one that the
assisted snapshot improvements describe ("spec") and the one that Cinder
speaks today ("stock").
"""

from __future__ import annotations

from collections.abc import Mapping
import re
from typing import Any

SPEC = "spec"
STOCK = "stock"
ACTION = "os-update_snapshot_status"

#: Which status may follow which.
TRANSITIONS = {
    SPEC: {"creating": ("creating", "creating_compute_complete", "error"),
           "deleting": ("deleting", "deleting_compute_complete",
                        "error_deleting")},
    STOCK: {"creating": ("creating", "available", "error"),
            "deleting": ("deleting", "error_deleting")},
}
#: What tells, in each dialect, that the compute side has done its part.
COMPLETE = {
    SPEC: {"creating_compute_complete": "available",
           "deleting_compute_complete": "gone"},
    STOCK: {"creating": "available", "deleting": "gone"},
}
FORMATS = ("raw", "qcow2")


class Refused(Exception):
    """Cinder would answer 400 with this text."""


def update_of(body: Any, dialect: str) -> Mapping[str, Any]:
    """Check the body of a request; return what the action holds.

    Stricter than Cinder where Stillframe promises more: with a completion
    in the spec's dialect come file_format and the progress 90%, and nothing
    else comes with that progress, for Cinder would keep it and take the
    next delete for done.  Any other progress may be told meanwhile.

    :raises Refused: when the body is not exactly as it must be.
    """
    if not isinstance(body, dict) or list(body) != [ACTION]:
        raise Refused(f"the body must hold {ACTION} and nothing else")
    update = body[ACTION]
    if not isinstance(update, dict):
        raise Refused(f"{ACTION} must be an object")
    known = {"status", "progress"}
    if dialect == SPEC:
        known.add("file_format")
    unknown = sorted(set(update) - known)
    if unknown:
        raise Refused(f"Additional properties are not allowed ({unknown})")
    if not isinstance(update.get("status"), str):
        raise Refused("'status' is a required property")
    progress = update.get("progress")
    if progress is not None and not _is_progress(progress):
        raise Refused(f"{progress!r} is no progress in percent")
    if update["status"].startswith("error") and progress == "90%":
        raise Refused("an error must not come with the progress 90%")
    if dialect == SPEC:
        _check_completion(update)
    return update


def _is_progress(progress: object) -> bool:
    return (isinstance(progress, str)
            and re.fullmatch(r"\d{1,3}%", progress) is not None
            and int(progress[:-1]) <= 100)


def _check_completion(update: Mapping[str, Any]) -> None:
    formats = update.get("file_format")
    if update["status"] not in COMPLETE[SPEC]:
        if formats is not None:
            raise Refused("file_format comes with a completion only")
        if update["status"] in COMPLETE[STOCK] and \
                update.get("progress") in (None, "90%"):
            raise Refused("that is how a stock Cinder is told")
        return
    if update.get("progress") != "90%":
        raise Refused("a completion must come with the progress 90%")
    if not isinstance(formats, dict) or len(formats) != 1:
        raise Refused("file_format must tell of exactly one file")
    for name, image_format in formats.items():
        if not name or "/" in name:
            raise Refused(f"{name!r} is no bare file name")
        if image_format not in FORMATS:
            raise Refused(f"{image_format!r} is no format of {FORMATS}")


def next_status(present: str, update: Mapping[str, Any], dialect: str
                ) -> str:
    """Return a snapshot's status after an update.

    :raises Refused: when the present status does not allow it.
    """
    status = str(update["status"])
    allowed = TRANSITIONS[dialect].get(present)
    if allowed is None:
        raise Refused(f"Snapshot status {present} not allowed for "
                      "update_snapshot_status")
    if status not in allowed:
        raise Refused(f"Provided snapshot status {status} not allowed for "
                      f"snapshot with status {present}")
    if update.get("progress") == "90%":
        # What Cinder itself does next: it publishes or removes it.
        return COMPLETE[dialect].get(status, status)
    return status
