# SPDX-License-Identifier: Apache-2.0
"""The compute worker's side of its RPC; see :mod:`stillframe.rpc.versions`.

Casts hand their work to the worker's pool and return, so that a silent
guest does not keep the transport from taking the next message.
"""

from typing import Any

from oslo_log import log
import oslo_messaging

from stillframe import context
from stillframe.compute import worker as worker_
from stillframe.rpc import payloads
from stillframe.rpc import versions

LOG = log.getLogger(__name__)


class ComputeManager:
    """RPC endpoint."""

    target = oslo_messaging.Target(version=versions.COMPUTE_VERSION)

    def __init__(self, worker: 'worker_.Worker'):
        self._worker = worker

    def quiesce_server(self, ctxt: context.RequestContext, server_id: str,
                       timeout: float,
                       mountpoints: list[str] | None) -> None:
        """Freeze a guest; ends in an outcome ``quiesce``."""
        self._worker.work(
            ctxt, self._worker.quiescer.quiesce, ctxt.request_id, server_id,
            timeout, mountpoints)

    def unquiesce_server(self, ctxt: context.RequestContext,
                         server_id: str, freeze_id: str) -> None:
        """Thaw a guest; ends in an outcome ``unquiesce``."""
        self._worker.work(
            ctxt, self._worker.unquiescer.unquiesce, ctxt.request_id,
            server_id, freeze_id)

    def reset_server(self, ctxt: context.RequestContext, server_id: str,
                     state: str) -> None:
        """Thaw a guest if need be; ends in an outcome ``reset``."""
        self._worker.work(
            ctxt, self._worker.unquiescer.reset, ctxt.request_id, server_id,
            state)

    def snapshot_volume(self, ctxt: context.RequestContext,
                        snapshot: payloads.VolumeSnapshot) -> None:
        """Make or merge a volume's snapshot."""
        self._worker.volumes.take_up(snapshot)

    def image_server(self, ctxt: context.RequestContext,
                     image: payloads.Image) -> None:
        """Make an image of a server; ends in an outcome ``image``."""
        self._worker.imager.submit(ctxt.request_id, image)

    def ping(self, ctxt: context.RequestContext) -> dict[str, Any]:
        """Say how the worker is."""
        return self._worker.condition()
