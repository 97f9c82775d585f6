# SPDX-License-Identifier: Apache-2.0
"""The conductor's RPC about volume snapshots."""

import oslo_messaging

from stillframe import context
from stillframe.conductor import volume_snapshots
from stillframe.db import volume_snapshot_claims as db
from stillframe.rpc import payloads
from stillframe.rpc import versions


class VolumeManager:
    """An RPC endpoint; the client side is rpc/conductor_api.py."""

    target = oslo_messaging.Target(version=versions.CONDUCTOR_VERSION)

    def __init__(self, volumes: volume_snapshots.VolumeSnapshots):
        self._volumes = volumes

    def reach(self, ctxt: context.RequestContext) -> None:
        """Do nothing: that a cast arrives tells its sender of a broker."""

    def start_volume_snapshot(self, ctxt: context.RequestContext,
                              operation_id: str) -> None:
        """Hand an accepted request to its worker.

        :raises ServiceUnavailable: it was not begun.
        """
        self._volumes.begin(ctxt, operation_id)

    def claim_volume_snapshot(self, ctxt: context.RequestContext, host: str,
                              operation_id: str
                              ) -> payloads.VolumeSnapshotClaim:
        """Let a worker begin, unless the request was given up.

        :raises ServiceUnavailable: the database cannot be reached.
        """
        return db.claim(operation_id, host)

    def report_volume_snapshot(self, ctxt: context.RequestContext,
                               host: str, operation_id: str,
                               percent: int) -> None:
        """Take down how far a merge is.

        :raises ServiceUnavailable: the database cannot be reached.
        """
        db.note_progress(operation_id, host, percent)
