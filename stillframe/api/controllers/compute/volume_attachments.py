# SPDX-License-Identifier: Apache-2.0
"""GET /servers/{id}/os-volume_attachments[/{volume_id}]."""

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from stillframe import exceptions
from stillframe.api import paging
from stillframe.api import request
from stillframe.api.controllers import base
from stillframe.api.schemas import volume_attachments as schema
from stillframe.api.views import volume_attachments as views
from stillframe.db import servers as db
from stillframe.policies import volume_attachments as policies


class VolumeAttachmentsController:
    """Reads which volumes a server has."""

    def __init__(self, services: base.Services):
        self._services = services
        self._max_limit = services.conf.api.max_limit

    @base.expose
    def index(self, req: request.Request, resp: Any,
              server_id: str) -> dict[str, Any]:
        """List the volumes of a server."""
        query = schema.parse(req)
        rows = self._volumes(req, policies.INDEX, server_id)
        page = paging.by_offset(rows, query, self._max_limit)
        return {'volumeAttachments': [
            views.attachment(row, req.minor) for row in page]}

    @base.expose
    def show(self, req: request.Request, resp: Any, server_id: str,
             volume_id: str) -> dict[str, Any]:
        """Show one volume of a server."""
        for row in self._volumes(req, policies.SHOW, server_id):
            if row['volume_id'] == volume_id:
                return {'volumeAttachment': views.attachment(
                    row, req.minor)}
        raise exceptions.VolumeNotAttached(server=server_id,
                                           volume=volume_id)

    def _volumes(self, req: request.Request, rule: str,
                 server_id: str) -> Sequence[sa.RowMapping]:
        server = db.get(server_id)
        self._services.policy.check_server(req.ctxt, rule, server)
        return db.volumes_of(server_id)
