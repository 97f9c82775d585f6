# SPDX-License-Identifier: Apache-2.0
"""/os-assisted-volume-snapshots: what Cinder asks of the hypervisor.

POST and DELETE are Nova's, as Cinder's file-based drivers use them by
python-novaclient; GET is ours, for administrators. An error here ends the
snapshot in Cinder at once, so a request that cannot be begun is refused
rather than left to run into Cinder's time-outs.
"""

import threading
import time
from typing import Any

import sqlalchemy as sa

from stillframe import exceptions
from stillframe.api import request
from stillframe.api.controllers import base
from stillframe.api.schemas import assisted_volume_snapshots as schemas
from stillframe.api.schemas import validation
from stillframe.api.views import assisted_volume_snapshots as views
from stillframe.db import transitions
from stillframe.db import volume_snapshots as db
from stillframe.policies import assisted_volume_snapshots as policies
from stillframe.states import volume_snapshots as states

# Cinder acts on an outcome as soon as it has it, so its next request may be
# here before its acknowledgement of the last one. Seconds to wait for that,
# and between looks: the acknowledgement comes to another process.
_TOLD_WITHIN = 5.0
_LOOK_AGAIN = 0.05

# Requests for one snapshot that are shown at most.
_SHOWN = 20
_NOT_BEGUN = ('The request could not be handed to the compute worker, so '
              'nothing was done.')
_INCOMPLETE = ('Nothing was merged, since delete_info lacks {missing}: what '
               'is not said is not guessed.')


class AssistedVolumeSnapshotsController:
    """Takes requests for volume snapshots."""

    def __init__(self, services: base.Services):
        self._services = services
        self._create = validation.Validator(schemas.CREATE)
        self._timeout = services.conf.volume_snapshots.handover_timeout
        self._never = threading.Event()

    @base.expose
    def create(self, req: request.Request, resp: Any) -> dict[str, Any]:
        """Have a volume's disk switched to a new file."""
        self._services.policy.check(req.ctxt, policies.CREATE)
        body = req.document()
        self._create.check(body, req.legacy)
        wish = body['snapshot']
        volume_id, info = wish['volume_id'], wish['create_info']
        row = self._accept(req, volume_id, info['snapshot_id'],
                           states.CREATE, {'new_file': info['new_file']})
        self._begin(req, row)
        return {'snapshot': {'id': info.get('id'), 'volumeId': volume_id}}

    @base.expose
    def delete(self, req: request.Request, resp: Any,
               snapshot_id: str) -> Any:
        """Have files of a volume merged."""
        self._services.policy.check(req.ctxt, policies.DELETE)
        schemas.check_snapshot_id(snapshot_id)
        info = schemas.delete_info(req)
        row = self._accept(
            req, info['volume_id'], snapshot_id, states.DELETE,
            {key: info.get(key) for key in ('file_to_merge',
                                            'merge_target_file')})
        missing = sorted(schemas.COMPLETE - set(info))
        if missing:
            # Nova accepts it and fails afterwards; its clients count on
            # the answer.
            db.give_up(row['uuid'], states.State.PENDING,
                       _INCOMPLETE.format(missing=', '.join(missing)),
                       tell=True)
        else:
            self._begin(req, row)
        resp.status = 204
        resp.content_type = None
        return resp

    @base.expose
    def show(self, req: request.Request, resp: Any,
             snapshot_id: str) -> dict[str, Any]:
        """Show what became of the requests for a snapshot."""
        self._services.policy.check(req.ctxt, policies.SHOW)
        rows = db.of_snapshot(snapshot_id, _SHOWN)
        if not rows:
            raise exceptions.NotFound(
                f'No request for the snapshot {snapshot_id[:64]} is known.')
        return views.snapshot(rows, db.known_formats(rows[0]['volume_id']))

    def _accept(self, req: request.Request, volume_id: str,
                snapshot_id: str, operation: str,
                wish: dict[str, Any]) -> sa.RowMapping:
        """Write a request down, if it can be begun."""
        server = db.attached(volume_id)
        db.check_state(server, operation)
        worker = self._services.workers.get(server['host'])
        if worker is None or not worker.up:
            raise exceptions.HostDown(
                action=f'volume_snapshot_{operation}',
                server=server['uuid'],
                last_seen='never' if worker is None
                else transitions.iso(worker.row['last_seen']))
        until = time.monotonic() + _TOLD_WITHIN
        while True:
            try:
                return db.begin(req.ctxt, volume_id, snapshot_id, operation,
                                wish)
            except exceptions.VolumeBeingTold:
                if time.monotonic() > until:
                    raise
            self._never.wait(_LOOK_AGAIN)

    def _begin(self, req: request.Request, row: sa.RowMapping) -> None:
        """Have a request begun; one that was not never will be."""
        try:
            self._services.conductor.start_volume_snapshot(
                req.ctxt, row['uuid'], self._timeout)
        except exceptions.ServiceUnavailable:
            # The answer says so to Cinder; it need not be told again.
            if db.give_up(row['uuid'], states.State.PENDING, _NOT_BEGUN,
                          tell=False):
                raise
            # A worker has it: the answer was lost, not the request.
