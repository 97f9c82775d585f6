# SPDX-License-Identifier: Apache-2.0
"""POST /servers/{id}/action: createImage."""

from typing import Any
import uuid

from oslo_utils import strutils
import sqlalchemy as sa

from stillframe import context
from stillframe import exceptions
from stillframe.api import microversions
from stillframe.api import request
from stillframe.api.controllers import base
from stillframe.clients import images as clients
from stillframe.db import images as db
from stillframe.db import transitions
from stillframe.rpc import payloads
from stillframe.states import images as states

# Seconds for the store to tell of the image that a server was made from.
_ASK_IMAGE = 10.0
_NOT_STARTED = ('The image could not be started, so nothing was done to the '
                'server: {reason}')


class ServerImages:
    """Begins images of servers.

    The id of the image is chosen and written down first, then its record
    is made in the store, so that a caller can look at it from the answer
    on; only then the work is handed out.
    """

    def __init__(self, services: base.Services):
        self._services = services

    def create(self, req: request.Request, row: sa.RowMapping,
               wish: dict[str, Any]) -> str:
        """Begin an image; give its id."""
        ctxt = req.ctxt
        if not states.can(row['vm_state'], row['task_state']):
            raise db.refusal(row)
        worker = self._services.workers.get(row['host'])
        if worker is None or not worker.up:
            raise exceptions.HostDown(
                action=states.ACTION, server=row['uuid'],
                last_seen='never' if worker is None
                else transitions.iso(worker.row['last_seen']))
        image_id = str(uuid.uuid4())
        moved = db.begin(ctxt, row['uuid'], image_id)
        try:
            self._start(ctxt, moved, image_id, wish,
                        req.headers.get('X-Auth-Token'))
        except exceptions.StillframeError as exc:
            db.give_up(ctxt.request_id, _NOT_STARTED.format(reason=exc))
            raise
        except Exception as exc:
            # Whatever it was, the server must not be held by a request
            # that nobody works on; the error goes on, and is logged.
            db.give_up(ctxt.request_id, _NOT_STARTED.format(
                reason='of an error in the API.'), str(exc))
            raise
        return image_id

    def _start(self, ctxt: context.RequestContext, row: sa.RowMapping,
               image_id: str, wish: dict[str, Any],
               token: str | None) -> None:
        properties = _properties(ctxt, row, wish.get('metadata') or {})
        self._services.images.create(clients.Record(
            id=image_id, name=wish['name'], owner=row['project_id'],
            min_disk=row['flavor'].get('disk') or 0, properties=properties))
        self._services.compute.image_server(ctxt, row['host'], payloads.Image(
            server_id=row['uuid'], image_id=image_id, name=wish['name'],
            owner=row['project_id'], properties=properties, token=token,
            token_project=ctxt.project_id,
            require_quiesce=self._requires_quiesce(row, properties)))

    def _requires_quiesce(self, row: sa.RowMapping,
                          properties: dict[str, str]) -> bool:
        """Tell whether the caller, or the server's image, wants a freeze."""
        wish = properties.get('os_require_quiesce')
        if wish is None and row['image_id'] is not None:
            wish = self._services.images.properties(
                row['image_id'], _ASK_IMAGE).get('os_require_quiesce')
        return strutils.bool_from_string(wish or '')

    def answer(self, req: request.Request, resp: Any, image_id: str) -> Any:
        """Tell the id of an image in the form of the microversion."""
        if req.minor >= microversions.IMAGE_ID:
            resp.status = 202
            return {'image_id': image_id}
        conf = self._services.conf
        store = (conf.glance.endpoint_override if conf.images.store
                 == 'glance' else None) or req.application_url
        resp.headers['Location'] = f'{store.rstrip("/")}/images/{image_id}'
        return base.accepted(resp)


def _properties(ctxt: context.RequestContext, row: sa.RowMapping,
                wished: dict[str, str]) -> dict[str, str]:
    """Give the properties that Nova gives its images of servers."""
    found = {'image_type': 'snapshot', 'instance_uuid': row['uuid'],
             'base_image_ref': row['image_id'], 'user_id': ctxt.user_id}
    return {**wished, **{key: value for key, value in found.items()
                         if value is not None}}
